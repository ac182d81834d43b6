//! The relation between two users: their follows, and each one's settings for the other.

use kith_cache::{CacheError, Consistency, Entry};
use kith_store::{Block, Edge, Follow};

use super::{Blocks, Follows, blocks, follows};
use crate::{error::Error, rpc::call::Principal};

/// The most pairs in one cache read: four records each.
pub(super) const AT_ONCE: usize = 250;

type CacheReadResult<V> = Result<Option<Entry<V>>, CacheError>;

/// All records between some edges' users: for each edge, and for the opposite edge.
#[derive(Debug)]
pub(super) struct PairRecords<'a> {
    edges: &'a [Edge],
    follows: Vec<CacheReadResult<Follow>>,
    blocks: Vec<CacheReadResult<Block>>,
}

/// All existing records between two users.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairRelation<'a> {
    pub(super) edge: Edge,
    pub(super) follow: Option<&'a Entry<Follow>>,
    pub(super) followed_by: Option<&'a Entry<Follow>>,
    pub(super) set: Option<&'a Entry<Block>>,
    /// The other user's settings.
    pub(super) set_by_other: Option<&'a Entry<Block>>,
}

impl PairRelation<'_> {
    pub(super) const fn are_friends(&self) -> bool {
        self.follow.is_some() && self.followed_by.is_some()
    }

    /// Whether the other user has blocked the user: only services see this.
    pub(super) fn is_blocked(&self, viewer: Principal) -> bool {
        viewer == Principal::Service && self.set_by_other.is_some_and(|entry| entry.value.blocked.is_some())
    }
}

impl<'a> PairRecords<'a> {
    /// Makes two read batches for them all.
    pub(super) async fn read(
        follows: &Follows,
        blocks: &Blocks,
        edges: &'a [Edge],
        consistency: &Consistency,
    ) -> Self {
        let both: Vec<Edge> = edges.iter().flat_map(|edge| [*edge, edge.reversed()]).collect();
        let (follows, blocks) = tokio::join!(
            follows.cache.get_many(&both, consistency),
            blocks.cache.get_many(&both, consistency)
        );
        Self { edges, follows, blocks }
    }

    /// The relation between each edge's users, in their order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (Edge, Result<PairRelation<'_>, Error>)> {
        let records = self.follows.chunks_exact(2).zip(self.blocks.chunks_exact(2));
        self.edges
            .iter()
            .zip(records)
            .map(|(edge, (follows, blocks))| (*edge, between(*edge, follows, blocks)))
    }
}

fn between<'a>(
    edge: Edge,
    follows: &'a [CacheReadResult<Follow>],
    blocks: &'a [CacheReadResult<Block>],
) -> Result<PairRelation<'a>, Error> {
    let ([follow, followed_by], [set, set_by_other]) = (follows, blocks) else {
        return Err(Error::internal());
    };
    Ok(PairRelation {
        edge,
        follow: found(follows::KIND, follow)?,
        followed_by: found(follows::KIND, followed_by)?,
        set: found(blocks::KIND, set)?,
        set_by_other: found(blocks::KIND, set_by_other)?,
    })
}

fn found<'a, V>(kind: &'static str, answer: &'a CacheReadResult<V>) -> Result<Option<&'a Entry<V>>, Error> {
    answer.as_ref().map(Option::as_ref).map_err(|error| Error::cache(kind, error))
}
