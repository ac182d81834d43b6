//! The cost of readers whose kind never changes, while other records change all the time.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_proto::change::v1::{ChangeKind, ReadChangesRequest, change_service_client::ChangeServiceClient};
use kith_store_cluster::MongoOptions;
use mongodb::{
    Collection,
    bson::{Document, doc},
};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};
use tonic::transport::Channel;

use crate::{
    claims::{CHANGES_READERS_MONGOD, CHANGES_READERS_NODE, Plan},
    ratio::Pair,
    results::Results,
    rows::{
        all_servers::{load::at_rest, processes::Processes, stage::ClusterStage},
        mongodb::durable_database,
    },
};

/// Readers that wait for notices.
const READERS: usize = 100;
/// Users that change with each command, and how often.
const CHANGED: i64 = 500;
const CHANGED_EVERY: Duration = Duration::from_millis(100);

/// Runs the requested rows: without and with readers, in turns.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&CHANGES_READERS_NODE, &CHANGES_READERS_MONGOD]) {
        return Ok(());
    }
    let Some(stage) = ClusterStage::start(plan, "waiting", 1, CHANGED).await? else { return Ok(()) };
    let uri = plan.mongodb.as_ref().context("there was a MongoDB")?;
    let database = durable_database(&MongoOptions::new(uri, stage.keyspace.name())).await?;
    let writing = tokio::spawn(write(database.collection("users")));
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let without = taken(plan, &stage).await?;
        let mut reading = JoinSet::new();
        for channel in stage.channels().await?.into_iter().cycle().take(plan.size(READERS, 4)) {
            let cursor = super::end(&channel).await?;
            reading.spawn(read(channel, cursor));
        }
        let with = taken(plan, &stage).await?;
        while let Some(ended) = reading.try_join_next() {
            ended??;
        }
        reading.abort_all();
        rounds.push([without, with]);
    }
    writing.abort();
    let of = |server: usize| -> Vec<_> {
        rounds.iter().map(|[without, with]| Pair { baseline: without[server], kith: with[server] }).collect()
    };
    results.add(&CHANGES_READERS_NODE, &of(0))?;
    results.add(&CHANGES_READERS_MONGOD, &of(1))?;
    stage.remove(plan).await
}

/// The processor time that the node and MongoDB take, in milliseconds a second.
async fn taken(plan: &Plan, stage: &ClusterStage) -> Result<[f64; 2]> {
    sleep(plan.size(Duration::from_secs(1), Duration::from_millis(50))).await;
    let time = plan.size(Duration::from_secs(4), Duration::from_millis(500));
    let of = async |process: u32| anyhow::Ok(at_rest(time, &Processes(vec![process])).await? * 1e3);
    let (node, mongod) = tokio::join!(of(stage.nodes[0].served.id()), of(stage.mongod));
    Ok([node?, mongod?])
}

/// Changes 5,000 users a second.
async fn write(users: Collection<Document>) -> Result<()> {
    let mut ticks = interval(CHANGED_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0_i64.. {
        ticks.tick().await;
        let change = doc! { "$set": { "nick": number.to_string() }, "$inc": { "v": 1_i64 } };
        users.update_many(doc! { "_id": { "$lte": CHANGED } }, change).await?;
    }
    Ok(())
}

async fn read(channel: Channel, mut cursor: String) -> Result<()> {
    let mut client = ChangeServiceClient::new(channel);
    loop {
        let kinds = vec![ChangeKind::Notice.into()];
        let request = ReadChangesRequest { cursor, kinds, limit: 0 };
        let page = client.read_changes(request).await?.into_inner();
        cursor = page.cursor;
        sleep(Duration::try_from(page.ask_again_after.unwrap_or_default())?).await;
    }
}
