//! Block store cases: lists with blocked users, and with users on do-not-disturb.

use super::{
    relation_sample::{
        allowing, block_page, blocking, disturbing_not, edge, live_block, moment, remarking, set_at,
    },
    sample::{assert_pages, expecting, user_id},
};
use crate::{Block, BlockList, BlockPatch, ListPosition, Stores};

const LISTS: [BlockList; 2] = [BlockList::Blocked, BlockList::DoNotDisturb];

/// The patch that puts a user into this list, or takes it out.
fn patch(list: BlockList, to: bool) -> BlockPatch {
    match list {
        BlockList::Blocked => blocking(to),
        BlockList::DoNotDisturb => disturbing_not(to),
        BlockList::All => remarking(if to { "a" } else { "" }),
    }
}

/// User 1 puts the other one into the list.
async fn put(stores: &Stores, list: BlockList, other: i64, seconds: i64) -> Block {
    set_at(stores, 1, other, patch(list, true), seconds).await
}

/// The users in a whole list of user 1.
async fn listed(stores: &Stores, list: BlockList) -> Vec<i64> {
    users(&block_page(stores, 1, list, None, 500).await)
}

fn users(page: &[Block]) -> Vec<i64> {
    page.iter().map(|block| block.edge.to.get()).collect()
}

async fn assert_pages_join(stores: &Stores, list: BlockList, expected: &[i64]) {
    assert_pages(expected, async |after, limit| {
        let page = block_page(stores, 1, list, after, limit).await;
        page.iter().map(|block| (block.edge.to.get(), block.position_in(list).unwrap())).collect()
    })
    .await;
}

pub async fn lists_of_users_who_set_nothing_are_empty(stores: Stores) {
    set_at(&stores, 2, 1, BlockPatch { do_not_disturb: Some(true), ..blocking(true) }, 0).await;
    for list in LISTS {
        assert_eq!(listed(&stores, list).await, [0_i64; 0]);
        let after = Some(ListPosition { at: moment(9), user: user_id(3) });
        assert_eq!(block_page(&stores, 1, list, after, 10).await, []);
        assert_eq!(users(&block_page(&stores, 2, list, None, 10).await), [1]);
    }
}

pub async fn a_list_begins_with_the_newest(stores: Stores) {
    for list in LISTS {
        for (other, seconds) in [(5, 20), (9, 40), (2, 10), (7, 30)] {
            put(&stores, list, other, seconds).await;
        }
        assert_eq!(listed(&stores, list).await, [9, 7, 5, 2], "{list:?}");
    }
}

pub async fn a_list_holds_the_whole_records(stores: Stores) {
    for list in LISTS {
        for other in [2, 3] {
            set_at(&stores, 1, other, BlockPatch { remark: remarking("Bo").remark, ..allowing(Some(5)) }, 0)
                .await;
            put(&stores, list, other, other).await;
        }
        let expected = [live_block(&stores, 1, 3).await, live_block(&stores, 1, 2).await];
        assert_eq!(block_page(&stores, 1, list, None, 10).await, expected, "{list:?}");
        assert_eq!((expected[0].remark.as_str(), expected[0].edge), ("Bo", edge(1, 3)));
    }
}

pub async fn records_of_one_time_stand_by_falling_id(stores: Stores) {
    for list in LISTS {
        for other in [7, 300, 2, i64::MAX, 20, 255, 256] {
            put(&stores, list, other, 5).await;
        }
        assert_eq!(listed(&stores, list).await, [i64::MAX, 300, 256, 255, 20, 7, 2], "{list:?}");
    }
}

pub async fn pages_join_to_the_whole_list(stores: Stores) {
    for list in LISTS {
        for other in 11..=20 {
            put(&stores, list, other, other).await;
        }
        assert_pages_join(&stores, list, &(11..=20).rev().collect::<Vec<_>>()).await;
    }
}

pub async fn pages_join_where_times_are_equal(stores: Stores) {
    for list in LISTS {
        for other in [14, 11, 20, 12, 19, 13, 18, 15, 17, 16] {
            put(&stores, list, other, i64::from(other > 16)).await;
        }
        assert_pages_join(&stores, list, &(11..=20).rev().collect::<Vec<_>>()).await;
    }
}

pub async fn block_page_continues_after_missing_position(stores: Stores) {
    for list in LISTS {
        for (other, seconds) in [(2, 10), (4, 20), (6, 20), (8, 30)] {
            put(&stores, list, other, seconds).await;
        }
        let after = async |seconds, other| {
            let position = ListPosition { at: moment(seconds), user: user_id(other) };
            users(&block_page(&stores, 1, list, Some(position), 10).await)
        };
        assert_eq!(after(40, 1).await, [8, 6, 4, 2]);
        assert_eq!(after(25, 9).await, [6, 4, 2]);
        assert_eq!(after(20, 5).await, [4, 2]);
        assert_eq!(after(20, 1).await, [2]);
        set_at(&stores, 1, 6, patch(list, false), 31).await;
        assert_eq!(after(20, 6).await, [4, 2]);
        assert_eq!(after(5, 1).await, [0_i64; 0]);
    }
}

pub async fn only_what_is_set_is_listed(stores: Stores) {
    put(&stores, BlockList::Blocked, 2, 1).await;
    put(&stores, BlockList::DoNotDisturb, 3, 2).await;
    set_at(&stores, 1, 4, remarking("a"), 3).await;
    set_at(&stores, 1, 5, allowing(Some(0)), 4).await;
    set_at(&stores, 1, 6, BlockPatch { do_not_disturb: Some(true), ..blocking(true) }, 5).await;
    set_at(&stores, 1, 7, BlockPatch { do_not_disturb: Some(false), ..blocking(false) }, 6).await;
    assert_eq!(listed(&stores, BlockList::Blocked).await, [6, 2]);
    assert_eq!(listed(&stores, BlockList::DoNotDisturb).await, [6, 3]);
    assert_pages_join(&stores, BlockList::Blocked, &[6, 2]).await;
    assert_pages_join(&stores, BlockList::All, &[7, 6, 5, 4, 3, 2]).await;
}

pub async fn what_was_set_back_is_listed_no_more(stores: Stores) {
    for list in LISTS {
        for other in 2..=13 {
            put(&stores, list, other, other).await;
        }
        for other in (2..=13).filter(|other| other % 3 != 0) {
            set_at(&stores, 1, other, patch(list, false), 20).await;
        }
        assert_pages_join(&stores, list, &[12, 9, 6, 3]).await;
    }
}

pub async fn what_is_set_twice_keeps_its_place(stores: Stores) {
    for list in LISTS {
        for (other, seconds) in [(2, 10), (3, 20), (2, 30)] {
            put(&stores, list, other, seconds).await;
        }
        assert_eq!(listed(&stores, list).await, [3, 2], "{list:?}");
    }
}

pub async fn changed_setting_is_listed_first(stores: Stores) {
    for list in LISTS {
        for (other, seconds) in [(2, 10), (3, 20), (4, 30)] {
            put(&stores, list, other, seconds).await;
        }
        for (round, order) in (4..).zip([[3, 4, 2], [2, 3, 4], [4, 2, 3]]) {
            set_at(&stores, 1, order[0], patch(list, false), 10 * round).await;
            put(&stores, list, order[0], 10 * round + 5).await;
            assert_eq!(listed(&stores, list).await, order, "{list:?}");
        }
    }
}

pub async fn a_change_of_something_else_moves_nothing(stores: Stores) {
    for list in LISTS {
        for other in [2, 3, 4] {
            put(&stores, list, other, other).await;
        }
        for patch in [remarking("a"), allowing(Some(1)), BlockPatch::default()] {
            set_at(&stores, 1, 2, patch, 50).await;
            assert_eq!(listed(&stores, list).await, [4, 3, 2], "{list:?}");
        }
        let last = block_page(&stores, 1, list, None, 10).await.pop().unwrap();
        assert_eq!(last, live_block(&stores, 1, 2).await);
    }
}

pub async fn a_conflict_moves_nothing(stores: Stores) {
    for list in LISTS {
        put(&stores, list, 2, 1).await;
        stores.blocks.set_block(edge(1, 2), patch(list, false), expecting(77)).await.unwrap_err();
        stores.blocks.set_block(edge(1, 3), patch(list, true), expecting(77)).await.unwrap_err();
        assert_eq!(listed(&stores, list).await, [2], "{list:?}");
    }
}
