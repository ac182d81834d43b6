//! Publishers on several nodes, all for the same audience.

use kith_store::{
    AudienceId, NewAudience, NewNotice, NoticeChange, NoticeId, NoticeTerms, Outcome, Params, StoreError,
    Stores, Timestamp, Write,
};
use kith_store_cluster::{MongoOptions, connect};
use tokio::task::JoinSet;

use crate::server;

const NODES: i64 = 8;
/// Publishers on each node, which begin together.
const PUBLISHERS: i64 = 32;

fn audience() -> AudienceId {
    AudienceId::new(1).unwrap()
}

/// Publishes a notice. A write that has collided too often changed nothing, and is made again.
async fn publish(stores: Stores, id: i64) {
    let new = NewNotice {
        title: "News".into(),
        body: "".into(),
        params: Params::default(),
        audiences: vec![audience()],
        terms: NoticeTerms {
            publish: Timestamp(1),
            expire: None,
            pinned: false,
            must_confirm: false,
            for_newcomers: false,
        },
    };
    let (id, write) = (NoticeId::new(id).unwrap(), Write::at(Timestamp::now()));
    loop {
        match stores.notices.change_notice(id, NoticeChange::Publish(new.clone()), 1_000, write.clone()).await
        {
            Err(StoreError::Unavailable { outcome: Outcome::NotApplied, .. }) => {}
            published => return drop(published.unwrap()),
        }
    }
}

async fn publish_at_once(options: &MongoOptions) {
    let mut publishers = JoinSet::new();
    for node in 0..NODES {
        let stores = connect(options.clone()).await.unwrap().stores();
        for at in 0..PUBLISHERS {
            publishers.spawn(publish(stores.clone(), 1 + node * PUBLISHERS + at));
        }
    }
    publishers.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn publishers_on_eight_nodes_get_a_slot_each() {
    let options = server::options();
    let (stores, _cleaning) = server::open_with(options.clone()).await;
    let new = NewAudience { id: audience(), name: "Customers".into(), of_users: false };
    stores.notices.register_audience(new, 10, Write::at(Timestamp::now())).await.unwrap();
    publish_at_once(&options).await;
    let found = stores.notices.audiences(&[audience()], true).await.unwrap().remove(0);
    let mut slots: Vec<_> = found.entries.iter().map(|entry| entry.slot).collect();
    slots.sort_unstable();
    assert!(slots.into_iter().eq(0..256), "each slot once");
}
