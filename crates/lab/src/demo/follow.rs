//! Shows that a write on one node is visible on the others.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use tokio::{
    task::yield_now,
    time::{Instant, timeout},
};
use tonic::transport::Channel;

use super::{
    PrintLine,
    cluster::{Cluster, read, write},
    words::seconds,
};

const WRITES: usize = 300;
/// The promise in quiet times is a second; who has not followed by then never will.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) async fn show(cluster: &Cluster, print: PrintLine<'_>) -> Result<()> {
    let nodes: Vec<_> = cluster.nodes().collect();
    let user_id = *cluster.users.first().context("the sample is empty")?;
    let ((_, writer), others) = nodes.split_first().context("there are nodes")?;
    print("");
    print(&format!("A WRITE on node A is broadcast: {WRITES} writes, each until B and C answer with it"));
    let mut lags = Vec::with_capacity(WRITES);
    for number in 0..WRITES {
        for (_, node) in others {
            read(node.clone(), user_id).await?;
        }
        let version = write(writer.clone(), user_id, format!("writer {number}")).await?;
        let acknowledged = Instant::now();
        let seen = others.iter().map(|(_, node)| until_seen(node, user_id, version, acknowledged));
        lags.extend(try_join_all(seen).await?);
    }
    lags.sort_unstable();
    let at = |part: usize| lags.get(lags.len() * part / 1_000).or(lags.last()).copied().unwrap_or_default();
    let (half, most, all) = (seconds(at(500)), seconds(at(990)), seconds(at(1_000)));
    print("  from the acknowledgement until B and C had answered with it, their time to answer included:");
    print(&format!("  {half} for half of the writes, {most} for 99 of 100, {all} for all"));
    Ok(())
}

/// Reads until the node answers with this version, or a later version. Returns how long that was after the
/// acknowledgement.
async fn until_seen(node: &Channel, user_id: i64, version: i64, acknowledged: Instant) -> Result<Duration> {
    let seen = async {
        while read(node.clone(), user_id).await?.version < version {
            yield_now().await;
        }
        Ok::<_, anyhow::Error>(acknowledged.elapsed())
    };
    timeout(PATIENCE, seen).await.context("a node does not follow")?
}
