//! Group rosters, in each partition's static columns. Every change to a group writes the roster on condition
//! that its version is still the version that was read.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{GroupId, Roster, StoreError, Timestamp, UserId, Version};

use crate::cql::{
    client::{
        conditional::Head,
        error::malformed,
        row::NamedRow,
        session::{AT_A_TIME, Bound, Statement, values},
    },
    stores::Cql,
};

const ROSTER: Statement = Statement::read(
    "SELECT version, living, ordinals, owner, muted, writer FROM %k.members WHERE grp = ? LIMIT 1",
);
const ROSTER_SERIAL: Statement = Statement::serial(
    "SELECT version, living, ordinals, owner, muted, writer FROM %k.members WHERE grp = ? LIMIT 1",
);
/// For a new group the compared version is null.
const CHANGE: Statement = Statement::conditional(
    "UPDATE %k.members SET version = ?, living = ?, ordinals = ?, owner = ?, muted = ?, writer = ? \
     WHERE grp = ? IF version = ?",
);
/// The statement for test builds without the condition: this condition is always true.
const CHANGE_UNCHECKED: Statement = Statement::conditional(
    "UPDATE %k.members SET version = ?, living = ?, ordinals = ?, owner = ?, muted = ?, writer = ? \
     WHERE grp = ? IF version >= ?",
);
/// Stored if a user or group is not muted.
const NEVER: i64 = i64::MIN;
/// Stored if a group has no owner.
const NO_OWNER: i64 = 0;

/// A roster as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cql) struct SeenRoster {
    pub(in crate::cql) roster: Roster,
    /// Chosen by the write that raised the version last.
    pub(in crate::cql) writer: i64,
}

impl SeenRoster {
    pub(in crate::cql) const fn head(&self) -> Head {
        Head { version: self.roster.version, writer: self.writer }
    }

    fn of(row: &NamedRow) -> Result<Self, StoreError> {
        let owner = row.some_number("owner")?;
        let owner = (owner != NO_OWNER).then(|| UserId::new(owner).map_err(|_| malformed("owner")));
        let roster = Roster {
            version: row.version("version")?,
            count: row.count("living")?,
            ordinals: row.count("ordinals")?,
            owner: owner.transpose()?,
            muted_until: until(row.some_number("muted")?),
        };
        Ok(Self { roster, writer: row.some_number("writer")? })
    }
}

impl Cql {
    /// Reads these groups' rosters, in their order.
    pub(in crate::cql) async fn rosters_of(&self, groups: &[GroupId]) -> Result<Vec<Roster>, StoreError> {
        let read = |group| async move { self.roster(group).await.map(|seen| seen.roster) };
        stream::iter(groups.to_vec()).map(read).buffered(AT_A_TIME).try_collect().await
    }

    /// Reads the roster at quorum.
    pub(in crate::cql) async fn roster(&self, group: GroupId) -> Result<SeenRoster, StoreError> {
        self.read_roster(&ROSTER, group).await
    }

    /// Reads the roster after all conditional writes in progress.
    pub(in crate::cql) async fn confirmed_roster(&self, group: GroupId) -> Result<SeenRoster, StoreError> {
        self.read_roster(&ROSTER_SERIAL, group).await
    }

    async fn read_roster(
        &self,
        statement: &'static Statement,
        group: GroupId,
    ) -> Result<SeenRoster, StoreError> {
        let rows = self.client.records(statement, values![group.get()]).await?;
        rows.first().map_or_else(|| Ok(SeenRoster::default()), SeenRoster::of)
    }
}

/// The statement that replaces the roster, on condition that its version is `before`.
pub(in crate::cql) fn roster_part(group: GroupId, before: Version, after: SeenRoster) -> Bound {
    let SeenRoster { roster, writer } = after;
    let (living, ordinals) = (i64::from(roster.count), i64::from(roster.ordinals));
    let owner = roster.owner.map_or(NO_OWNER, UserId::get);
    let mut row = values![roster.version.get(), living, ordinals, owner, until_number(roster.muted_until)];
    row.extend(values![writer, group.get(), (before > Version::NONE).then(|| before.get())]);
    let is_unchecked = before > Version::NONE && crate::cql::client::fault_injection::lacks("group_if_same");
    Bound(if is_unchecked { &CHANGE_UNCHECKED } else { &CHANGE }, row)
}

/// Encodes when a mute ends.
pub(in crate::cql) fn until_number(until: Option<Timestamp>) -> i64 {
    until.map_or(NEVER, |at| at.0)
}

/// Decodes when a mute ends.
pub(in crate::cql) fn until(number: i64) -> Option<Timestamp> {
    (number != NEVER).then_some(Timestamp(number))
}
