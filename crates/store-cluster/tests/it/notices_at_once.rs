//! Publishers on several nodes, all for the same audience.

use std::time::{Duration, Instant};

use kith_store::{
    AudienceId, NewAudience, NewNotice, NoticeChange, NoticeId, NoticeTerms, Params, StoreError, Stores,
    Timestamp, Write,
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

async fn publish(stores: Stores, id: i64) -> Result<Duration, StoreError> {
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
    let (id, write, begun) = (NoticeId::new(id).unwrap(), Write::at(Timestamp::now()), Instant::now());
    stores.notices.change_notice(id, NoticeChange::Publish(new), 1_000, write).await?;
    Ok(begun.elapsed())
}

/// How long the publishers took, or why they were refused.
async fn publish_at_once(options: &MongoOptions) -> Vec<Result<Duration, StoreError>> {
    let mut publishers = JoinSet::new();
    for node in 0..NODES {
        let stores = connect(options.clone()).await.unwrap().stores();
        for at in 0..PUBLISHERS {
            publishers.spawn(publish(stores.clone(), 1 + node * PUBLISHERS + at));
        }
    }
    publishers.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn publishers_on_eight_nodes_are_not_refused() {
    // A store on a busy machine is slow, and does not refuse.
    let options = MongoOptions { retry: Duration::from_secs(60), ..server::options() };
    let (stores, _cleaning) = server::open_with(options.clone()).await;
    let new = NewAudience { id: audience(), name: "Customers".into(), of_users: false };
    stores.notices.register_audience(new, 10, Write::at(Timestamp::now())).await.unwrap();
    let published = publish_at_once(&options).await;
    let refused: Vec<_> = published.iter().filter_map(|published| published.as_ref().err()).collect();
    assert!(refused.is_empty(), "{} of {}: {:?}", refused.len(), published.len(), refused.first());
    let slowest = published.iter().flatten().max().unwrap();
    let found = stores.notices.audiences(&[audience()], true).await.unwrap().remove(0);
    let mut slots: Vec<_> = found.entries.iter().map(|entry| entry.slot).collect();
    slots.sort_unstable();
    assert!(slots.into_iter().eq(0..256), "each slot once; the slowest took {slowest:?}");
}
