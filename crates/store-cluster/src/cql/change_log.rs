//! The change journal, by minutes: written in a change's batch, read by the feeds and the sweep.

use std::collections::BTreeMap;

use kith_store::{Edge, GroupId, MemberKey, StoreError, UserId, Version};

use super::{
    client::{
        error::malformed,
        session::{Bound, Statement, values},
    },
    relation::follow::{
        bucket::ListPart,
        row::{FollowRow, ListSlot},
    },
    stores::Cql,
};

const NOTE: Statement = Statement::plain(
    "INSERT INTO %k.changes (shard, minute, stamp, kind, from_user, to_user, version, in_following, in_fans) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
);
/// Notes several subjects at once: members in one group, each with the version, 0 if there is none yet; or
/// imported follows, with everything that is noted about each.
const NOTE_SEVERAL: Statement = Statement::plain(
    "INSERT INTO %k.changes (shard, minute, stamp, kind, from_user, to_user, named) VALUES (?, ?, ?, ?, ?, ?, ?)",
);
const READ: Statement = Statement::read(
    "SELECT stamp, kind, from_user, to_user, version, in_following, in_fans, named FROM %k.changes \
     WHERE shard = ? AND minute = ? AND (stamp, kind, from_user, to_user) > (?, ?, ?, ?) LIMIT ?",
);
/// Rows in one answer: some megabytes, if each names the maximum.
const PAGE: i32 = 1_000;
/// The kind for a row about several follows, all changed at one moment.
const IMPORTED: i32 = 5;
/// Maximum follows in one such row: 72 bytes each.
const PER_ROW_MAX: usize = 250;
type LogRow = (i64, i32, i64, i64, Option<i64>, Option<i32>, Option<i32>, Option<Vec<i64>>);

/// The subject of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ChangeSubject {
    /// A follow that has changed.
    Follow(Edge),
    /// A record that says what a user has set about another user.
    Block(Edge),
    /// Lists that have to be counted, without another change.
    Count(Edge),
    /// A present or former member.
    Member(MemberKey),
    /// A group's roster.
    Roster(GroupId),
}

impl ChangeSubject {
    const FOLLOW: i32 = 0;
    const MEMBER: i32 = 3;

    const fn number(self) -> i32 {
        match self {
            Self::Follow(_) => Self::FOLLOW,
            Self::Block(_) => 1,
            Self::Count(_) => 2,
            Self::Member(_) => Self::MEMBER,
            Self::Roster(_) => 4,
        }
    }

    /// The stored ids of its users, or of its group; 0: none.
    const fn ids(self) -> (i64, i64) {
        match self {
            Self::Follow(edge) | Self::Block(edge) | Self::Count(edge) => (edge.from.get(), edge.to.get()),
            Self::Member(key) => (key.group.get(), key.user.get()),
            Self::Roster(group) => (group.get(), 0),
        }
    }

    /// The key that selects the shard: all notes about an edge are in one shard, and all about a group, so
    /// that they are delivered in order.
    const fn shard_key(self) -> (i64, i64) {
        match self {
            Self::Follow(_) | Self::Block(_) | Self::Count(_) => self.ids(),
            Self::Member(MemberKey { group, .. }) | Self::Roster(group) => (group.get(), 0),
        }
    }

    /// Reads an entry's change; `None`: a newer version wrote this kind.
    fn of(number: i32, from: i64, to: i64) -> Result<Option<Self>, StoreError> {
        let user = |id, name| UserId::new(id).map_err(|_| malformed(name));
        let group = || GroupId::new(from).map_err(|_| malformed("from_user"));
        let edge = || Ok::<_, StoreError>(Edge { from: user(from, "from_user")?, to: user(to, "to_user")? });
        Ok(Some(match number {
            Self::FOLLOW => Self::Follow(edge()?),
            1 => Self::Block(edge()?),
            2 => Self::Count(edge()?),
            Self::MEMBER => Self::Member(MemberKey { group: group()?, user: user(to, "to_user")? }),
            4 => Self::Roster(group()?),
            _ => return Ok(None),
        }))
    }
}

/// One change. For a block and for members there is no version until its write is known to have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ChangeLogEntry {
    pub(super) minute: i64,
    pub(super) stamp: i64,
    pub(super) subject: ChangeSubject,
    pub(super) version: Option<Version>,
    /// The follow's buckets in both lists.
    pub(super) buckets: Option<(i32, i32)>,
    /// An imported follow's position in both lists.
    pub(super) imported_at: Option<i64>,
}

impl ChangeLogEntry {
    /// A note that a follow, with this slot, has this version.
    pub(super) fn of_follow(cql: &Cql, edge: Edge, slot: ListSlot, version: i64) -> Self {
        let buckets = Some((slot.in_following, slot.in_fans));
        Self { version: Version::new(version), buckets, ..Self::about(cql, ChangeSubject::Follow(edge)) }
    }

    /// Notes that a follow's buckets have to be counted.
    pub(super) fn of_count(cql: &Cql, edge: Edge, slot: ListSlot) -> Self {
        Self { subject: ChangeSubject::Count(edge), version: None, ..Self::of_follow(cql, edge, slot, 0) }
    }

    /// A note that this is about to change.
    pub(super) fn about(cql: &Cql, subject: ChangeSubject) -> Self {
        let stamp = cql.client.clock.version(0);
        Self {
            minute: cql.client.clock.minute(),
            stamp,
            subject,
            version: None,
            buckets: None,
            imported_at: None,
        }
    }

    /// Makes a note for tests.
    #[cfg(test)]
    pub(super) const fn sample(
        subject: ChangeSubject,
        version: Option<Version>,
        buckets: (i32, i32),
    ) -> Self {
        Self { minute: 1, stamp: 1, subject, version, buckets: Some(buckets), imported_at: None }
    }

    /// The list parts that it affects.
    pub(super) fn parts(&self) -> Vec<ListPart> {
        let Some((following, fans)) = self.buckets else { return Vec::new() };
        let (from, to) = self.subject.ids();
        vec![
            ListPart { owner: from, list: 0, bucket: following },
            ListPart { owner: to, list: 1, bucket: fans },
        ]
    }

    /// The imported follow, with its slot.
    pub(super) fn imported_slot(&self) -> Option<(Edge, ListSlot)> {
        let (ChangeSubject::Follow(edge), Some(at)) = (self.subject, self.imported_at) else { return None };
        let (in_following, in_fans) = self.buckets?;
        Some((edge, ListSlot { at, in_following, in_fans }))
    }

    /// The statement that writes it. It may be written again, with what is known later.
    pub(super) fn part(self, cql: &Cql) -> Bound {
        let (from, to) = self.subject.ids();
        let (following, fans) = self.buckets.unzip();
        let version = self.version.map(Version::get);
        let kind = self.subject.number();
        let shard = cql.shard(self.subject);
        Bound(&NOTE, values![shard, self.minute, self.stamp, kind, from, to, version, following, fans])
    }

    /// The statements that write notes about one group at one moment; notes about members share a row. They
    /// overwrite earlier notes from the same moment.
    pub(super) fn parts_of_group(cql: &Cql, notes: &[Self]) -> Vec<Bound> {
        let (mut parts, mut named) = (Vec::new(), Vec::new());
        for note in notes {
            match note.subject {
                ChangeSubject::Member(key) => {
                    named.extend([key.user.get(), note.version.map_or(0, Version::get)])
                }
                _ => parts.push(note.part(cql)),
            }
        }
        let of_member = notes.iter().find(|note| matches!(note.subject, ChangeSubject::Member(_)));
        parts.extend(of_member.map(|Self { minute, stamp, subject, .. }| {
            let (shard, group) = (cql.shard(*subject), subject.ids().0);
            Bound(&NOTE_SEVERAL, values![shard, *minute, *stamp, subject.number(), group, 0_i64, named])
        }));
        parts
    }

    /// The statements that write notes about many follows at one moment; notes in the same shard share few
    /// rows.
    pub(super) fn parts_of_imported(cql: &Cql, rows: &[FollowRow]) -> Vec<Bound> {
        let (minute, stamp) = (cql.client.clock.minute(), cql.client.clock.version(0));
        let mut shards: BTreeMap<i32, Vec<[i64; 6]>> = BTreeMap::new();
        for FollowRow { edge, slot, state, .. } in rows {
            let (version, following, fans) =
                (state.map_or(0, |state| state.version), slot.in_following.into(), slot.in_fans.into());
            let named = [edge.from.get(), edge.to.get(), version, following, fans, slot.at];
            shards.entry(cql.shard(ChangeSubject::Follow(*edge))).or_default().push(named);
        }
        let of_shard = |(shard, named): (i32, Vec<[i64; 6]>)| {
            let part = |named: &[[i64; 6]]| {
                // The random number distinguishes it from another node's note at the same moment.
                let row =
                    values![shard, minute, stamp, IMPORTED, 0_i64, rand::random::<i64>(), named.concat()];
                Bound(&NOTE_SEVERAL, row)
            };
            named.chunks(PER_ROW_MAX).map(part).collect::<Vec<_>>()
        };
        shards.into_iter().flat_map(of_shard).collect()
    }

    fn read(minute: i64, row: LogRow) -> Result<Vec<Self>, StoreError> {
        let (stamp, kind, from, to, version, following, fans, named) = row;
        let note = |subject: ChangeSubject, version: Option<i64>, buckets: Option<(i32, i32)>| {
            let version = version.filter(|version| *version > 0).and_then(Version::new);
            Self { minute, stamp, subject, version, buckets, imported_at: None }
        };
        let read = |(kind, from, to): (i32, i64, i64), version, buckets| {
            let subject = ChangeSubject::of(kind, from, to).transpose()?;
            Some(subject.map(|subject| note(subject, version, buckets)))
        };
        let Some(named) = named else {
            return read((kind, from, to), version, following.zip(fans)).into_iter().collect();
        };
        let bucket = |number: i64| i32::try_from(number).ok();
        let follow = |&[from, to, version, following, fans, at]: &[i64; 6]| {
            let buckets = bucket(following).zip(bucket(fans));
            let note = read((ChangeSubject::FOLLOW, from, to), Some(version), buckets)?;
            Some(note.map(|note| Self { imported_at: Some(at), ..note }))
        };
        let member = |&[user, version]: &[i64; 2]| read((kind, from, user), Some(version), None);
        match kind {
            IMPORTED => split_numbers(&named)?.iter().filter_map(follow).collect(),
            ChangeSubject::MEMBER => split_numbers(&named)?.iter().filter_map(member).collect(),
            // Like a single subject that a newer version wrote.
            _ => Ok(Vec::new()),
        }
    }
}

/// The subjects in one row, each with `N` numbers.
fn split_numbers<const N: usize>(named: &[i64]) -> Result<&[[i64; N]], StoreError> {
    let (each, rest) = named.as_chunks();
    if rest.is_empty() { Ok(each) } else { Err(malformed("named")) }
}

impl Cql {
    /// The shard for notes about this.
    pub(super) fn shard(&self, subject: ChangeSubject) -> i32 {
        let (from, to) = subject.shard_key();
        let mixed = (from ^ to.rotate_left(32)).cast_unsigned();
        let mixed = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        i32::try_from(mixed % u64::from(self.client.options.feed_shards)).unwrap_or_default()
    }

    /// Reads a minute's notes after this stamp, by rising stamp.
    pub(super) async fn notes(
        &self,
        shard: i32,
        minute: i64,
        after: i64,
    ) -> Result<Vec<ChangeLogEntry>, StoreError> {
        let (mut notes, mut last) = (Vec::new(), (after, i32::MAX, i64::MAX, i64::MAX));
        loop {
            let (stamp, kind, from, to) = last;
            let rows = self.client.read(&READ, values![shard, minute, stamp, kind, from, to, PAGE]).await?;
            let mut read = 0;
            for row in rows.rows::<LogRow>().map_err(|_| malformed("note"))? {
                let row: LogRow = row.map_err(|_| malformed("note"))?;
                last = (row.0, row.1, row.2, row.3);
                notes.extend(ChangeLogEntry::read(minute, row)?);
                read += 1;
            }
            if read < PAGE {
                return Ok(notes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: i32, named: Vec<i64>) -> LogRow {
        (77, kind, 0, -5, None, None, None, Some(named))
    }

    #[test]
    fn row_of_many_follows_reads_as_single_rows() {
        let notes =
            ChangeLogEntry::read(1, row(IMPORTED, vec![1, 2, 9, 0, 3, 70, 4, 5, 8, 1, 0, 71])).unwrap();
        let slots: Vec<ListSlot> = notes.iter().filter_map(|note| Some(note.imported_slot()?.1)).collect();
        assert_eq!(
            slots,
            [(70, 0, 3), (71, 1, 0)].map(|(at, in_following, in_fans)| ListSlot {
                at,
                in_following,
                in_fans
            })
        );
        let alone = |from, to, version, following, fans| {
            (77, 0, from, to, Some(version), Some(following), Some(fans), None)
        };
        let apart =
            [alone(1, 2, 9, 0, 3), alone(4, 5, 8, 1, 0)].map(|row| ChangeLogEntry::read(1, row).unwrap());
        let notes: Vec<ChangeLogEntry> =
            notes.into_iter().map(|note| ChangeLogEntry { imported_at: None, ..note }).collect();
        assert_eq!(notes, apart.concat());
    }

    #[test]
    fn unknown_entry_is_skipped_damaged_one_refused() {
        assert_eq!(ChangeLogEntry::read(1, row(99, vec![1, 2, 3])).unwrap(), []);
        assert_eq!(ChangeLogEntry::read(1, (77, 99, 1, 2, None, None, None, None)).unwrap(), []);
        for (kind, named) in [
            (IMPORTED, vec![1, 2, 3, 4]),
            (ChangeSubject::MEMBER, vec![1]),
            (IMPORTED, vec![0, 2, 9, 0, 0, 70]),
        ] {
            assert!(ChangeLogEntry::read(1, row(kind, named)).is_err());
        }
    }
}
