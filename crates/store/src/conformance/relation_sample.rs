//! Relations and writes that the cases start from.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use super::sample::{applied, assert_fails, user_id, write};
use crate::{
    Block, BlockChange, BlockList, BlockPatch, Edge, Follow, FollowCounts, FollowList, ImportedFollow,
    ListPosition, Permissions, StoreError, Stored, Stores, Timestamp, Version, Write,
};

/// How long a follow that was taken back keeps its place, where a case does not set another time.
pub(super) const KEPT: Duration = Duration::from_secs(3600);

/// Within which time lists and counts settle once nothing changes.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

pub fn edge(from: i64, to: i64) -> Edge {
    Edge::new(user_id(from), user_id(to)).unwrap()
}

/// A past moment, this many seconds after a fixed moment.
pub(super) fn moment(seconds: i64) -> Timestamp {
    Timestamp(1_700_000_000_000 + 1000 * seconds)
}

/// A write at [`moment`], with no request id.
pub(super) fn at(seconds: i64) -> Write {
    Write::at(moment(seconds))
}

pub(super) async fn follow(stores: &Stores, from: i64, to: i64) -> Follow {
    applied(stores.follows.follow(edge(from, to), KEPT, write()).await.unwrap())
}

pub(super) async fn unfollow(stores: &Stores, from: i64, to: i64) -> Version {
    applied(stores.follows.unfollow(edge(from, to), write()).await.unwrap())
}

/// Follows at [`moment`].
pub(super) async fn follow_at(stores: &Stores, from: i64, to: i64, seconds: i64) -> Follow {
    applied(stores.follows.follow(edge(from, to), KEPT, at(seconds)).await.unwrap())
}

/// Takes a follow back at [`moment`].
pub(super) async fn unfollow_at(stores: &Stores, from: i64, to: i64, seconds: i64) -> Version {
    applied(stores.follows.unfollow(edge(from, to), at(seconds)).await.unwrap())
}

/// A follow to be brought in, since [`moment`].
pub(super) fn imported(from: i64, to: i64, seconds: i64) -> ImportedFollow {
    ImportedFollow { edge: edge(from, to), since: moment(seconds) }
}

pub(super) async fn follow_state(stores: &Stores, from: i64, to: i64) -> Stored<Follow> {
    let read = stores.follows.follows(&[edge(from, to)]).await.unwrap();
    only(read, edge(from, to))
}

pub(super) async fn live_follow(stores: &Stores, from: i64, to: i64) -> Follow {
    follow_state(stores, from, to).await.live().unwrap()
}

/// Returns what a batch read found for one edge; an edge that never existed may be left out.
fn only<T>(read: Vec<(Edge, Stored<T>)>, asked: Edge) -> Stored<T> {
    assert!(read.len() <= 1, "one edge was asked for, {} were returned", read.len());
    read.into_iter().next().map_or(Stored::Never, |(edge, stored)| {
        assert_eq!(edge, asked);
        stored
    })
}

/// The first entries in a list, which is known to be shorter than the limit.
pub(super) async fn whole_list(stores: &Stores, user: i64, list: FollowList) -> Vec<Follow> {
    stores.follows.follow_list(user_id(user), list, None, 500).await.unwrap()
}

/// Whom the user follows, the newest first.
pub(super) async fn following(stores: &Stores, user: i64) -> Vec<i64> {
    let list = whole_list(stores, user, FollowList::Following).await;
    list.iter().map(|follow| follow.edge.to.get()).collect()
}

/// Lists the user's fans, the newest first.
pub(super) async fn fans(stores: &Stores, user: i64) -> Vec<i64> {
    let list = whole_list(stores, user, FollowList::Fans).await;
    list.iter().map(|follow| follow.edge.from.get()).collect()
}

/// How many the users follow, and how many follow them.
pub(super) async fn counts(stores: &Stores, users: &[i64]) -> Vec<(u64, u64)> {
    let users: Vec<_> = users.iter().copied().map(user_id).collect();
    let counts = stores.follows.follow_counts(&users).await.unwrap();
    counts.into_iter().map(|FollowCounts { following, fans }| (following, fans)).collect()
}

/// Waits until the users' counts are these.
pub(super) async fn await_counts(stores: &Stores, expected: &[(i64, (u64, u64))]) {
    let (users, expected): (Vec<i64>, Vec<(u64, u64)>) = expected.iter().copied().unzip();
    await_equal(&expected, async || counts(stores, &users).await).await;
}

/// Waits until both lists show each active follow once, in its present state, and no inactive follow.
pub(super) async fn await_lists(stores: &Stores, edges: &[Edge]) {
    for edge in edges {
        let (from, to) = (edge.from.get(), edge.to.get());
        await_equal(&true, async || {
            let active: Vec<Follow> = follow_state(stores, from, to).await.live().into_iter().collect();
            let mut lists = [
                whole_list(stores, from, FollowList::Following).await,
                whole_list(stores, to, FollowList::Fans).await,
            ];
            lists.iter_mut().for_each(|list| list.retain(|follow| follow.edge == *edge));
            lists == [active.clone(), active]
        })
        .await;
    }
}

/// Waits until what is read is as expected.
pub(super) async fn await_equal<T: PartialEq + Debug>(expected: &T, read: impl AsyncFn() -> T) {
    let begun = Instant::now();
    loop {
        let found = read().await;
        if found == *expected {
            return;
        }
        assert!(begun.elapsed() < SETTLED_WITHIN, "still {found:?}, not {expected:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The other user does not want to be followed.
pub(super) fn assert_blocked<T: Debug>(result: Result<T, StoreError>) {
    assert_fails!(result, StoreError::Blocked);
}

/// There is none to change.
pub(super) fn assert_not_found<T: Debug>(result: Result<T, StoreError>) {
    assert_fails!(result, StoreError::NotFound);
}

/// Asserts that the call was refused because it asked for too much.
pub(super) fn assert_overloaded<T: Debug>(result: Result<T, StoreError>) {
    assert_fails!(result, StoreError::Overloaded);
}

pub fn blocking(blocked: bool) -> BlockPatch {
    BlockPatch { blocked: Some(blocked), ..BlockPatch::default() }
}

pub(super) fn disturbing_not(do_not_disturb: bool) -> BlockPatch {
    BlockPatch { do_not_disturb: Some(do_not_disturb), ..BlockPatch::default() }
}

pub(super) fn allowing(bits: Option<u32>) -> BlockPatch {
    let permissions = bits.map(|bits| Permissions::new(bits).unwrap());
    BlockPatch { permissions: Some(permissions), ..BlockPatch::default() }
}

pub(super) fn remarking(remark: &str) -> BlockPatch {
    BlockPatch { remark: Some(Block::remark(remark).unwrap()), ..BlockPatch::default() }
}

pub(super) async fn set(stores: &Stores, from: i64, to: i64, patch: BlockPatch) -> BlockChange {
    applied(stores.blocks.set_block(edge(from, to), patch, write()).await.unwrap())
}

/// Changes a record at [`moment`].
pub(super) async fn set_at(stores: &Stores, from: i64, to: i64, patch: BlockPatch, seconds: i64) -> Block {
    applied(stores.blocks.set_block(edge(from, to), patch, at(seconds)).await.unwrap()).block
}

pub(super) async fn block_state(stores: &Stores, from: i64, to: i64) -> Stored<Block> {
    let read = stores.blocks.blocks(&[edge(from, to)]).await.unwrap();
    only(read, edge(from, to))
}

pub(super) async fn live_block(stores: &Stores, from: i64, to: i64) -> Block {
    block_state(stores, from, to).await.live().unwrap()
}

/// Reads a page from a block list.
pub(super) async fn block_page(
    stores: &Stores,
    user: i64,
    list: BlockList,
    after: Option<ListPosition>,
    limit: usize,
) -> Vec<Block> {
    stores.blocks.block_list(user_id(user), list, after, limit).await.unwrap()
}
