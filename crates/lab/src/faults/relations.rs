//! Faults in the relation store, and what is measured about it.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kith_lab_servers::proxy::{Mode, Proxy};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::{
    figure::{Better, Figure},
    relation_calls::PreparedRelationCall,
    site::Site,
};
use crate::{
    checker::is_outage_code,
    history::{Edge, Level, RelationOutcome, RelationRequest, Side},
};

/// How long answers are held before the links are cut: most calls in progress then wait for longer.
const HELD_FOR: Duration = Duration::from_millis(400);
const ANSWERS_FOR: Duration = Duration::from_millis(800);
/// The pair that follows and unfollows again and again: it has no other relations.
const FLIPPED: Edge = Edge(50, 51);
const FRESH: Edge = Edge(52, 53);
const FLIPS: u32 = 2_000;
/// The variable that enables the full sizes.
const FULL: &str = "KITH_FULL";
const FLIPS_FULL: u32 = 20_000;
/// How many list reads are measured.
const READS: usize = 300;
/// How often a call is tried again that was refused because of the cluster's state.
const TRIES: u32 = 20;

/// Kills Cassandra, and starts it again after this long.
pub(super) async fn killed(site: &mut Site, lasts: Duration) -> Result<()> {
    let cassandra = site.cassandra.as_mut().context("there is a Cassandra")?.exclusive()?;
    cassandra.kill();
    sleep(lasts).await;
    cassandra.restart().await
}

/// Pauses Cassandra for this long.
pub(super) async fn paused(site: &mut Site, lasts: Duration) -> Result<()> {
    let cassandra = site.cassandra.as_mut().context("there is a Cassandra")?.exclusive()?;
    cassandra.signal("STOP")?;
    sleep(lasts).await;
    cassandra.signal("CONT")
}

/// Repeatedly holds Cassandra's answers, then cuts the links, so that they are lost.
pub(super) async fn hold_answers(site: &Site, lasts: Duration) -> Result<()> {
    let until = Instant::now() + lasts;
    while Instant::now() < until {
        site.cassandra_links(Mode::HoldAnswers);
        sleep(HELD_FOR).await;
        site.to_cassandra().for_each(Proxy::cut);
        site.cassandra_links(Mode::Pass);
        sleep(ANSWERS_FOR).await;
    }
    Ok(())
}

/// One user follows another and takes it back, very often. Figures: how long it takes to read the list for a
/// pair that never did, and for this pair.
pub(super) async fn flipped(site: &Site) -> Result<Vec<Figure>> {
    let node = site.members.first().context("there is a node")?.node.channel();
    asked(&node, RelationRequest::Follow(FRESH)).await?;
    let flips = if std::env::var_os(FULL).is_some() { FLIPS_FULL } else { FLIPS };
    let mut last = RelationOutcome::Ended(0);
    for flip in 0..flips {
        let other = &site.members[usize::try_from(flip)? % site.members.len()].node.channel();
        let what =
            if flip % 2 == 0 { RelationRequest::Follow(FLIPPED) } else { RelationRequest::Unfollow(FLIPPED) };
        last = asked(other, what).await?;
    }
    ensure!(matches!(last, RelationOutcome::Ended(_)), "the last of an even number takes back");
    let last = asked(&node, RelationRequest::Follow(FLIPPED)).await?;
    let RelationOutcome::Follows(version) = last else { bail!("following is {last:?}") };
    let list = |edge: Edge| RelationRequest::List(edge.0, Side::Following, Level::Strong);
    let (fresh, flipped) = (reads(&node, list(FRESH)).await?, reads(&node, list(FLIPPED)).await?);
    let listed = asked(&node, list(FLIPPED)).await?;
    let is_complete = listed == RelationOutcome::Listed(vec![(FLIPPED.1, version)]);
    ensure!(is_complete, "after {flips} changes and version {version} the list is {listed:?}");
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(vec![
        Figure::without_target("F29 fresh list p99", "ms", millis(fresh), Better::Lower),
        Figure::at_most("F29 list p99 against a fresh one", "ratio", millis(flipped) / millis(fresh), 3.0),
        Figure::at_least_count("F29 changes of one pair", flips.into(), FLIPS.into()),
    ])
}

/// The time that 99 in 100 reads do not exceed.
async fn reads(node: &Channel, what: RelationRequest) -> Result<Duration> {
    let mut took = Vec::with_capacity(READS);
    for _ in 0..READS {
        let began = Instant::now();
        asked(node, what).await?;
        took.push(began.elapsed());
    }
    took.sort_unstable();
    took.get(READS * 99 / 100).copied().context("there are reads")
}

async fn asked(node: &Channel, what: RelationRequest) -> Result<RelationOutcome> {
    let asked = PreparedRelationCall::write(what);
    for _ in 0..TRIES {
        match asked.send(node.clone()).await.0 {
            RelationOutcome::Open(code) | RelationOutcome::Refused(code) => {
                ensure!(is_outage_code(&code), "{what:?} was answered with {code}");
            }
            outcome => return Ok(outcome),
        }
    }
    bail!("{what:?} is not answered")
}
