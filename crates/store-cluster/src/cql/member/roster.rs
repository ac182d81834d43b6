//! The rosters of groups: the static columns of each partition. Every change of a group writes them on condition that
//! the version is still the one that was read.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{GroupId, Roster, StoreError, Timestamp, UserId, Version};

use crate::cql::{
    client::{
        error::malformed,
        row::NamedRow,
        session::{Bound, Statement, values},
    },
    follow::store::AT_A_TIME,
    stores::Cql,
};

const ROSTER: Statement = Statement::read(
    "SELECT version, living, ordinals, owner, muted, writer FROM %k.members WHERE grp = ? LIMIT 1",
);
const DECIDED: Statement = Statement::serial(
    "SELECT version, living, ordinals, owner, muted, writer FROM %k.members WHERE grp = ? LIMIT 1",
);
/// The version of a group that never existed is null, which is compared, too.
const CHANGE: Statement = Statement::conditional(
    "UPDATE %k.members SET version = ?, living = ?, ordinals = ?, owner = ?, muted = ?, writer = ? WHERE grp = ? IF version = ?",
);
/// For test builds without the condition: it is always true.
const CHANGE_ANYHOW: Statement = Statement::conditional(
    "UPDATE %k.members SET version = ?, living = ?, ordinals = ?, owner = ?, muted = ?, writer = ? WHERE grp = ? IF version >= ?",
);
/// For a user who is not muted.
const NEVER: i64 = i64::MIN;
/// For a group without an owner.
const NOBODY: i64 = 0;

/// A stored roster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cql) struct SeenRoster {
    pub(in crate::cql) roster: Roster,
    /// Chosen by the write that raised the version last.
    pub(in crate::cql) writer: i64,
}

impl SeenRoster {
    fn of(row: &NamedRow) -> Result<Self, StoreError> {
        let owner = row.some_number("owner")?;
        let owner = (owner != NOBODY).then(|| UserId::new(owner).map_err(|_| malformed("owner")));
        let roster = Roster {
            version: row.version("version")?,
            count: count(row, "living")?,
            ordinals: count(row, "ordinals")?,
            owner: owner.transpose()?,
            muted_until: until(row.some_number("muted")?),
        };
        Ok(Self { roster, writer: row.some_number("writer")? })
    }
}

impl Cql {
    /// The rosters of these groups, in their order.
    pub(in crate::cql) async fn rosters_of(&self, groups: &[GroupId]) -> Result<Vec<Roster>, StoreError> {
        let read = |group| async move { self.roster(group).await.map(|seen| seen.roster) };
        stream::iter(groups.to_vec()).map(read).buffered(AT_A_TIME).try_collect().await
    }

    /// The roster, as a quorum has it.
    pub(in crate::cql) async fn roster(&self, group: GroupId) -> Result<SeenRoster, StoreError> {
        self.read_roster(&ROSTER, group).await
    }

    /// The roster, after the writes in progress have ended.
    pub(in crate::cql) async fn decided_roster(&self, group: GroupId) -> Result<SeenRoster, StoreError> {
        self.read_roster(&DECIDED, group).await
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

/// Replaces the roster of this version.
pub(in crate::cql) fn roster_part(group: GroupId, before: Version, after: SeenRoster) -> Bound {
    let SeenRoster { roster, writer } = after;
    let (living, ordinals) = (i64::from(roster.count), i64::from(roster.ordinals));
    let owner = roster.owner.map_or(NOBODY, UserId::get);
    let mut row = values![roster.version.get(), living, ordinals, owner, until_number(roster.muted_until)];
    row.extend(values![writer, group.get(), (before > Version::NONE).then(|| before.get())]);
    let is_anyhow = before > Version::NONE && crate::cql::client::fault_injection::lacks("group_if_same");
    Bound(if is_anyhow { &CHANGE_ANYHOW } else { &CHANGE }, row)
}

/// The stored form of the moment until which a user is muted.
pub(in crate::cql) fn until_number(until: Option<Timestamp>) -> i64 {
    until.map_or(NEVER, |at| at.0)
}

/// Until when a user is muted, from its stored form.
pub(in crate::cql) fn until(number: i64) -> Option<Timestamp> {
    (number != NEVER).then_some(Timestamp(number))
}

/// A number of users.
pub(in crate::cql) fn count(row: &NamedRow, name: &'static str) -> Result<u32, StoreError> {
    u32::try_from(row.some_number(name)?).map_err(|_| malformed(name))
}
