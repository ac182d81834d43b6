//! Block store cases: single records with a user's settings for another user.

use std::collections::BTreeSet;

use super::{
    relation_sample::{
        KEPT, allowing, assert_blocked, assert_overloaded, at, block_state, blocking, disturbing_not, edge,
        fans, follow, follow_state, following, live_block, live_follow, moment, remarking, set, set_at,
        unfollow,
    },
    sample::{applied, assert_stale, expecting, user_id, version, write},
};
use crate::{BATCH_MAX, Block, BlockPatch, Edge, Permissions, Stored, Stores, UserId, Version};

/// A patch with a value in every field, that blocks.
fn everything() -> BlockPatch {
    BlockPatch {
        blocked: Some(true),
        permissions: Some(Some(Permissions::SHARE)),
        do_not_disturb: Some(true),
        remark: Some(Block::remark("Ann from work").unwrap()),
    }
}

pub async fn what_was_never_set_is_never(stores: Stores) {
    set(&stores, 1, 2, blocking(true)).await;
    follow(&stores, 5, 6).await;
    for (from, to) in [(2, 1), (1, 3), (3, 2), (5, 6)] {
        assert_eq!(block_state(&stores, from, to).await, Stored::Never, "{from} {to}");
    }
}

pub async fn a_record_reads_back_as_it_was_answered(stores: Stores) {
    let answered = set_at(&stores, 1, 2, everything(), 5).await;
    let expected = Block {
        edge: edge(1, 2),
        version: Version::FIRST,
        blocked: Some(moment(5)),
        permissions: Some(Permissions::SHARE),
        do_not_disturb: Some(moment(5)),
        remark: "Ann from work".into(),
        updated: moment(5),
    };
    assert_eq!(answered, expected);
    assert_eq!(live_block(&stores, 1, 2).await, expected);
}

/// Makes one patch for each field, with values that [`everything`] does not have.
fn single_field_patches() -> [BlockPatch; 6] {
    [
        remarking("other"),
        allowing(Some(3)),
        blocking(false),
        disturbing_not(false),
        allowing(None),
        BlockPatch::default(),
    ]
}

pub async fn each_field_alone_makes_a_record(stores: Stores) {
    for (to, patch) in (2..).zip([remarking("a"), allowing(Some(3)), blocking(true), disturbing_not(true)]) {
        let expected = Block::unset(edge(1, to)).patched(&patch, moment(to));
        assert_eq!(set_at(&stores, 1, to, patch, to).await, expected);
        assert_eq!(live_block(&stores, 1, to).await, expected);
    }
}

pub async fn each_field_of_a_patch_leaves_the_others(stores: Stores) {
    let mut expected = set_at(&stores, 1, 2, everything(), 0).await;
    for (seconds, patch) in (1..).zip(single_field_patches()) {
        expected = expected.patched(&patch, moment(seconds));
        assert_eq!(set_at(&stores, 1, 2, patch, seconds).await, expected);
        assert_eq!(live_block(&stores, 1, 2).await, expected);
    }
    assert_eq!((expected.blocked, expected.do_not_disturb, expected.permissions), (None, None, None));
    assert_eq!(expected.remark, "other");
}

pub async fn what_is_set_is_absolute(stores: Stores) {
    for bits in [5, 2, 2, 63, 0, 40] {
        let block = set(&stores, 1, 2, allowing(Some(bits))).await.block;
        assert_eq!(block.permissions, Some(Permissions::new(bits).unwrap()));
        assert_eq!(live_block(&stores, 1, 2).await, block);
    }
    for remark in ["a", "b", "", "c"] {
        assert_eq!(set(&stores, 1, 2, remarking(remark)).await.block.remark, remark);
        assert_eq!(live_block(&stores, 1, 2).await.remark, remark);
    }
}

pub async fn every_sum_of_permissions_reads_back(stores: Stores) {
    for bits in 0..=63 {
        set(&stores, 1, 2, allowing(Some(bits))).await;
        let read = live_block(&stores, 1, 2).await.permissions.unwrap();
        assert_eq!(u32::from(read.bits()), bits);
    }
}

pub async fn no_permissions_and_those_by_default_differ(stores: Stores) {
    for permissions in [Some(0), None, Some(63), None, Some(0)] {
        set(&stores, 1, 2, allowing(permissions)).await;
        let read = live_block(&stores, 1, 2).await.permissions;
        assert_eq!(read.map(|read| u32::from(read.bits())), permissions);
    }
}

pub async fn a_remark_of_any_text_reads_back(stores: Stores) {
    let longest = "\u{1F600}".repeat(64);
    for remark in ["Žofie", "東京", "'; DROP TABLE blocks;--", "{\"$ne\": 1}", "\\ \" % _", longest.as_str()]
    {
        assert_eq!(set(&stores, 1, 2, remarking(remark)).await.block.remark, remark);
        assert_eq!(live_block(&stores, 1, 2).await.remark, remark);
    }
}

pub async fn reset_of_all_fields_leaves_unset_record(stores: Stores) {
    set_at(&stores, 1, 2, everything(), 0).await;
    let back = BlockPatch {
        blocked: Some(false),
        permissions: Some(None),
        do_not_disturb: Some(false),
        remark: Some(Block::remark("").unwrap()),
    };
    let expected = Block { version: version(2), updated: moment(9), ..Block::unset(edge(1, 2)) };
    assert_eq!(set_at(&stores, 1, 2, back, 9).await, expected);
    assert_eq!(live_block(&stores, 1, 2).await, expected);
}

pub async fn both_directions_are_apart(stores: Stores) {
    let there = set(&stores, 1, 2, remarking("there")).await.block;
    let back = set(&stores, 2, 1, allowing(Some(1))).await.block;
    assert_eq!((there.version, back.version), (version(1), version(1)));
    assert_eq!(live_block(&stores, 1, 2).await, there);
    assert_eq!(live_block(&stores, 2, 1).await, back);
}

pub async fn versions_count_by_one(stores: Stores) {
    for number in 1..=8 {
        let patch = if number == 5 { BlockPatch::default() } else { blocking(number % 2 == 0) };
        assert_eq!(set(&stores, 1, 2, patch).await.block.version, version(number));
        assert_eq!(live_block(&stores, 1, 2).await.version, version(number));
    }
}

pub async fn stale_block_change_conflicts(stores: Stores) {
    let change = |expected| stores.blocks.set_block(edge(1, 2), everything(), expecting(expected));
    for stale in [1, 2] {
        assert_stale(change(stale).await, 0);
        assert_eq!(block_state(&stores, 1, 2).await, Stored::Never);
    }
    set(&stores, 1, 2, remarking("a")).await;
    let before = set(&stores, 1, 2, remarking("b")).await.block;
    for stale in [0, 1, 3] {
        assert_stale(change(stale).await, 2);
        assert_eq!(live_block(&stores, 1, 2).await, before);
    }
    assert_eq!(applied(change(2).await.unwrap()).block.version, version(3));
}

pub async fn change_expecting_no_record_succeeds_once(stores: Stores) {
    let change = || stores.blocks.set_block(edge(1, 2), remarking("a"), expecting(0));
    let made = applied(change().await.unwrap()).block;
    assert_eq!(made.version, Version::FIRST);
    assert_stale(change().await, 1);
    set(&stores, 1, 2, remarking("")).await;
    assert_stale(change().await, 2);
}

pub async fn times_are_those_of_the_writes(stores: Stores) {
    set_at(&stores, 1, 2, disturbing_not(true), 1).await;
    set_at(&stores, 1, 2, blocking(true), 2).await;
    set_at(&stores, 1, 2, remarking("a"), 3).await;
    let read = live_block(&stores, 1, 2).await;
    assert_eq!((read.do_not_disturb, read.blocked), (Some(moment(1)), Some(moment(2))));
    assert_eq!(read.updated, moment(3));
}

pub async fn repeated_block_keeps_its_time(stores: Stores) {
    for (seconds, blocked, since) in
        [(1, true, Some(1)), (2, true, Some(1)), (3, false, None), (4, true, Some(4))]
    {
        let answered = set_at(&stores, 1, 2, blocking(blocked), seconds).await;
        assert_eq!(answered.blocked, since.map(moment));
        assert_eq!(live_block(&stores, 1, 2).await, answered);
    }
    set_at(&stores, 1, 2, disturbing_not(true), 5).await;
    assert_eq!(set_at(&stores, 1, 2, disturbing_not(true), 6).await.do_not_disturb, Some(moment(5)));
}

pub async fn block_ends_follow_and_returns_its_version(stores: Stores) {
    let begun = follow(&stores, 2, 1).await;
    let other = follow(&stores, 3, 1).await;
    let cut = set(&stores, 1, 2, blocking(true)).await.cut.unwrap();
    assert!(cut > begun.version, "{cut} after {}", begun.version);
    assert_eq!(follow_state(&stores, 2, 1).await, Stored::Deleted(cut));
    assert_eq!((following(&stores, 2).await, fans(&stores, 1).await), (vec![], vec![3]));
    assert_eq!(live_follow(&stores, 3, 1).await, other);
}

pub async fn a_block_cuts_no_follow_of_ones_own(stores: Stores) {
    let own = follow(&stores, 1, 2).await;
    assert_eq!(set(&stores, 1, 2, blocking(true)).await.cut, None);
    assert_eq!(live_follow(&stores, 1, 2).await, own);
    assert_eq!((following(&stores, 1).await, fans(&stores, 2).await), (vec![2], vec![1]));
}

pub async fn only_a_block_cuts(stores: Stores) {
    let begun = follow(&stores, 2, 1).await;
    for patch in [allowing(Some(0)), remarking("a"), disturbing_not(true), blocking(false), allowing(None)] {
        assert_eq!(set(&stores, 1, 2, patch).await.cut, None);
    }
    assert_eq!(live_follow(&stores, 2, 1).await, begun);
}

pub async fn a_conflict_cuts_nothing(stores: Stores) {
    let begun = follow(&stores, 2, 1).await;
    assert_stale(stores.blocks.set_block(edge(1, 2), everything(), expecting(4)).await, 0);
    assert_eq!(live_follow(&stores, 2, 1).await, begun);
}

pub async fn ended_follow_is_not_cut(stores: Stores) {
    follow(&stores, 2, 1).await;
    let ended = unfollow(&stores, 2, 1).await;
    assert_eq!(set(&stores, 1, 2, blocking(true)).await.cut, None);
    assert_eq!(follow_state(&stores, 2, 1).await, Stored::Deleted(ended));
    follow(&stores, 4, 3).await;
    set(&stores, 3, 4, blocking(true)).await.cut.unwrap();
    assert_eq!(set(&stores, 3, 4, blocking(true)).await.cut, None);
    assert_eq!(set(&stores, 3, 4, blocking(false)).await.cut, None);
}

pub async fn permissions_and_remark_outlive_a_block(stores: Stores) {
    set(&stores, 1, 2, BlockPatch { blocked: None, ..everything() }).await;
    let before = live_block(&stores, 1, 2).await;
    for blocked in [true, false] {
        set(&stores, 1, 2, blocking(blocked)).await;
        let read = live_block(&stores, 1, 2).await;
        let kept = (read.permissions, read.do_not_disturb, read.remark);
        assert_eq!(kept, (before.permissions, before.do_not_disturb, before.remark.clone()));
        assert_eq!(read.blocked.is_some(), blocked);
    }
}

pub async fn to_unblock_brings_no_follow_back(stores: Stores) {
    follow(&stores, 2, 1).await;
    let cut = set(&stores, 1, 2, blocking(true)).await.cut.unwrap();
    set(&stores, 1, 2, blocking(false)).await;
    assert_eq!(follow_state(&stores, 2, 1).await, Stored::Deleted(cut));
    assert_eq!((following(&stores, 2).await, fans(&stores, 1).await), (vec![], vec![]));
}

pub async fn unblocked_user_may_follow_again(stores: Stores) {
    follow(&stores, 2, 1).await;
    for _ in 0..3 {
        let cut = set(&stores, 1, 2, blocking(true)).await.cut.unwrap();
        assert_blocked(stores.follows.follow(edge(2, 1), KEPT, write()).await);
        set(&stores, 1, 2, blocking(false)).await;
        let again = follow(&stores, 2, 1).await;
        assert!(again.version > cut, "{} after {cut}", again.version);
        assert_eq!(live_follow(&stores, 2, 1).await, again);
        assert_eq!((following(&stores, 2).await, fans(&stores, 1).await), (vec![1], vec![2]));
    }
}

pub async fn batch_returns_each_record_once(stores: Stores) {
    let there = set(&stores, 1, 2, everything()).await.block;
    let back = set(&stores, 2, 1, remarking("back")).await.block;
    set(&stores, 1, 9, remarking("not asked for")).await;
    let asked = [(2, 1), (1, 2), (1, 3), (2, 1), (1, 3), (1, 2)].map(|(from, to)| edge(from, to));
    let mut read = stores.blocks.blocks(&asked).await.unwrap();
    read.retain(|(_, stored)| *stored != Stored::Never);
    read.sort_by_key(|(edge, _)| *edge);
    let expected = [(edge(1, 2), Stored::Live(there.into())), (edge(2, 1), Stored::Live(back.into()))];
    assert_eq!(read, expected);
    assert_eq!(stores.blocks.blocks(&[]).await.unwrap(), []);
}

pub async fn block_batch_is_refused_above_limit(stores: Stores) {
    for to in [1, 500] {
        applied(stores.blocks.set_block(edge(1000, to), blocking(true), at(0)).await.unwrap());
    }
    let to = |to: UserId| Edge::new(user_id(1000), to).unwrap();
    let edges: Vec<Edge> = (1..).map(user_id).map(to).take(BATCH_MAX + 1).collect();
    let read = stores.blocks.blocks(&edges[..BATCH_MAX]).await.unwrap();
    let live = read.iter().filter(|(_, stored)| matches!(stored, Stored::Live(_)));
    let live: BTreeSet<i64> = live.map(|(edge, _)| edge.to.get()).collect();
    assert_eq!(live, BTreeSet::from([1, 500]));
    assert_overloaded(stores.blocks.blocks(&edges).await);
}
