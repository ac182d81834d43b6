//! Member store cases: which messages in a group its members and former members may read.

use super::{
    member_sample::{GROUP, by, change, change_of, founded, key, member, service, state, try_change, users},
    message_sample::{append, batch, log_of, new_numbers},
    relation_sample::{assert_overloaded, moment},
    sample::{applied, at_once, each_at_once, group_id, replay, requested, user_id},
};
use crate::{
    BATCH_MAX, ChangeContext, EARLIER_STAYS_MAX, FormerMember, MemberChange, MemberRow, MembersUpdated, Role,
    Seq, Stored, Stores,
};

/// Sends this many messages to the group and returns the last number. Each call in a case has other ids.
async fn send(stores: &Stores, ids: &str, count: usize) -> Seq {
    let numbers = new_numbers(&append(stores, log_of(GROUP), &batch(ids, count)).await);
    numbers.last().copied().unwrap()
}

async fn former(stores: &Stores, user: i64) -> Option<FormerMember> {
    let read = stores.members.former(&[key(GROUP, user)]).await.unwrap();
    assert_eq!(read.len(), 1);
    read[0]
}

const fn range(from_seq: Seq, left_seq: Seq) -> Option<FormerMember> {
    Some(FormerMember { from_seq, left_seq })
}

fn join(user: i64) -> MemberChange {
    MemberChange::Join(user_id(user))
}

fn leave(user: i64) -> MemberChange {
    MemberChange::Leave(user_id(user))
}

/// The only row that a change wrote.
fn only(changed: &MembersUpdated) -> &MemberRow {
    assert_eq!(changed.rows.len(), 1, "{changed:?}");
    &changed.rows[0]
}

/// Returns `from_seq`, `joined_seq`, `left_seq` and `first_seq` after a change to one user.
async fn numbers(stores: &Stores, change_of_one: MemberChange) -> [Seq; 4] {
    let changed = change(stores, change_of_one).await;
    let MemberRow { member, stays, .. } = only(&changed);
    [member.from_seq, member.joined_seq, stays.left_seq, stays.first_seq]
}

pub async fn join_sets_bounds_atomically(stores: Stores) {
    founded(&stores, 3).await;
    let end = send(&stores, "a", 7).await;
    assert_eq!(numbers(&stores, join(5)).await, [end + 1, end + 1, 0, end + 1]);
    // A reader who sees the member sees its bounds.
    let joins = (10..18).map(|user| {
        let (stores, end) = (stores.clone(), end);
        async move {
            let (joined, seen) = tokio::join!(change(&stores, join(user)), state(&stores, GROUP, user));
            for member in seen.live().iter().chain([&only(&joined).member]) {
                assert_eq!((member.from_seq, member.joined_seq), (end + 1, end + 1), "{member:?}");
            }
        }
    });
    at_once(joins).await;
}

pub async fn bounds_are_those_of_every_read(stores: Stores) {
    founded(&stores, 3).await;
    let end = send(&stores, "a", 3).await;
    change(&stores, join(5)).await;
    let made = change(&stores, MemberChange::SetRole(user_id(5), Role::Admin)).await;
    let expected = &only(&made).member;
    assert_eq!((expected.from_seq, expected.joined_seq), (end + 1, end + 1));
    assert_eq!(&member(&stores, 5).await, expected);
    for least in [Role::Member, Role::Admin] {
        let list = stores.members.member_list(group_id(GROUP), least, None, 100).await.unwrap();
        assert!(list.contains(expected), "{least:?}: {list:?}");
    }
}

pub async fn leave_ban_and_removal_end_the_range(stores: Stores) {
    founded(&stores, 2).await;
    let out = [
        (5, leave(5)),
        (6, MemberChange::Remove(users([6]))),
        (7, MemberChange::Ban(users([7]), None)),
        (8, MemberChange::AccountDeleted(user_id(8))),
    ];
    let joined = send(&stores, "a", 4).await + 1;
    change(&stores, MemberChange::Add(users(5..=8))).await;
    let mut end = send(&stores, "b", 3).await;
    for (user, change) in out {
        assert_eq!(former(&stores, user).await, None, "{user} is a member");
        assert_eq!(numbers(&stores, change).await, [joined, joined, end, joined], "{user}");
        assert_eq!(former(&stores, user).await, range(joined, end), "{user}");
        end = send(&stores, &format!("c{user}"), 2).await;
        assert_eq!(former(&stores, user).await, range(joined, end - 2), "{user}");
    }
}

pub async fn rejoin_hides_absence_and_keeps_earlier_stays(stores: Stores) {
    founded(&stores, 3).await;
    send(&stores, "a", 4).await;
    change(&stores, join(5)).await;
    send(&stores, "b", 3).await;
    change(&stores, leave(5)).await;
    send(&stores, "c", 5).await;
    let again = change(&stores, join(5)).await;
    let MemberRow { member: joined, stays, live } = only(&again);
    assert!(live);
    assert_eq!((joined.from_seq, joined.joined_seq), (13, 13));
    assert_eq!((stays.left_seq, stays.first_seq, &*stays.earlier), (0, 5, &[(5, 7)][..]));
    assert_eq!((former(&stores, 5).await, member(&stores, 5).await.from_seq), (None, 13));
    send(&stores, "d", 2).await;
    let left = change(&stores, leave(5)).await;
    assert_eq!(only(&left).stays.earlier, [(5, 7)], "the last stay is not among those before");
    assert_eq!(former(&stores, 5).await, range(13, 14));
}

pub async fn earlier_stays_are_bounded(stores: Stores) {
    founded(&stores, 3).await;
    let mut expected = Vec::new();
    for round in 0..EARLIER_STAYS_MAX + 3 {
        let joined = change(&stores, join(5)).await;
        let MemberRow { stays, .. } = only(&joined);
        let kept = expected.len().saturating_sub(EARLIER_STAYS_MAX);
        assert_eq!((stays.first_seq, &*stays.earlier), (1, &expected[kept..]), "in round {round}");
        let last = send(&stores, &format!("in-{round}"), 2).await;
        change(&stores, leave(5)).await;
        expected.push((last - 1, last));
        send(&stores, &format!("out-{round}"), 1).await;
    }
}

pub async fn history_opens_earlier_messages(stores: Stores) {
    founded(&stores, 3).await;
    send(&stores, "a", 4).await;
    let history = ChangeContext { history: true, ..service() };
    let joined = try_change(&stores, join(5), history).await.unwrap();
    let row = only(&joined);
    assert_eq!((row.member.from_seq, row.member.joined_seq, row.stays.first_seq), (0, 5, 5));
    assert_eq!(member(&stores, 5).await, row.member);
    assert_eq!(numbers(&stores, leave(5)).await, [0, 5, 4, 5]);
    assert_eq!(former(&stores, 5).await, range(0, 4));
}

pub async fn end_members_writes_left_seq(stores: Stores) {
    founded(&stores, 3).await;
    send(&stores, "a", 4).await;
    change(&stores, join(5)).await;
    change(&stores, join(6)).await;
    let left = send(&stores, "b", 2).await;
    change(&stores, leave(6)).await;
    let end = send(&stores, "c", 2).await;
    while stores.members.end_members(group_id(GROUP), 2, moment(9)).await.unwrap() > 0 {}
    for user in 1..=3 {
        assert_eq!(former(&stores, user).await, range(1, end), "{user}");
    }
    assert_eq!((former(&stores, 5).await, former(&stores, 6).await), (range(5, end), range(5, left)));
    change(&stores, MemberChange::AddFounder(user_id(2))).await;
    assert_eq!(member(&stores, 2).await.from_seq, end + 1);
}

pub async fn ended_row_without_left_seq_reads_nothing(stores: Stores) {
    founded(&stores, 3).await;
    change(&stores, leave(3)).await;
    send(&stores, "a", 4).await;
    assert!(matches!(state(&stores, GROUP, 3).await, Stored::Deleted(_)));
    assert_eq!(former(&stores, 3).await, None, "there was no message when it left");
    assert_eq!(former(&stores, 77).await, None, "it never was a member");
    change(&stores, join(5)).await;
    assert_eq!(numbers(&stores, leave(5)).await, [5, 5, 4, 5]);
    send(&stores, "b", 4).await;
    assert_eq!(former(&stores, 5).await, None, "there was no message in its stay");
}

pub async fn former_members_are_read_in_key_order(stores: Stores) {
    founded(&stores, 4).await;
    send(&stores, "a", 1).await;
    for (user, ids) in [(3, "b"), (4, "c")] {
        send(&stores, ids, 1).await;
        change(&stores, leave(user)).await;
    }
    let (third, fourth) = (key(GROUP, 3), key(GROUP, 4));
    let keys = [fourth, key(GROUP, 1), third, key(8, 3), fourth, key(GROUP, 77)];
    let expected = [range(1, 3), None, range(1, 2), None, range(1, 3), None];
    assert_eq!(stores.members.former(&keys).await.unwrap(), expected);
    assert_eq!(stores.members.former(&[]).await.unwrap(), []);
    let many: Vec<_> = (1..=i64::try_from(BATCH_MAX).unwrap()).map(|user| key(GROUP, user)).collect();
    let found = stores.members.former(&many).await.unwrap();
    assert_eq!(found.len(), BATCH_MAX);
    assert_eq!((found[2], found[3], found[4]), (range(1, 2), range(1, 3), None));
    assert_overloaded(stores.members.former(&[&*many, &[third]].concat()).await);
}

pub async fn stored_members_have_their_stays(stores: Stores) {
    founded(&stores, 4).await;
    send(&stores, "a", 2).await;
    change(&stores, join(5)).await;
    send(&stores, "b", 3).await;
    change(&stores, leave(5)).await;
    send(&stores, "c", 1).await;
    let rejoined = change(&stores, join(5)).await;
    let left = change(&stores, leave(3)).await;
    let keys = [key(GROUP, 5), key(GROUP, 77), key(GROUP, 3), key(GROUP, 5)];
    let found = stores.members.stored_members(&keys).await.unwrap();
    let expected = [Some(only(&rejoined)), None, Some(only(&left)), Some(only(&rejoined))];
    assert_eq!(found.iter().map(Option::as_ref).collect::<Vec<_>>(), expected);
    assert_eq!((found[0].as_ref().unwrap().stays.earlier.as_slice()), [(3, 5)]);
    assert_eq!(stores.members.stored_members(&[]).await.unwrap(), []);
    let many: Vec<_> = (1..=i64::try_from(BATCH_MAX).unwrap() + 1).map(|user| key(GROUP, user)).collect();
    assert_overloaded(stores.members.stored_members(&many).await);
}

pub async fn rows_of_a_group_include_former_members(stores: Stores) {
    founded(&stores, 6).await;
    change_of(&stores, 8, MemberChange::AddFounder(user_id(3))).await;
    send(&stores, "a", 2).await;
    for user in [3, 5] {
        change(&stores, leave(user)).await;
    }
    send(&stores, "b", 1).await;
    change(&stores, join(5)).await;
    let keys: Vec<_> = (1..=6).map(|user| key(GROUP, user)).collect();
    let stored = stores.members.stored_members(&keys).await.unwrap();
    let expected: Vec<MemberRow> = stored.into_iter().flatten().collect();
    let page = async |after, limit| stores.members.group_rows(group_id(GROUP), after, limit).await.unwrap();
    assert_eq!(page(None, 100).await, expected);
    assert_eq!(
        expected.iter().map(|row| row.live).collect::<Vec<_>>(),
        [true, true, false, true, true, true]
    );
    assert_eq!(page(None, 4).await, expected[..4]);
    assert_eq!(page(Some(user_id(2)), 2).await, expected[2..4]);
    assert_eq!((page(Some(user_id(6)), 9).await, page(None, 0).await), (vec![], vec![]));
    assert_eq!(stores.members.group_rows(group_id(77), None, 9).await.unwrap(), []);
}

pub async fn replayed_request_gives_the_same_numbers(stores: Stores) {
    founded(&stores, 3).await;
    send(&stores, "a", 4).await;
    let asked =
        |change, id| stores.members.change_members(group_id(GROUP), change, service(), requested(id, 1));
    let joined = applied(asked(join(5), "j").await.unwrap());
    send(&stores, "b", 4).await;
    assert_eq!(replay(asked(join(5), "j").await), joined);
    let left = applied(asked(leave(5), "l").await.unwrap());
    send(&stores, "c", 4).await;
    assert_eq!(replay(asked(leave(5), "l").await), left);
    assert_eq!((only(&joined).member.from_seq, only(&left).stays.left_seq), (5, 8));
    assert_eq!(former(&stores, 5).await, range(5, 8));
}

pub async fn other_changes_keep_the_numbers(stores: Stores) {
    founded(&stores, 3).await;
    send(&stores, "a", 2).await;
    change(&stores, join(5)).await;
    send(&stores, "b", 2).await;
    change(&stores, leave(5)).await;
    let joined = change(&stores, join(5)).await;
    let MemberRow { stays, member, .. } = only(&joined);
    send(&stores, "c", 2).await;
    for other in [
        MemberChange::SetRole(user_id(5), Role::Admin),
        MemberChange::Mute(user_id(5), Some(moment(60))),
        MemberChange::Remark(user_id(5), "Bo".into()),
        MemberChange::SetRole(user_id(5), Role::Member),
    ] {
        let changed = change(&stores, other).await;
        let row = only(&changed);
        assert_eq!((&row.stays, row.member.from_seq, row.member.joined_seq), (stays, 5, 5), "{row:?}");
    }
    assert_eq!(member.from_seq, 5);
    let transferred = change(&stores, MemberChange::Transfer(user_id(5))).await;
    let ranges: Vec<Seq> = transferred.rows.iter().map(|row| row.member.from_seq).collect();
    assert_eq!(ranges, [1, 5], "those of the former owner and of the new one");
}

/// Sends single messages while `stage` runs, until it ends; the numbers by which they were acknowledged.
async fn while_sending<T>(stores: &Stores, ids: &str, stage: impl Future<Output = T>) -> T {
    let talk = async {
        for number in 0.. {
            send(stores, &format!("{ids}-{number}"), 1).await;
        }
    };
    tokio::select! {
        () = talk => unreachable!("it never ends"),
        done = stage => done,
    }
}

pub async fn message_after_acknowledged_join_has_joiner(stores: Stores) {
    founded(&stores, 3).await;
    for user in 10..16 {
        let before = send(&stores, &format!("before-{user}"), 1).await;
        while_sending(&stores, &format!("meanwhile-{user}"), change(&stores, join(user))).await;
        let after = send(&stores, &format!("after-{user}"), 1).await;
        let from = member(&stores, user).await.from_seq;
        assert!(before < from && from <= after, "{before} < {from} <= {after}");
    }
}

pub async fn message_after_kick_has_no_kicked_reader(stores: Stores) {
    founded(&stores, 3).await;
    change(&stores, MemberChange::Add(users(10..16))).await;
    for user in 10..16 {
        let before = send(&stores, &format!("before-{user}"), 1).await;
        let kick = try_change(&stores, MemberChange::Remove(users([user])), by(1));
        while_sending(&stores, &format!("meanwhile-{user}"), kick).await.unwrap();
        let after = send(&stores, &format!("after-{user}"), 1).await;
        let left = former(&stores, user).await.unwrap().left_seq;
        assert!(before <= left && left < after, "{before} <= {left} < {after}");
    }
}

pub async fn kick_read_before_join_inverts_no_membership(stores: Stores) {
    founded(&stores, 3).await;
    for round in 0..4 {
        let moves = (10..14).flat_map(|user| {
            let kick = MemberChange::Remove(users([user]));
            [join(user), kick.clone(), join(user), kick]
        });
        let calls = each_at_once(&stores, moves.enumerate(), |stores, (at, one)| async move {
            send(&stores, &format!("{round}-{at}"), 1).await;
            change(&stores, one).await.rows
        });
        let mut rows = calls.await.concat();
        rows.sort_by_key(|row| row.member.version);
        rows.iter().for_each(in_order);
        ends_only_rise(&rows);
    }
}

/// Asserts that no stay ends before the message ahead of its first, and that each begins above the stay
/// before.
fn in_order(row: &MemberRow) {
    let MemberRow { member, stays, live } = row;
    let mut above = stays.first_seq - 1;
    for (first, last) in &stays.earlier {
        assert!(above < *first && first <= last, "{row:?}");
        above = *last;
    }
    assert!(above < member.joined_seq, "{row:?}");
    assert!(*live || stays.left_seq >= member.joined_seq - 1, "{row:?}");
}

/// Rows are in the order of roster versions.
fn ends_only_rise(rows: &[MemberRow]) {
    let ends: Vec<Seq> = rows
        .iter()
        .map(|row| if row.live { row.member.joined_seq - 1 } else { row.stays.left_seq })
        .collect();
    assert!(ends.is_sorted(), "{ends:?}");
}
