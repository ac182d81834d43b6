//! Users are online with devices at two gateways, each with its own node. Then one gateway dies, or its node
//! with it, or Redis loses everything: what all nodes return, and how soon it is correct.

mod gateway;
mod online_users;
mod views;
mod watcher;

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_lab_servers::wait;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use self::{
    gateway::Gateway,
    online_users::{DYING, OnlineAt, OnlineUsers, SURVIVING},
    views::{NodeView, PresenceTally},
    watcher::PresenceWatcher,
};
use super::Sizes;
use crate::faults::{Better, Figure, Plan, Site, figure::float};

/// The dying gateway's node, the node that the gateway may move to, and the surviving gateway's node, which
/// is watched, too.
const NODES: u32 = 3;
const WATCHED_AT: usize = 2;
/// There is one user for this many writes in other rows.
const FEWER: u64 = 25;
/// The bound for wrong answers.
const WITHIN: Duration = Duration::from_secs(30);
/// Groups may be reported as incomplete for 30 s after a loss. Nodes see within a second that these are over,
/// or later on a busy machine.
const COMPLETE_WITHIN: Duration = Duration::from_secs(33);
/// The answers are checked for this long: that they do not change again, too.
const LOOKED_FOR: Duration = Duration::from_secs(36);
const LOOK: Duration = Duration::from_millis(200);
/// A young cluster does not know who is offline.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);

/// The kinds of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionLoss {
    /// A gateway dies without notice.
    Gateway,
    /// Its node is killed, and the gateway goes to another node; then this node is killed, and the gateway
    /// dies.
    Node,
    /// Redis loses all that it has.
    Redis,
}

/// Figures: how soon all nodes returned the correct state, and what they returned meanwhile.
pub(super) async fn run(plan: &Plan, sizes: &Sizes, loss: SessionLoss) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let site = Site::with_cassandra(&plan).await?;
    let users = i64::try_from(sizes.writes.div_ceil(FEWER))?;
    let nodes = site.channels();
    let online = OnlineUsers::new(&nodes[0], users).await?;
    views::until_known(&nodes[0], SETTLED_WITHIN).await?;
    let dying = Gateway::open(DYING, nodes[..2].to_vec(), online.sessions_at(DYING)).await?;
    let surviving =
        Gateway::open(SURVIVING, vec![nodes[WATCHED_AT].clone()], online.sessions_at(SURVIVING)).await?;
    let mut stage = Stage {
        site,
        nodes,
        online,
        dying: Some(dying),
        surviving,
        tally: PresenceTally::default(),
        watcher: None,
    };
    stage.until_all_online().await?;
    stage.watcher = Some(PresenceWatcher::begin(&stage.nodes[WATCHED_AT], &stage.online).await?);
    match loss {
        SessionLoss::Gateway => stage.gateway_dies().await,
        SessionLoss::Node => stage.node_dies().await,
        SessionLoss::Redis => stage.redis_is_emptied().await,
    }
}

/// The cluster, its users and gateways, and the counts.
struct Stage {
    site: Site,
    nodes: Vec<Channel>,
    online: OnlineUsers,
    /// The gateway that dies; `None`: dead.
    dying: Option<Gateway>,
    surviving: Gateway,
    tally: PresenceTally,
    watcher: Option<PresenceWatcher>,
}

impl Stage {
    async fn gateway_dies(mut self) -> Result<Vec<Figure>> {
        self.dying = None;
        let seen = self.watch_nodes(&[0, 1, 2], OnlineAt::Surviving).await?;
        self.figures(&seen, OnlineAt::Surviving, Vec::new())
    }

    async fn node_dies(mut self) -> Result<Vec<Figure>> {
        self.node(0)?.kill();
        self.watch_nodes(&[1, 2], OnlineAt::Both).await?;
        let offline = self.watcher()?.offline();
        let moved = vec![Figure::none("offline although the gateway had moved", offline)];
        self.node(0)?.run()?;
        self.site.until_trusted().await?;
        self.dying = None;
        self.node(1)?.kill();
        let seen = self.watch_nodes(&[0, 2], OnlineAt::Surviving).await?;
        self.figures(&seen, OnlineAt::Surviving, moved)
    }

    async fn redis_is_emptied(mut self) -> Result<Vec<Figure>> {
        self.site.redis.ask(&["FLUSHALL"]).await?;
        let seen = self.watch_nodes(&[0, 1, 2], OnlineAt::Both).await?;
        let opened = self.dying.as_ref().map_or(0, Gateway::opened_again) + self.surviving.opened_again();
        let more = vec![
            Figure::at_least_count("answers that were unknown", self.tally.unknown, 1),
            Figure::without_target(
                "sessions that gateways opened again",
                "count",
                float(opened),
                Better::Lower,
            ),
        ];
        self.figures(&seen, OnlineAt::Both, more)
    }

    async fn until_all_online(&self) -> Result<()> {
        let (mut view, node) = (NodeView::new(Instant::now()), &self.nodes[WATCHED_AT]);
        wait::until("not all are online", SETTLED_WITHIN, async || {
            view.read_all(node, &self.online, OnlineAt::Both, &mut PresenceTally::default()).await;
            Ok(view.is_right())
        })
        .await
    }

    /// Asks these nodes for everything, repeatedly. Returns since when each has returned the correct state,
    /// from now on.
    async fn watch_nodes(&mut self, at: &[usize], places: OnlineAt) -> Result<Vec<NodeView>> {
        let began = Instant::now();
        self.watcher()?.time_from(began);
        let mut views: Vec<NodeView> = at.iter().map(|_| NodeView::new(began)).collect();
        while began.elapsed() < LOOKED_FOR {
            for (at, view) in at.iter().zip(&mut views) {
                view.read_all(&self.nodes[*at], &self.online, places, &mut self.tally).await;
            }
            sleep(LOOK).await;
        }
        Ok(views)
    }

    fn figures(self, seen: &[NodeView], places: OnlineAt, more: Vec<Figure>) -> Result<Vec<Figure>> {
        let watcher = self.watcher.context("no stream watches")?;
        let mut figures = vec![
            Figure::count("sessions", self.online.sessions()),
            longest("users right on all nodes after", seen, |view| view.users, WITHIN),
            longest("groups right on all nodes after", seen, |view| view.groups, WITHIN),
            longest(
                "groups reported as complete on all nodes after",
                seen,
                |view| view.complete,
                COMPLETE_WITHIN,
            ),
        ];
        figures.extend(watcher.figures(&self.online, places)?);
        figures.extend(self.tally.figures());
        figures.extend(more);
        Ok(figures)
    }

    fn watcher(&self) -> Result<&PresenceWatcher> {
        self.watcher.as_ref().context("no stream watches")
    }

    fn node(&mut self, at: usize) -> Result<&mut crate::faults::Node> {
        Ok(&mut self.site.members.get_mut(at).context("there are three nodes")?.node)
    }
}

/// The figure is not a number if the state was never reached on a node.
fn longest(name: &str, seen: &[NodeView], of: fn(&NodeView) -> Option<Duration>, within: Duration) -> Figure {
    let after = seen.iter().map(|view| of(view).map_or(f64::NAN, |after| after.as_secs_f64()));
    let longest = after.fold(0.0, |most: f64, one| if one > most || one.is_nan() { one } else { most });
    Figure::at_most(name, "s", longest, within.as_secs_f64())
}
