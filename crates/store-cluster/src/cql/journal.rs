//! What has changed, by minutes: written in the batch of a change, read by the feeds and the sweep.

use kith_store::{Edge, StoreError, UserId, Version};

use super::{
    count::Part,
    error::malformed,
    row::Seat,
    session::{Bound, Cql, Statement, values},
};

const NOTE: Statement = Statement::plain(
    "INSERT INTO %k.changes (shard, minute, stamp, kind, from_user, to_user, version, in_following, in_fans) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
);
const READ: Statement = Statement::read(
    "SELECT stamp, kind, from_user, to_user, version, in_following, in_fans FROM %k.changes \
     WHERE shard = ? AND minute = ? AND (stamp, kind, from_user, to_user) > (?, ?, ?, ?) LIMIT ?",
);
/// Notes of one answer.
const PAGE: i32 = 5_000;
type Row = (i64, i32, i64, i64, Option<i64>, Option<i32>, Option<i32>);

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Subject {
    /// A follow that has changed.
    Follow,
    /// A record of what a user has set about another one.
    Block,
    /// Lists that are to be counted, and nothing else.
    Count,
}

impl Subject {
    const fn number(self) -> i32 {
        match self {
            Self::Follow => 0,
            Self::Block => 1,
            Self::Count => 2,
        }
    }

    const fn of(number: i32) -> Self {
        match number {
            0 => Self::Follow,
            1 => Self::Block,
            _ => Self::Count,
        }
    }
}

/// One change. Of a block there is no version until its write is known to have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Note {
    pub(super) minute: i64,
    pub(super) stamp: i64,
    pub(super) subject: Subject,
    pub(super) edge: Edge,
    pub(super) version: Option<Version>,
    /// The buckets of the follow in both lists.
    pub(super) buckets: Option<(i32, i32)>,
}

impl Note {
    /// That a follow, which stands here, has this version.
    pub(super) fn of_follow(cql: &Cql, edge: Edge, seat: Seat, version: i64) -> Self {
        let stamp = cql.clock.version(0);
        Self {
            minute: cql.clock.minute(),
            stamp,
            subject: Subject::Follow,
            edge,
            version: Version::new(version),
            buckets: Some((seat.in_following, seat.in_fans)),
        }
    }

    /// That the buckets of a follow are to be counted.
    pub(super) fn of_count(cql: &Cql, edge: Edge, seat: Seat) -> Self {
        Self { subject: Subject::Count, version: None, ..Self::of_follow(cql, edge, seat, 0) }
    }

    /// That a block is about to change.
    pub(super) fn of_block(cql: &Cql, edge: Edge) -> Self {
        let stamp = cql.clock.version(0);
        let minute = cql.clock.minute();
        Self { minute, stamp, subject: Subject::Block, edge, version: None, buckets: None }
    }

    /// The parts of lists that it is about.
    pub(super) fn parts(&self) -> Vec<Part> {
        let Some((following, fans)) = self.buckets else { return Vec::new() };
        vec![
            Part { owner: self.edge.from.get(), list: 0, bucket: following },
            Part { owner: self.edge.to.get(), list: 1, bucket: fans },
        ]
    }

    /// The statement that writes it. It may be written again, with what is known later.
    pub(super) fn part(self, cql: &Cql) -> Bound {
        let (from, to) = (self.edge.from.get(), self.edge.to.get());
        let (following, fans) = self.buckets.unzip();
        let version = self.version.map(Version::get);
        let kind = self.subject.number();
        let shard = cql.shard(self.edge);
        Bound(&NOTE, values![shard, self.minute, self.stamp, kind, from, to, version, following, fans])
    }

    fn read(minute: i64, row: Row) -> Result<Self, StoreError> {
        let (stamp, kind, from, to, version, following, fans) = row;
        let user = |id, name| UserId::new(id).map_err(|_| malformed(name));
        Ok(Self {
            minute,
            stamp,
            subject: Subject::of(kind),
            edge: Edge { from: user(from, "from_user")?, to: user(to, "to_user")? },
            version: version.and_then(Version::new),
            buckets: following.zip(fans),
        })
    }
}

impl Cql {
    /// Where changes of this edge are noted: all of one edge in one place, so that they are told in order.
    pub(super) fn shard(&self, edge: Edge) -> i32 {
        let mixed = (edge.from.get() ^ edge.to.get().rotate_left(32)).cast_unsigned();
        let mixed = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        i32::try_from(mixed % u64::from(self.options.feed_shards)).unwrap_or_default()
    }

    /// What was noted in a minute after this stamp, by rising stamp.
    pub(super) async fn notes(&self, shard: i32, minute: i64, after: i64) -> Result<Vec<Note>, StoreError> {
        let (mut notes, mut last) = (Vec::new(), (after, i32::MAX, i64::MAX, i64::MAX));
        loop {
            let (stamp, kind, from, to) = last;
            let rows = self.read(&READ, values![shard, minute, stamp, kind, from, to, PAGE]).await?;
            let before = notes.len();
            for row in rows.rows::<Row>().map_err(|_| malformed("note"))? {
                let row = row.map_err(|_| malformed("note"))?;
                last = (row.0, row.1, row.2, row.3);
                notes.push(Note::read(minute, row)?);
            }
            if notes.len() - before < usize::try_from(PAGE).unwrap_or_default() {
                return Ok(notes);
            }
        }
    }
}
