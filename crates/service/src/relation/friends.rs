//! Reads relations for other domains.

use kith_cache::Consistency;
use kith_store::{Edge, FollowList, UserId};

use super::{
    Blocks, Follows,
    lists::{ListPage, UserList},
    pair::{AT_ONCE, PairRecords, PairRelation},
};
use crate::error::Error;

/// Which of these users are friends of a user, without a block in either direction; in their order. From
/// memory if possible; else two batches of reads for 250 users.
pub(crate) async fn are_friends(
    follows: &Follows,
    blocks: &Blocks,
    user: UserId,
    others: &[UserId],
) -> Result<Vec<bool>, Error> {
    let edges: Vec<Edge> = others.iter().map(|other| Edge { from: user, to: *other }).collect();
    let mut friends = Vec::with_capacity(edges.len());
    for edges in edges.chunks(AT_ONCE) {
        let found = PairRecords::read(follows, blocks, edges, &Consistency::Cached).await;
        for (_, between) in found.pairs() {
            friends.push(is_friendly(&between?));
        }
    }
    Ok(friends)
}

/// A user's friends among the `size` users whom it followed last, in that order.
///
/// # Errors
/// Returns the store's errors.
pub(crate) async fn newest_friends(
    follows: &Follows,
    blocks: &Blocks,
    user: UserId,
    size: usize,
) -> Result<Vec<UserId>, Error> {
    let of = UserList { list: FollowList::Following, user };
    let followed = follows.lists.positions(of, ListPage { after: None, size }, &Consistency::Cached).await?;
    let followed: Vec<_> = followed.entries.iter().map(|position| position.user).collect();
    let friends = are_friends(follows, blocks, user, &followed).await?;
    Ok(followed.into_iter().zip(friends).filter_map(|(user, is_friend)| is_friend.then_some(user)).collect())
}

fn is_friendly(between: &PairRelation<'_>) -> bool {
    let blocks = [between.set, between.set_by_other];
    let blocked = blocks.into_iter().flatten().any(|entry| entry.value.blocked.is_some());
    between.follow.is_some() && between.followed_by.is_some() && !blocked
}
