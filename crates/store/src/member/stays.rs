//! Members' stays as message ranges, and their rules.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Member, MemberKey, MemberRow, MembershipTransition, Role, Seq, Text, UserId, Version};

/// The most stays that are stored besides the last stay.
pub const EARLIER_STAYS_MAX: usize = 16;

/// A user's stays in a group, besides the last stay's `from_seq` and `joined_seq`, which are part of the
/// strict record [`Member`].
///
/// A stay begins after the end of the log that was read in the joining step, and ends with the end that was
/// read in the leaving step. All numbers are 0 in rows that were written before there were messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StayHistory {
    /// The number of the last message in the last stay. 0 while the user is a member; in a former member's
    /// row: it may read nothing.
    pub left_seq: Seq,
    /// The number of the first message in the first stay. It never changes. 0 counts as 1.
    pub first_seq: Seq,
    /// The numbers of the first and the last message in each stay before the last, the earliest first; at
    /// most [`EARLIER_STAYS_MAX`] stays. Stays without a message are left out.
    pub earlier: Vec<(Seq, Seq)>,
}

impl StayHistory {
    /// The stays for a user who joins for the first time, and the stay's first message number. `end`: the end
    /// of the log.
    fn first(end: Seq) -> (Self, Seq) {
        let joined_seq = end + 1;
        (Self { first_seq: joined_seq, ..Self::default() }, joined_seq)
    }

    /// Like `first`, but for a user who joins again, from the previous stay's data.
    fn next(MemberRow { member, stays, .. }: &MemberRow, end: Seq) -> (Self, Seq) {
        let (from, to) = (member.joined_seq.max(1), stays.left_seq);
        let mut earlier = stays.earlier.clone();
        earlier.extend((from <= to).then_some((from, to)));
        let forgotten = earlier.len().saturating_sub(EARLIER_STAYS_MAX);
        earlier.drain(..forgotten);
        // An end below the last stay's would make the two stays overlap.
        (Self { left_seq: 0, first_seq: stays.first_seq, earlier }, end.max(to) + 1)
    }
}

/// The range of messages that a former member may read, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormerMember {
    /// The lowest number; 0: from the first.
    pub from_seq: Seq,
    /// The highest number. Above 0.
    pub left_seq: Seq,
}

impl FormerMember {
    /// The ranges that these users may read as former members, in their order, from the rows that were found.
    #[must_use]
    pub fn of(keys: &[MemberKey], rows: &[MemberRow]) -> Vec<Option<Self>> {
        let former = rows.iter().filter_map(|row| row.former().map(|former| (row.member.key, former)));
        let former: BTreeMap<MemberKey, Self> = former.collect();
        keys.iter().map(|key| former.get(key).copied()).collect()
    }
}

/// The end of the log, by which a [`MembershipTransition`] decides its members' ranges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TransitionLogEnd {
    read: Option<Seq>,
    is_lacking: bool,
}

impl TransitionLogEnd {
    /// The end. If it was not read, the use is recorded.
    fn needed(&mut self) -> Seq {
        self.is_lacking |= self.read.is_none();
        self.read.unwrap_or_default()
    }
}

impl MembershipTransition {
    /// Sets the end of the group's log, read after the roster; `None`: it was not read, and no user may join
    /// or leave.
    #[must_use]
    pub fn with_log_end(mut self, read: Option<Seq>) -> Self {
        self.log_end = TransitionLogEnd { read, is_lacking: false };
        self
    }

    /// Whether a user joined or left while the end of the log was unknown. The result must not be written
    /// then.
    #[must_use]
    pub const fn lacks_log_end(&self) -> bool {
        self.log_end.is_lacking
    }

    /// Begins the stay of a user who is not a member.
    pub(crate) fn begin_stay(&mut self, user: UserId, version: Version, history: bool) {
        let end = self.log_end.needed();
        let before = self.rows.get(&user);
        let (stays, joined_seq) =
            before.map_or_else(|| StayHistory::first(end), |row| StayHistory::next(row, end));
        // Role and remark end with a membership. A mute does not: leaving and joining must not end it.
        let muted_until = before.and_then(|row| row.member.muted_until).filter(|until| *until > self.now);
        let ordinal = before.map_or(self.roster.ordinals, |row| row.member.ordinal);
        let member = Member {
            key: MemberKey { group: self.group, user },
            version,
            role: Role::Member,
            ordinal,
            remark: Text::default(),
            muted_until,
            joined: self.now,
            from_seq: if history { 0 } else { joined_seq },
            joined_seq,
        };
        self.roster.ordinals = self.roster.ordinals.max(ordinal + 1);
        self.rows.insert(user, MemberRow { member, live: true, stays });
    }

    /// Ends a user's stay, if it is a member. A former member's row gets a new version, too.
    pub(crate) fn end_stay(&mut self, user: UserId, version: Version) {
        let Some(row) = self.rows.get_mut(&user) else { return };
        row.member.version = version;
        if std::mem::replace(&mut row.live, false) {
            // An end below the stay's beginning would make the stay end before it begins.
            row.stays.left_seq = self.log_end.needed().max(row.member.joined_seq - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ChangeContext, GroupId, MemberChange, Roster, Timestamp, UserId};

    const OWNER: i64 = 100;

    fn user(id: i64) -> UserId {
        UserId::new(id).unwrap()
    }

    const fn service(history: bool) -> ChangeContext {
        ChangeContext { by: None, members_max: 100, bans_max: 100, history }
    }

    /// A group as it is stored between changes.
    #[derive(Debug)]
    struct TestGroup {
        roster: Roster,
        rows: BTreeMap<UserId, MemberRow>,
    }

    impl TestGroup {
        /// Owned by a user whom no case changes.
        fn founded() -> Self {
            let mut group = Self { roster: Roster::default(), rows: BTreeMap::new() };
            group.change(&MemberChange::AddFounder(user(OWNER)), 0);
            group
        }

        fn change(&mut self, change: &MemberChange, end: Seq) {
            self.change_with(change, service(false), end);
        }

        fn change_with(&mut self, change: &MemberChange, terms: ChangeContext, end: Seq) {
            let mut transition = self.transition(Some(end));
            transition.change(change, terms).unwrap();
            self.take(&transition);
        }

        fn dismiss(&mut self, end: Seq) {
            let mut transition = self.transition(Some(end));
            transition.end();
            self.take(&transition);
        }

        fn transition(&self, end: Option<Seq>) -> MembershipTransition {
            let rows = self.rows.values().cloned();
            MembershipTransition::new(GroupId::new(9).unwrap(), self.roster, rows, Timestamp(7))
                .with_log_end(end)
        }

        fn take(&mut self, transition: &MembershipTransition) {
            assert!(!transition.lacks_log_end());
            let changed = transition.outcome();
            self.roster = changed.roster;
            self.rows.extend(changed.rows.into_iter().map(|row| (row.member.key.user, row)));
        }

        fn row(&self, id: i64) -> &MemberRow {
            &self.rows[&user(id)]
        }

        /// Returns `from_seq`, `joined_seq` and `left_seq`.
        fn numbers(&self, id: i64) -> [Seq; 3] {
            let MemberRow { member, stays, .. } = self.row(id);
            [member.from_seq, member.joined_seq, stays.left_seq]
        }
    }

    fn join(id: i64) -> MemberChange {
        MemberChange::Join(user(id))
    }

    fn leave(id: i64) -> MemberChange {
        MemberChange::Leave(user(id))
    }

    #[test]
    fn join_begins_above_the_end() {
        let mut group = TestGroup::founded();
        assert_eq!(group.numbers(OWNER), [1, 1, 0]);
        group.change(&join(3), 7);
        assert_eq!(group.numbers(3), [8, 8, 0]);
        assert_eq!(group.row(3).stays.first_seq, 8);
    }

    #[test]
    fn history_opens_earlier_messages() {
        let mut group = TestGroup::founded();
        group.change_with(&join(3), service(true), 7);
        assert_eq!(group.numbers(3), [0, 8, 0]);
    }

    #[test]
    fn every_way_out_ends_the_stay() {
        let out = [
            leave(3),
            MemberChange::Remove(vec![user(3)]),
            MemberChange::Ban(vec![user(3)], None),
            MemberChange::AccountDeleted(user(3)),
        ];
        for change in out {
            let mut group = TestGroup::founded();
            group.change(&join(3), 7);
            group.change(&change, 12);
            assert_eq!(group.numbers(3), [8, 8, 12], "{change:?}");
            assert_eq!(group.row(3).former(), Some(FormerMember { from_seq: 8, left_seq: 12 }), "{change:?}");
        }
        let mut group = TestGroup::founded();
        group.change(&join(3), 7);
        group.dismiss(12);
        assert_eq!((group.numbers(3), group.numbers(OWNER)), ([8, 8, 12], [1, 1, 12]));
    }

    #[test]
    fn dismissal_keeps_stays_of_former_members() {
        let mut group = TestGroup::founded();
        group.change(&join(3), 7);
        group.change(&MemberChange::Mute(user(3), Some(Timestamp(9))), 7);
        group.change(&leave(3), 12);
        group.dismiss(20);
        assert_eq!(group.numbers(3), [8, 8, 12]);
        assert_eq!(group.row(3).member.muted_until, None);
    }

    #[test]
    fn kick_with_an_older_end_ends_an_empty_stay() {
        let mut group = TestGroup::founded();
        group.change(&join(3), 7);
        group.change(&leave(3), 4);
        assert_eq!(group.numbers(3), [8, 8, 7]);
        assert_eq!(group.row(3).former(), None);
    }

    #[test]
    fn rejoin_begins_above_the_last_stay() {
        let mut group = TestGroup::founded();
        group.change(&join(3), 7);
        group.change(&leave(3), 12);
        group.change(&join(3), 9);
        assert_eq!(group.numbers(3), [13, 13, 0]);
        assert_eq!(group.row(3).stays.earlier, [(8, 12)]);
    }

    #[test]
    fn other_changes_keep_numbers_and_need_no_end() {
        let mut group = TestGroup::founded();
        group.change(&join(3), 7);
        group.change(&leave(3), 9);
        group.change(&join(3), 12);
        let before = (group.numbers(3), group.row(3).stays.clone());
        for change in [
            MemberChange::SetRole(user(3), Role::Admin),
            MemberChange::Mute(user(3), Some(Timestamp(9))),
            MemberChange::Remark(user(3), "Bo".into()),
            MemberChange::Transfer(user(3)),
            MemberChange::MuteAll(Some(Timestamp(9))),
            MemberChange::Unban(vec![user(3)]),
        ] {
            let mut transition = group.transition(None);
            transition.change(&change, service(true)).unwrap();
            assert!(!transition.lacks_log_end() && !change.reads_end(), "{change:?}");
            group.take(&transition);
            assert_eq!((group.numbers(3), group.row(3).stays.clone()), before, "{change:?}");
        }
    }

    #[test]
    fn no_user_comes_or_goes_without_the_end() {
        let mut group = TestGroup::founded();
        group.change(&join(3), 7);
        for (change, crosses) in [
            (join(4), true),
            (MemberChange::Add(vec![user(3), user(4)]), true),
            (leave(3), true),
            (MemberChange::Ban(vec![user(3)], None), true),
            (join(3), false),
            (MemberChange::Remove(vec![user(4)]), false),
            (MemberChange::Ban(vec![user(4)], None), false),
            (MemberChange::AddFounder(user(OWNER)), false),
        ] {
            let mut transition = group.transition(None);
            transition.change(&change, service(false)).unwrap();
            assert_eq!(transition.lacks_log_end(), crosses, "{change:?}");
            assert!(change.reads_end(), "{change:?}");
        }
        let mut transition = group.transition(None);
        transition.end();
        assert!(transition.lacks_log_end());
    }

    #[test]
    fn row_without_ranges_opens_nothing() {
        let mut group = TestGroup::founded();
        group.change(&join(3), 0);
        group.change(&join(4), 0);
        group.change(&leave(4), 0);
        for row in group.rows.values_mut() {
            (row.member.from_seq, row.member.joined_seq, row.stays) = (0, 0, StayHistory::default());
        }
        assert_eq!(group.row(4).former(), None, "it left before there were messages");
        group.change(&leave(3), 12);
        assert_eq!(group.row(3).former(), Some(FormerMember { from_seq: 0, left_seq: 12 }));
        for id in [3, 4] {
            group.change(&join(id), 20);
        }
        assert_eq!((group.numbers(3), group.numbers(4)), ([21, 21, 0], [21, 21, 0]));
        assert_eq!((&*group.row(3).stays.earlier, &*group.row(4).stays.earlier), (&[(1, 12)][..], &[][..]));
    }

    #[test]
    fn replies_from_before_messages_are_read() {
        let mut row = serde_json::to_value(TestGroup::founded().row(OWNER)).unwrap();
        row.as_object_mut().unwrap().remove("stays");
        for field in ["from_seq", "joined_seq"] {
            row["member"].as_object_mut().unwrap().remove(field).unwrap();
        }
        let row: MemberRow = serde_json::from_value(row).unwrap();
        assert_eq!((row.member.joined_seq, row.stays), (0, StayHistory::default()));
    }

    /// A stay in the plain model: the messages that were sent in it.
    #[derive(Clone, Debug, Default)]
    struct ModelStay {
        messages: Vec<Seq>,
        /// Earlier messages, in a group that shows them.
        before: Vec<Seq>,
        is_over: bool,
    }

    /// A log, and which users were members when each message was sent.
    #[derive(Debug, Default)]
    struct StayModel {
        end: Seq,
        stays: BTreeMap<i64, Vec<ModelStay>>,
    }

    #[derive(Clone, Debug)]
    enum ModelStep {
        Send(i64),
        Join(i64, bool),
        Leave(i64, u8),
    }

    impl StayModel {
        fn is_member(&self, id: i64) -> bool {
            self.stays.get(&id).and_then(|stays| stays.last()).is_some_and(|stay| !stay.is_over)
        }

        fn send(&mut self) {
            self.end += 1;
            for stay in
                self.stays.values_mut().filter_map(|stays| stays.last_mut()).filter(|stay| !stay.is_over)
            {
                stay.messages.push(self.end);
            }
        }

        fn join(&mut self, id: i64, history: bool) {
            let before = if history { (1..=self.end).collect() } else { Vec::new() };
            self.stays.entry(id).or_default().push(ModelStay { before, ..ModelStay::default() });
        }

        fn leave(&mut self, id: i64) {
            if let Some(stay) = self.stays.get_mut(&id).and_then(|stays| stays.last_mut()) {
                stay.is_over = true;
            }
        }

        /// Lists the messages that the user may read now.
        fn readable(&self, id: i64) -> Vec<Seq> {
            let stay = self.stays[&id].last().unwrap();
            [stay.before.clone(), stay.messages.clone()].concat()
        }

        /// The first and last message in each stay before the last stay that had messages.
        fn earlier(&self, id: i64) -> Vec<(Seq, Seq)> {
            let (_, before) = self.stays[&id].split_last().unwrap();
            let all: Vec<_> = before
                .iter()
                .filter_map(|stay| Some((*stay.messages.first()?, *stay.messages.last()?)))
                .collect();
            all[all.len().saturating_sub(EARLIER_STAYS_MAX)..].to_vec()
        }
    }

    fn step() -> impl Strategy<Value = ModelStep> {
        prop_oneof![
            (1..4_i64).prop_map(ModelStep::Send),
            (1..=2_i64, any::<bool>()).prop_map(|(id, history)| ModelStep::Join(id, history)),
            (1..=2_i64, 0..4_u8).prop_map(|(id, how)| ModelStep::Leave(id, how)),
        ]
    }

    fn way_out(id: i64, how: u8) -> MemberChange {
        match how {
            0 => leave(id),
            1 => MemberChange::Remove(vec![user(id)]),
            2 => MemberChange::Ban(vec![user(id)], Some(Timestamp(8))),
            _ => MemberChange::AccountDeleted(user(id)),
        }
    }

    fn agree(group: &TestGroup, model: &StayModel, id: i64) {
        let row = group.row(id);
        let range = if row.live {
            Some((row.member.from_seq, model.end))
        } else {
            row.former().map(|former| (former.from_seq, former.left_seq))
        };
        let readable: Vec<Seq> = range.map_or_else(Vec::new, |(from, to)| (from.max(1)..=to).collect());
        assert_eq!((row.live, readable), (model.is_member(id), model.readable(id)), "{row:?}");
        assert_eq!(row.stays.earlier, model.earlier(id), "{row:?}");
    }

    proptest! {
        #[test]
        fn stays_agree_with_a_plain_model(steps in prop::collection::vec(step(), 0..200)) {
            let (mut group, mut model) = (TestGroup::founded(), StayModel::default());
            let mut firsts = BTreeMap::new();
            for step in steps {
                match step {
                    ModelStep::Send(count) => (0..count).for_each(|_| model.send()),
                    ModelStep::Join(id, history) if !model.is_member(id) => {
                        firsts.entry(id).or_insert(model.end + 1);
                        group.change_with(&join(id), service(history), model.end);
                        model.join(id, history);
                    }
                    ModelStep::Leave(id, how) if model.is_member(id) => {
                        group.change(&way_out(id, how), model.end);
                        model.leave(id);
                    }
                    ModelStep::Join(..) | ModelStep::Leave(..) => {}
                }
                for (id, first) in &firsts {
                    agree(&group, &model, *id);
                    prop_assert_eq!(group.row(*id).stays.first_seq, *first);
                }
            }
        }

        #[test]
        fn stays_never_overlap_whatever_end_is_read(ends in prop::collection::vec(0..50_i64, 0..80)) {
            let mut group = TestGroup::founded();
            for (at, end) in ends.into_iter().enumerate() {
                let change = if at % 2 == 0 { join(3) } else { leave(3) };
                group.change(&change, end);
                let MemberRow { member, stays, .. } = group.row(3);
                let last = (member.joined_seq, if at % 2 == 0 { Seq::MAX } else { stays.left_seq });
                prop_assert!(last.0 <= last.1 + i64::from(last.1 != Seq::MAX));
                let all: Vec<_> = stays.earlier.iter().copied().chain([last]).collect();
                prop_assert!(all.windows(2).all(|pair| pair[0].0 <= pair[0].1 && pair[0].1 < pair[1].0), "{all:?}");
                prop_assert!(stays.first_seq <= all[0].0 && stays.earlier.len() <= EARLIER_STAYS_MAX);
            }
        }
    }
}
