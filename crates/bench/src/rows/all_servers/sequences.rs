//! Counts which numbers are used in a sequence that several nodes give out.

use anyhow::{Context as _, Result, ensure};
use kith_proto::sequence::v1::{ReserveSeqsRequest, sequence_service_client::SequenceServiceClient};

use super::stage::ClusterStage;
use crate::{
    claims::{Plan, SEQUENCE_USED},
    load::at_once,
    ratio::{Pair, count},
    results::Results,
};

const NODES: usize = 3;
/// Callers on each node.
const CALLERS: usize = 10;

/// Runs the row if it is requested and there are servers.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants(&SEQUENCE_USED) {
        return Ok(());
    }
    let Some(stage) = ClusterStage::start(plan, "sequence", NODES, 0).await? else { return Ok(()) };
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        rounds.push(Pair { baseline: 1.0, kith: used(plan, &stage, round).await? });
    }
    results.add(&SEQUENCE_USED, &rounds)?;
    stage.remove(plan).await
}

/// The share that was used, up to the highest number that was given out.
async fn used(plan: &Plan, stage: &ClusterStage, round: usize) -> Result<f64> {
    let (name, takes) = (format!("bench-{round}"), plan.size(500, 20));
    let numbers = at_once(NODES * CALLERS, |caller| {
        let mut client = SequenceServiceClient::new(stage.nodes[caller % NODES].channel.clone());
        let request = ReserveSeqsRequest { name: name.clone(), count: 1, above: 0 };
        async move {
            let mut numbers = Vec::with_capacity(takes);
            for _ in 0..takes {
                let ranges = client.reserve_seqs(request.clone()).await?.into_inner().ranges;
                numbers.push(ranges.first().context("no number was reserved")?.first);
            }
            Ok(numbers)
        }
    });
    let mut numbers = numbers.await?.concat();
    let given = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    ensure!(numbers.len() == given, "a number was given out twice");
    let last = numbers.last().context("no number was reserved")?;
    Ok(count(given) / count(usize::try_from(*last)?))
}
