//! Faults for the primary in a replica set with several members.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mongodb::bson::doc;
use tokio::time::{Instant, sleep};

use super::site::Site;
use crate::mongods::Mongod;

/// The pause between two requests that a primary steps down.
const RETIRES_EVERY: Duration = Duration::from_secs(3);
/// How long it is not a candidate then, and how long it may wait for a follower before that. A third member
/// is always a candidate.
const RETIRED_S: i32 = 5;
const CATCHES_UP_S: i32 = 2;
/// The minimum time for which a primary is paused: another primary is elected, and the third member stops
/// reading from the old primary (after six seconds), so that a majority has what is written. After eleven
/// seconds nodes would no longer call it.
const PAUSE: Duration = Duration::from_secs(9);
/// How long it then stays on its side of the network.
const AWAKE: Duration = Duration::from_secs(1);

/// The primary is killed, another is elected, and at the end it is started again.
pub(super) async fn killed(site: &mut Site, lasts: Duration) -> Result<()> {
    let (primary, until) = (site.mongod.primary().await?, Instant::now() + lasts);
    member(site, primary)?.kill();
    site.mongod.until_replaced(primary).await?;
    tokio::time::sleep_until(until).await;
    site.mongod.restart().await
}

/// The primary steps down, repeatedly.
pub(super) async fn stepped_down(site: &mut Site, lasts: Duration) -> Result<()> {
    let until = Instant::now() + lasts;
    let mut steps = 0;
    while Instant::now() < until {
        let command = doc! { "replSetStepDown": RETIRED_S, "secondaryCatchUpPeriodSecs": CATCHES_UP_S };
        // At some moments no member is primary, and a primary that no follower has caught up with stays.
        steps += u32::from(site.mongod.ask(command).await.is_ok());
        sleep(RETIRES_EVERY).await;
    }
    ensure!(steps > 0, "no primary has stepped down");
    site.mongod.until_complete().await
}

/// The network falls in two: the primary and half the nodes; and all others, who elect another primary.
pub(super) async fn partitioned(site: &mut Site, lasts: Duration) -> Result<()> {
    let (primary, until) = (site.mongod.primary().await?, Instant::now() + lasts);
    partition(site, primary);
    let replaced = site.mongod.until_replaced(primary).await;
    tokio::time::sleep_until(until).await;
    site.mongod.heal_partition();
    replaced?;
    site.mongod.until_complete().await
}

/// Like `partitioned`, and the primary is paused until another is elected. When it resumes, neither it nor
/// half the nodes know that.
pub(super) async fn paused(site: &mut Site, lasts: Duration) -> Result<()> {
    let until = Instant::now() + lasts;
    while Instant::now() < until {
        let (primary, awakes) = (site.mongod.primary().await?, Instant::now() + PAUSE);
        partition(site, primary);
        member(site, primary)?.signal("STOP")?;
        let replaced = site.mongod.until_replaced(primary).await;
        tokio::time::sleep_until(awakes).await;
        member(site, primary)?.signal("CONT")?;
        sleep(AWAKE).await;
        site.mongod.heal_partition();
        replaced?;
        site.mongod.until_complete().await?;
    }
    Ok(())
}

fn partition(site: &Site, primary: usize) {
    let nodes: Vec<usize> = (site.members.len() / 2..site.members.len()).collect();
    site.mongod.partition(primary, &nodes, site.members.len());
}

fn member(site: &mut Site, at: usize) -> Result<&mut Mongod> {
    site.mongod.member(at).context("there is a primary")
}
