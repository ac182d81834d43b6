//! Relation counts, which the store corrects shortly after a change, without a broadcast.

use std::time::{Duration, Instant};

use kith_proto::relation::v1::{
    CountRelationsRequest, FollowRequest, UnfollowRequest, relation_service_client::RelationServiceClient,
};
use tonic::transport::Channel;

use crate::{
    cluster::site::{Peer, Site, stop, with_relations},
    polls::until,
};

/// How long after the list's last change the count may be wrong.
const RIGHT_WITHIN: Duration = Duration::from_secs(11);

impl Peer {
    fn relations(&self) -> RelationServiceClient<Channel> {
        RelationServiceClient::new(self.channel())
    }

    /// Returns how many users the user follows.
    async fn following(&self, user_id: i64) -> i64 {
        let request = CountRelationsRequest { user_id, consistency: None };
        self.relations().count_relations(request).await.unwrap().into_inner().following
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn counts_are_right_on_every_node_in_time() {
    let nodes: [Peer; 3] = Site::in_redis_of_tests().nodes(with_relations).await;
    let [a, b, _] = &nodes;
    let target_id = a.create("target").await.user_id;
    let mut users = Vec::new();
    for number in 0..16 {
        users.push(a.create(&format!("user{number}")).await.user_id);
    }
    for user_id in &users {
        let follow = FollowRequest { user_id: *user_id, target_id, ..FollowRequest::default() };
        a.relations().follow(follow).await.unwrap();
        count_everywhere(&nodes, *user_id).await;
        let unfollow = UnfollowRequest { user_id: *user_id, target_id, ..UnfollowRequest::default() };
        b.relations().unfollow(unfollow).await.unwrap();
        // The lists are counted before the store has counted again.
        count_everywhere(&nodes, *user_id).await;
    }
    let changed = Instant::now();
    for node in &nodes {
        for user_id in &users {
            let left = RIGHT_WITHIN.saturating_sub(changed.elapsed());
            until(left, async || node.following(*user_id).await == 0).await;
        }
    }
    stop(nodes).await;
}

async fn count_everywhere(nodes: &[Peer], user_id: i64) {
    for node in nodes {
        node.following(user_id).await;
    }
}
