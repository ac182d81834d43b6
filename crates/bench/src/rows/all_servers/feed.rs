//! Measures how fast a node publishes the changes that a dead node has left in MongoDB, by the change feed;
//! over a bare change stream.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::TryStreamExt as _;
use kith_lab_servers::wait::until;
use kith_proto::user::v1::{GetUserRequest, user_service_client::UserServiceClient};
use kith_store_cluster::MongoOptions;
use mongodb::{
    Collection,
    bson::{Document, doc},
};
use tokio::time::{Instant, timeout};

use super::stage::ClusterStage;
use crate::{
    claims::{FEED_RATE, Plan},
    ratio::{Pair, count},
    results::Results,
    rows::mongodb::durable_database,
};

const WITHIN: Duration = Duration::from_secs(120);

/// Runs the row if it is requested. In each round, one command changes all users, and the last of them is in
/// memory. Both sides see the same changes.
pub(super) async fn rows(
    plan: &Plan,
    stage: &ClusterStage,
    users: i64,
    results: &mut Results<'_>,
) -> Result<()> {
    let Some(uri) = plan.mongodb.as_ref().filter(|_| plan.wants(&FEED_RATE)) else { return Ok(()) };
    let database = durable_database(&MongoOptions::new(uri, stage.keyspace.name())).await?;
    let stored = database.collection::<Document>("users");
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        rounds.push(changed(stage, &stored, users, i64::try_from(round)? + 1).await?);
    }
    results.add(&FEED_RATE, &rounds)
}

/// Changes a second on each side, from the command on.
async fn changed(
    stage: &ClusterStage,
    stored: &Collection<Document>,
    users: i64,
    round: i64,
) -> Result<Pair<f64>> {
    let name = &format!("round {round}");
    ensure!(nick_name(stage, users).await? != *name, "the user is changed already");
    let mut stream = stored.watch().await?;
    let changed = count(usize::try_from(users)?);
    let begun = Instant::now();
    let writing = {
        let stored = stored.clone();
        // The form of a node's writes: without `u`, it would be a change by hand, which gets a version.
        let change = doc! { "$set": { "nick": name, "u": round }, "$inc": { "v": 1_i64 } };
        tokio::spawn(async move { stored.update_many(doc! { "_id": { "$lte": users } }, change).await })
    };
    let bare = async {
        for _ in 0..users {
            stream.try_next().await?.context("the stream ends")?;
        }
        anyhow::Ok(begun.elapsed())
    };
    let kith = async {
        let is_published = async || Ok(nick_name(stage, users).await? == *name);
        until("the last change is not published", WITHIN, is_published).await?;
        anyhow::Ok(begun.elapsed())
    };
    let (bare, kith) = tokio::join!(timeout(WITHIN, bare), kith);
    let written = writing.await??.modified_count;
    ensure!(i64::try_from(written)? == users, "{written} users are changed of {users}");
    let rate = |taken: Duration| changed / taken.as_secs_f64();
    Ok(Pair { baseline: rate(bare.context("the stream lacks changes")??), kith: rate(kith?) })
}

async fn nick_name(stage: &ClusterStage, user_id: i64) -> Result<String> {
    let request = GetUserRequest { user_id, consistency: None };
    let answer = UserServiceClient::new(stage.channel()).get_user(request).await?.into_inner();
    Ok(answer.user.context("a user is missing")?.nick_name)
}
