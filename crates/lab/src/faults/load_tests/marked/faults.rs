//! Faults in Redis and the nodes, in sequence.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_lab_servers::proxy::Mode;

use super::Workload;
use crate::faults::{
    Figure, Site,
    load_tests::site_fault::{FaultTurns, SiteFault},
};

/// The kinds of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::faults::load_tests) enum MarkLoss {
    /// Redis loses its data, dies, or loses its links to nodes.
    Redis,
    /// The node that has a mark in the store and not in Redis.
    Node,
}

const FAULTS: FaultTurns<'_> = FaultTurns {
    faults: &[
        SiteFault::RedisEmptied,
        SiteFault::RedisKilled,
        SiteFault::NodeCut(Mode::Refuse),
        SiteFault::NodeCut(Mode::Freeze),
        SiteFault::NodeCut(Mode::HoldAnswers),
    ],
    node: None,
    lasts: &[Duration::from_secs(2)],
    healthy_for: Duration::from_millis(500),
};
/// The node dies at one in this many writes.
const DIES: &str = "after_commit=die@25";
/// The minimum number of deaths, and how long a death may take.
const DEATHS_MIN: u64 = 3;
const DIES_WITHIN: Duration = Duration::from_secs(60);

/// Goes on until enough marks are acknowledged, and each fault was there once. The figure: how many.
pub(super) async fn inject(site: &mut Site, state: &Workload, loss: MarkLoss) -> Result<Figure> {
    match loss {
        MarkLoss::Redis => Ok(Figure::count("faults of Redis", FAULTS.inject(site, &state.progress).await?)),
        MarkLoss::Node => Ok(Figure::count("nodes dead", lose_node(site, state).await?)),
    }
}

/// The nodes die in sequence, each after it has written to the store and to nothing else.
async fn lose_node(site: &mut Site, state: &Workload) -> Result<u64> {
    let mut deaths = 0;
    for at in (0..site.members.len()).cycle() {
        if deaths >= DEATHS_MIN && state.progress.has_enough() {
            break;
        }
        let node = &mut site.members.get_mut(at).context("there are three nodes")?.node;
        node.kill();
        node.run_with_variables(&[("KITH_FAILPOINT", DIES)])?;
        node.until_died(DIES_WITHIN).await.context("is the program a build with fail points?")?;
        deaths += 1;
        node.run()?;
        site.until_trusted().await?;
    }
    Ok(deaths)
}
