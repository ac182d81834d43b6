//! Measures the resources that servers take while no call comes: without a node, with one node, and with two.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::{load::at_rest, processes::Processes, stage::ClusterStage};
use crate::{
    claims::{IDLE_CASSANDRA, IDLE_MONGOD, IDLE_MONGOD_NEXT, IDLE_NODE, Plan},
    ratio::Pair,
    results::Results,
};

/// The most rounds: each takes most of a minute.
const ROUNDS: usize = 5;

/// Processor time in milliseconds a second.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    node: f64,
    cassandra: f64,
    mongod: f64,
}

/// Runs the requested rows. Without servers, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&IDLE_NODE, &IDLE_CASSANDRA, &IDLE_MONGOD, &IDLE_MONGOD_NEXT]) {
        return Ok(());
    }
    let Some(mut stage) = ClusterStage::start(plan, "idle", 0, 0).await? else { return Ok(()) };
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds.min(ROUNDS) {
        let none = taken(plan, &stage).await?;
        stage.add_node(plan).await?;
        let one = taken(plan, &stage).await?;
        stage.add_node(plan).await?;
        rounds.push([none, one, taken(plan, &stage).await?]);
        stage.nodes.clear();
    }
    let pairs = |pair: fn(&[Taken; 3]) -> Pair<f64>| rounds.iter().map(pair).collect::<Vec<_>>();
    results.add(&IDLE_NODE, &pairs(|[_, one, _]| Pair { baseline: 1.0, kith: one.node }))?;
    let cassandra = |[none, one, _]: &[Taken; 3]| Pair { baseline: none.cassandra, kith: one.cassandra };
    results.add(&IDLE_CASSANDRA, &pairs(cassandra))?;
    let mongod = |[none, one, _]: &[Taken; 3]| Pair { baseline: none.mongod, kith: one.mongod };
    results.add(&IDLE_MONGOD, &pairs(mongod))?;
    let next = |[_, one, two]: &[Taken; 3]| Pair { baseline: one.mongod, kith: two.mongod };
    results.add(&IDLE_MONGOD_NEXT, &pairs(next))?;
    stage.remove(plan).await
}

/// Measures at rest, some time after the last node was started.
async fn taken(plan: &Plan, stage: &ClusterStage) -> Result<Taken> {
    sleep(plan.size(Duration::from_secs(5), Duration::from_millis(100))).await;
    let time = plan.size(Duration::from_secs(10), Duration::from_secs(1));
    let of = async |process: u32| Ok(at_rest(time, &Processes(vec![process])).await? * 1e3);
    let node = async {
        match stage.nodes.first() {
            Some(node) => of(node.served.id()).await,
            None => anyhow::Ok(0.0),
        }
    };
    let (node, cassandra, mongod) = tokio::join!(node, of(stage.cassandra), of(stage.mongod));
    Ok(Taken { node: node?, cassandra: cassandra?, mongod: mongod? })
}
