//! Users follow each other and stop, and their relations are counted on every node at once, before the store
//! has counted again: for how long nodes answer the count of before.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::join_all;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::{
    Sizes,
    aged::{ChangeSeen, WatchedChange, watch},
};
use crate::{
    faults::{Figure, Plan, Site, relation_calls::PreparedRelationCall},
    history::{Edge, RelationOutcome, RelationRequest},
};

const NODES: u32 = 3;
/// The bound for an old count.
const WITHIN: Duration = Duration::from_secs(11);
/// Pairs of users for each round.
const PAIRS: u32 = 8;

/// An edge that was made or taken away.
struct CountChange {
    edge: Edge,
    /// How long one user's list and the other user's list of fans should be.
    count: i64,
    at: Instant,
}

/// Figures: for how long a node answered the previous count.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let pairs = i64::from(sizes.rounds * PAIRS);
    let site = Site::with_users(&plan, 2 * pairs).await?;
    let nodes = site.channels();
    let edges: Vec<Edge> = (1..=pairs).map(|pair| Edge(2 * pair - 1, 2 * pair)).collect();

    let (mut figures, mut all) = (Vec::new(), ChangeSeen::default());
    for (name, count) in [("followed", 1), ("unfollowed", 0)] {
        let changes = write(&edges, count, &nodes).await?;
        let seen = watch(&changes, &nodes, WITHIN + sizes.lasts).await;
        let seen = seen.into_iter().fold(ChangeSeen::default(), ChangeSeen::and);
        figures.push(Figure::within(format!("{name}: counts old for"), seen.old_for, WITHIN));
        all = all.and(seen);
    }
    figures.push(Figure::at_least_count("answers", all.answers, 1));
    figures.push(Figure::none("calls without an answer", all.failed));
    Ok(figures)
}

/// Makes the edges, or takes them away, by turns on each node. Counts on every node as soon as an edge is
/// acknowledged.
async fn write(edges: &[Edge], count: i64, nodes: &[Channel]) -> Result<Vec<CountChange>> {
    let mut written = Vec::new();
    for (edge, writer) in edges.iter().zip(nodes.iter().cycle()) {
        let what = if count == 1 { RelationRequest::Follow(*edge) } else { RelationRequest::Unfollow(*edge) };
        let answer = PreparedRelationCall::write(what).send(writer.clone()).await.0;
        ensure!(
            matches!(answer, RelationOutcome::Follows(_) | RelationOutcome::Ended(_)),
            "the write was answered with {answer:?}"
        );
        let change = CountChange { edge: *edge, count, at: Instant::now() };
        join_all(nodes.iter().map(|node| change.is_seen(node.clone()))).await;
        written.push(change);
    }
    Ok(written)
}

impl WatchedChange for CountChange {
    fn at(&self) -> Instant {
        self.at
    }

    async fn is_seen(&self, node: Channel) -> Option<bool> {
        let Edge(user, other) = self.edge;
        let (following, _) = counts(&node, user).await?;
        let (_, fans) = counts(&node, other).await?;
        Some((following, fans) == (self.count, self.count))
    }
}

/// How many users a user follows, and how many follow it; `None`: no answer.
async fn counts(node: &Channel, user_id: i64) -> Option<(i64, i64)> {
    match PreparedRelationCall::strong(RelationRequest::Count(user_id)).send(node.clone()).await.0 {
        RelationOutcome::Counted(following, fans) => Some((following, fans)),
        _ => None,
    }
}
