//! What is between two users: their follows, and what each has set about the other.

use kith_cache::{CacheError, Consistency, Entry};
use kith_store::{Block, Edge, Follow};

use super::{Blocks, Follows, blocks, follows};
use crate::error::Error;

/// Most pairs that are read in one go of each cache: four records each.
const AT_ONCE: usize = 250;

/// All records between two users.
#[derive(Clone, Debug)]
pub(super) struct Between {
    pub(super) edge: Edge,
    pub(super) follow: Option<Entry<Follow>>,
    pub(super) followed_by: Option<Entry<Follow>>,
    pub(super) set: Option<Entry<Block>>,
    /// What the other one has set.
    pub(super) set_by_other: Option<Entry<Block>>,
}

/// Reads what is between the users of each edge, in their order: two batches of reads for all of them.
pub(super) async fn between(
    follows: &Follows,
    blocks: &Blocks,
    edges: &[Edge],
    consistency: &Consistency,
) -> Vec<Result<Between, Error>> {
    let mut found = Vec::with_capacity(edges.len());
    for edges in edges.chunks(AT_ONCE) {
        let both: Vec<Edge> = edges.iter().flat_map(|edge| [*edge, edge.reversed()]).collect();
        let (follows, blocks) = tokio::join!(
            follows.cache.get_many(&both, consistency),
            blocks.cache.get_many(&both, consistency)
        );
        let mut records = follows.into_iter().zip(blocks);
        for edge in edges {
            let (there, back) = (records.next(), records.next());
            found.push(assembled(*edge, there, back));
        }
    }
    found
}

type Answer<V> = Result<Option<Entry<V>>, CacheError>;
type Records = (Answer<Follow>, Answer<Block>);

/// Of the records of an edge, and of the one the other way.
fn assembled(edge: Edge, there: Option<Records>, back: Option<Records>) -> Result<Between, Error> {
    let (Some((follow, set)), Some((followed_by, set_by_other))) = (there, back) else {
        return Err(Error::internal());
    };
    let of_follow = |error| Error::cache(follows::KIND, &error);
    let of_block = |error| Error::cache(blocks::KIND, &error);
    Ok(Between {
        edge,
        follow: follow.map_err(of_follow)?,
        followed_by: followed_by.map_err(of_follow)?,
        set: set.map_err(of_block)?,
        set_by_other: set_by_other.map_err(of_block)?,
    })
}
