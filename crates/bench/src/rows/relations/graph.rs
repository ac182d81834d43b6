//! Graphs of follows to measure with: every run has the same graphs.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Edge, FollowStore, ImportedFollow, Timestamp, UserId};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

/// Follows in one import call, as many as one message may hold.
pub(super) const CHUNK: usize = 500;
/// Import calls that run at the same time.
pub(super) const AT_ONCE: usize = 8;
/// The time since which all users follow.
pub(super) const SINCE: Timestamp = Timestamp(1_600_000_000_000);

/// Makes `follows` different follows between `users` users, by the recursive matrix of Graph500: a few have
/// most fans. Quadrants of 0.57, 0.19, 0.19 and 0.05 (Graph500 specification 3.0).
pub(super) fn rmat(follows: usize, users: i64) -> Vec<ImportedFollow> {
    let mut random = StdRng::seed_from_u64(500);
    let levels = 64 - (users - 1).leading_zeros();
    let mut edges = BTreeSet::new();
    let mut graph = Vec::with_capacity(follows);
    while graph.len() < follows {
        let (from, to) = cell(&mut random, levels);
        let ids = (UserId::new(from + 1), UserId::new(to + 1));
        let (Ok(from), Ok(to)) = ids else { continue };
        if from.get() > users || to.get() > users {
            continue;
        }
        if let Ok(edge) = Edge::new(from, to)
            && edges.insert(edge)
        {
            graph.push(ImportedFollow { edge, since: SINCE });
        }
    }
    graph
}

/// A cell in the matrix.
fn cell(random: &mut StdRng, levels: u32) -> (i64, i64) {
    let (mut from, mut to) = (0, 0);
    for _ in 0..levels {
        let (down, right) = match random.random_range(0..100) {
            0..57 => (0, 0),
            57..76 => (0, 1),
            76..95 => (1, 0),
            _ => (1, 1),
        };
        from = from << 1 | down;
        to = to << 1 | right;
    }
    (from, to)
}

/// The follows from the users `fans` to one user.
pub(super) fn star(center: i64, fans: impl Iterator<Item = i64>) -> Result<Vec<ImportedFollow>> {
    let center = UserId::new(center)?;
    let fan = |fan| Ok(ImportedFollow { edge: Edge::new(UserId::new(fan)?, center)?, since: SINCE });
    fans.map(fan).collect()
}

/// Imports a graph, some calls at a time, each at its own moment, as a node does.
pub(super) async fn import(store: &Arc<dyn FollowStore>, graph: &[ImportedFollow]) -> Result<()> {
    let import = async |follows| store.import_follows(follows, Timestamp::now()).await;
    let calls = stream::iter(graph.chunks(CHUNK)).map(import);
    calls.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_has_distinct_follows_and_skewed_fans() {
        let graph = rmat(10_000, 1_000);
        let edges: BTreeSet<Edge> = graph.iter().map(|follow| follow.edge).collect();
        assert_eq!((graph.len(), edges.len()), (10_000, 10_000));
        assert!(edges.iter().all(|edge| edge.from.get() <= 1_000 && edge.to.get() <= 1_000));
        let fans = |user| edges.iter().filter(|edge| edge.to.get() == user).count();
        assert!(fans(1) > 10 * fans(999).max(1));
    }
}
