//! Injects faults into the cluster, and shows how readers are affected.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::{
    PrintLine,
    cluster::Cluster,
    readers::DemoReaders,
    words::{count, seconds},
};

/// How long readers look before, meanwhile and after.
const QUIET: Duration = Duration::from_secs(3);
const AWAY: Duration = Duration::from_secs(5);

/// Redis is killed, and started again with nothing in it.
pub(super) async fn redis_away(
    cluster: &mut Cluster,
    readers: &DemoReaders,
    print: PrintLine<'_>,
) -> Result<()> {
    print("");
    print("REDIS IS KILLED, for five seconds, while users are read on all nodes and written on A and B");
    sleep(QUIET).await;
    print_stats(readers, "before:", print);
    cluster.site.redis.kill();
    sleep(AWAY).await;
    print_stats(readers, "without it:", print);
    let back = Instant::now();
    cluster.site.redis.restart(None).await?;
    cluster.site.until_trusted().await?;
    let trusted = seconds(back.elapsed());
    sleep(QUIET).await;
    print_stats(readers, "with it again:", print);
    print(
        "  nodes that receive nothing from each other serve what they have in memory for 3 s at most, then MongoDB answers: so long,",
    );
    print(&format!(
        "  and no longer, a read may be old. Redis came back empty; {trusted} later all memories were served again"
    ));
    Ok(())
}

/// The last node is killed, and started again.
pub(super) async fn node_killed(
    cluster: &mut Cluster,
    readers: &DemoReaders,
    print: PrintLine<'_>,
) -> Result<()> {
    print("");
    print("NODE C IS KILLED with kill -9, and is back two seconds later");
    if let Some(last) = cluster.site.members.last_mut() {
        last.node.kill();
    }
    sleep(Duration::from_secs(2)).await;
    print_stats(readers, "without it:", print);
    let back = Instant::now();
    if let Some(last) = cluster.site.members.last_mut() {
        last.node.run()?;
        last.node.until_trusted().await?;
    }
    let trusted = seconds(back.elapsed());
    sleep(QUIET).await;
    print_stats(readers, "with it again:", print);
    print(
        "  unanswered are those who asked C, and no others: a client that knows several nodes asks another one.",
    );
    print(&format!("  It served from its memory {trusted} after its start"));
    Ok(())
}

fn print_stats(readers: &DemoReaders, when: &str, print: PrintLine<'_>) {
    let (stats, writes) = readers.take_stats();
    print(&format!("  {when:<15}{stats}"));
    let (done, refused) = (count(writes.done), count(writes.refused));
    print(&format!("  {:<15}{done} writes done, {refused} refused", ""));
}
