//! A node dies after a commit and before the broadcast: how long it takes until the other one returns the new
//! value from its copies. It is the node that reads the change feeds, each time, so that the other one first
//! has to take them over.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::wait;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::Sizes;
use crate::{
    faults::{Better, Figure, Plan, Site, figure::float, relation_calls::PreparedRelationCall},
    history::{Edge, Level, RelationOutcome, RelationRequest, Setting, Side},
};

/// The bound until the change is visible.
pub(super) const VISIBLE_WITHIN: Duration = Duration::from_secs(11);
/// How long the change is looked for.
const LOOKED_FOR: Duration = Duration::from_secs(40);
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// The setting with which the dying node writes nothing else.
pub(super) const QUIET: &str = "observer.canary_every=1h";
const EDGE: Edge = Edge(1, 2);
/// All permissions together.
const ALL: u8 = 63;
/// A death before the write shows nothing. More deaths are made then, up to this many times as many.
const TIMES: u32 = 3;
/// Time limit for a precondition of the measurement.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// The change that the dying node writes, and the next node undoes.
#[derive(Clone, Copy, Debug)]
enum Change {
    Follow,
    Block,
    /// It dies before it has marked the block as effective.
    BlockUnmarked,
}

/// Figures for each change: how often it was seen, and the longest time that it took.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut plan = Plan { nodes: 2, ..plan.clone() };
    plan.settings.push(QUIET.to_owned());
    let mut site = Site::with_users(&plan, EDGE.1).await?;
    let (mut figures, rounds) = (Vec::new(), sizes.rounds.div_ceil(2).max(2));
    for change in [Change::Follow, Change::Block, Change::BlockUnmarked] {
        let mut deaths = Deaths { site: &mut site, change, victim: 0, is_applied: false };
        let took = deaths.run(rounds).await.with_context(|| format!("{change:?}"))?;
        figures.extend(change.figures(&took));
    }
    Ok(figures)
}

/// Kills a node and starts it again, so that it dies at this fail point.
pub(super) async fn restart(site: &mut Site, at: usize, fail_point: &str) -> Result<()> {
    let node = &mut site.members[at].node;
    node.kill();
    node.run_with_variables(&[("KITH_FAILPOINT", fail_point)])?;
    site.until_trusted().await
}

impl Change {
    const fn fail_point(self) -> &'static str {
        match self {
            Self::Follow | Self::Block => "after_commit=die@1",
            Self::BlockUnmarked => "block_written=die@1",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::Block => "block",
            Self::BlockUnmarked => "block not marked as effective",
        }
    }

    /// The write that applies the change or undoes it.
    const fn write(self, applied: bool) -> RelationRequest {
        match (self, applied) {
            (Self::Follow, true) => RelationRequest::Follow(EDGE),
            (Self::Follow, false) => RelationRequest::Unfollow(EDGE),
            (Self::Block | Self::BlockUnmarked, true) => RelationRequest::Set(EDGE, Setting::Block),
            (Self::Block | Self::BlockUnmarked, false) => RelationRequest::Set(EDGE, Setting::Unblock),
        }
    }

    /// All reads that show the change.
    const fn views(self) -> [RelationRequest; 3] {
        match self {
            Self::Follow => [
                RelationRequest::Get(EDGE, Level::Cached),
                RelationRequest::List(EDGE.0, Side::Following, Level::Cached),
                RelationRequest::List(EDGE.1, Side::Fans, Level::Cached),
            ],
            Self::Block | Self::BlockUnmarked => [
                RelationRequest::Get(EDGE, Level::Cached),
                RelationRequest::Check(EDGE, 0),
                RelationRequest::Check(EDGE, ALL),
            ],
        }
    }

    /// Whether an answer shows the change; `None`: it is no answer.
    fn is_shown_by(self, answer: &RelationOutcome) -> Option<bool> {
        match (self, answer) {
            (Self::Follow, RelationOutcome::Found { follow, .. }) => Some(follow.is_some()),
            (_, RelationOutcome::Found { settings, .. }) => Some(settings.blocked),
            (_, RelationOutcome::Allows(all, _)) => Some(!all),
            (_, RelationOutcome::Listed(entries)) => {
                Some(entries.iter().any(|(other, _)| [EDGE.0, EDGE.1].contains(other)))
            }
            _ => None,
        }
    }

    fn figures(self, took: &[Duration]) -> Vec<Figure> {
        let name = self.name();
        let longest = took.iter().max().map_or(f64::NAN, Duration::as_secs_f64);
        let shortest = took.iter().min().map_or(f64::NAN, Duration::as_secs_f64);
        vec![
            Figure::at_least(format!("deaths after a {name}"), "count", float(took.len() as u64), 1.0),
            Figure::at_most(
                format!("{name} visible elsewhere after"),
                "s",
                longest,
                VISIBLE_WITHIN.as_secs_f64(),
            ),
            Figure::without_target(format!("{name} visible, at best"), "s", shortest, Better::Lower),
        ]
    }
}

/// Deaths after one kind of change. Both nodes die by turns.
struct Deaths<'a> {
    site: &'a mut Site,
    change: Change,
    victim: usize,
    /// Whether the change is applied by now.
    is_applied: bool,
}

impl Deaths<'_> {
    /// Runs this many deaths. Returns how long each change took to be visible at the other node.
    async fn run(&mut self, rounds: u32) -> Result<Vec<Duration>> {
        self.undo().await?;
        for victim in 0..2 {
            self.restart(victim).await?;
        }
        let mut took = Vec::new();
        for _ in 0..rounds * TIMES {
            took.extend(self.die().await?);
            self.restart(self.victim).await?;
            self.victim = 1 - self.victim;
            if took.len() >= usize::try_from(rounds)? {
                break;
            }
        }
        Ok(took)
    }

    /// Undoes the change through a node that does not die.
    async fn undo(&mut self) -> Result<()> {
        let node = &mut self.site.members[0].node;
        node.kill();
        node.run()?;
        self.site.until_trusted().await?;
        let node = self.site.members[0].node.channel();
        wait::until("the change is not undone", PATIENCE, async || {
            let undone = PreparedRelationCall::write(self.change.write(false)).send(node.clone()).await.0;
            Ok(match undone {
                RelationOutcome::Set(..) | RelationOutcome::Ended(_) => true,
                RelationOutcome::Refused(code) => code == "NOT_FOUND",
                _ => false,
            })
        })
        .await
    }

    async fn restart(&mut self, at: usize) -> Result<()> {
        restart(self.site, at, self.change.fail_point()).await
    }

    /// Lets a node write and die. `None`: it had written nothing.
    async fn die(&mut self) -> Result<Option<Duration>> {
        let other = self.site.members[1 - self.victim].node.channel();
        let is_shown = async || Ok(self.shows(&other, self.is_applied).await);
        wait::until("the state of before is not shown", PATIENCE, is_shown).await?;
        if self.site.members[self.victim].node.ended()? {
            // The node died because of another write.
            return Ok(None);
        }
        let (began, applied) = (Instant::now(), !self.is_applied);
        let writer = self.site.members[self.victim].node.channel();
        let answer = PreparedRelationCall::write(self.change.write(applied)).send(writer).await.0;
        ensure!(
            matches!(answer, RelationOutcome::Open(_)),
            "the program is no build with fail points: the write was answered with {answer:?}"
        );
        self.site.members[self.victim].node.until_died(PATIENCE).await?;
        while began.elapsed() < LOOKED_FOR {
            if self.shows(&other, applied).await {
                self.is_applied = applied;
                return Ok(Some(began.elapsed()));
            }
            sleep(LOOK).await;
        }
        let strong =
            PreparedRelationCall::strong(RelationRequest::Get(EDGE, Level::Strong)).send(other).await.0;
        let is_stored = self.change.is_shown_by(&strong).context("the store cannot be read")? == applied;
        self.is_applied = if is_stored { applied } else { self.is_applied };
        Ok(is_stored.then_some(LOOKED_FOR))
    }

    /// Whether all answers from the node's copies show the change, or show that it is absent.
    async fn shows(&self, node: &Channel, applied: bool) -> bool {
        for view in self.change.views() {
            let answer = PreparedRelationCall::strong(view).send(node.clone()).await.0;
            if self.change.is_shown_by(&answer) != Some(applied) {
                return false;
            }
        }
        true
    }
}
