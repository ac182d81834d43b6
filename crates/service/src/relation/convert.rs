//! Converts relations between wire and domain types. Raw numbers and strings end here.

use kith_proto::relation::v1 as wire;
use kith_store::{Block, Edge, Follow, ListPosition, Permissions, Timestamp, UserId};

use super::{Blocks, pair::PairRelation, set_operations::CommonCursor};
use crate::{
    error::{Error, valid},
    rpc::{call::Principal, ids, versions::wire_time},
};

/// The edge from `user_id` to the other id, which has this name.
pub(super) fn edge(user_id: i64, other: i64, field: &'static str) -> Result<Edge, Error> {
    let from = ids::user("user_id", user_id)?;
    valid(field, Edge::new(from, ids::user(field, other)?))
}

pub(super) fn permissions(bits: u32) -> Result<Permissions, Error> {
    valid("permissions", Permissions::new(bits))
}

pub(super) fn follow_to_wire(follow: &Follow) -> wire::Follow {
    wire::Follow {
        user_id: follow.edge.from.get(),
        target_id: follow.edge.to.get(),
        version: follow.version.get(),
        follow_time: Some(wire_time(follow.since)),
    }
}

pub(super) fn settings_to_wire(block: Option<&Block>, blocks: &Blocks) -> wire::Settings {
    wire::Settings {
        blocked: block.is_some_and(|block| block.blocked.is_some()),
        permissions: u32::from(blocks.permissions(block).bits()),
        permissions_set: block.is_some_and(|block| block.permissions.is_some()),
        do_not_disturb: block.is_some_and(|block| block.do_not_disturb.is_some()),
        remark: block.map(|block| block.remark.to_string()).unwrap_or_default(),
        version: block.map_or(0, |block| block.version.get()),
        block_time: block.and_then(|block| block.blocked).map(wire_time),
    }
}

pub(super) fn user_settings(block: &Block, blocks: &Blocks) -> wire::UserSettings {
    wire::UserSettings {
        user_id: block.edge.from.get(),
        target_id: block.edge.to.get(),
        settings: Some(settings_to_wire(Some(block), blocks)),
    }
}

pub(super) fn relation(between: PairRelation<'_>, blocks: &Blocks, principal: Principal) -> wire::Relation {
    let set = between.set.map(|entry| &*entry.value);
    wire::Relation {
        user_id: between.edge.from.get(),
        target_id: between.edge.to.get(),
        follow: between.follow.map(|entry| follow_to_wire(&entry.value)),
        followed_by: between.followed_by.map(|entry| follow_to_wire(&entry.value)),
        friends: between.are_friends(),
        settings: Some(settings_to_wire(set, blocks)),
        blocked_by_target: between.is_blocked(principal),
    }
}

/// A position, as in page tokens.
pub(super) fn position_numbers(position: ListPosition) -> [i64; 2] {
    [position.at.0, position.user.get()]
}

pub(super) fn position_of([at, user]: [i64; 2]) -> Option<ListPosition> {
    Some(ListPosition { at: Timestamp(at), user: UserId::new(user).ok()? })
}

/// Like `position_numbers`, but for a cursor over two lists.
pub(super) fn cursor_numbers(CommonCursor { second, page, after }: CommonCursor) -> [i64; 5] {
    // No user is number 0.
    let [begins, user] = page.map_or([0; 2], position_numbers);
    let [at, last] = position_numbers(after);
    [i64::from(second), begins, user, at, last]
}

pub(super) fn cursor_of([second, begins, user, at, last]: [i64; 5]) -> Option<CommonCursor> {
    Some(CommonCursor {
        second: second != 0,
        page: position_of([begins, user]),
        after: position_of([at, last])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back_as_they_were() {
        let after = ListPosition { at: Timestamp(-5), user: UserId::new(7).unwrap() };
        assert_eq!(position_of(position_numbers(after)), Some(after));
        let before = ListPosition { at: Timestamp(9), user: UserId::new(8).unwrap() };
        for (second, page) in [(false, None), (true, Some(before))] {
            let cursor = CommonCursor { second, page, after };
            assert_eq!(cursor_of(cursor_numbers(cursor)), Some(cursor));
        }
    }
}
