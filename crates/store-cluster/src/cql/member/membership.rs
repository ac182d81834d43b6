//! Each user's groups. They are written after the group's members, before the change is acknowledged; if the
//! node dies in between, the sweep writes them. If several writes meet, the highest version wins, in any
//! order of arrival.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{GroupId, MemberKey, MemberRow, StoreError, UserId};
use scylla::statement::batch::BatchType;

use crate::cql::{
    client::{
        error::malformed,
        session::{AT_A_TIME, Bound, Statement, values},
    },
    stores::Cql,
};

/// The timestamp is the version: a row belongs to one group, whose versions rise.
const PUT: Statement = Statement::plain(
    "INSERT INTO %k.memberships (member, grp, live, version) VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
);
const LIST: Statement = Statement::read(
    "SELECT grp FROM %k.memberships WHERE member = ? AND grp > ? AND live = 1 LIMIT ? ALLOW FILTERING",
);
/// Memberships in one batch. Each is in its own partition, and servers warn about batches with more
/// partitions.
const BATCHED: usize = 10;

impl Cql {
    /// Lists up to `limit` groups that a user is in, by rising id.
    pub(in crate::cql) async fn groups_of(
        &self,
        user: UserId,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<GroupId>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let after = after.map_or(0, GroupId::get);
        let rows = self.client.records(&LIST, values![user.get(), after, limit]).await?;
        rows.iter().map(|row| GroupId::new(row.some_number("grp")?).map_err(|_| malformed("grp"))).collect()
    }

    /// Writes these members' memberships as given.
    pub(in crate::cql) async fn write_memberships(&self, rows: &[MemberRow]) -> Result<(), StoreError> {
        let put = |rows: &[MemberRow]| {
            let parts = rows.iter().map(part).collect();
            self.client.batch(BatchType::Unlogged, parts, None)
        };
        stream::iter(rows.chunks(BATCHED)).map(put).buffer_unordered(AT_A_TIME).try_collect().await
    }

    /// Writes these members' memberships once more, as stored after all conditional writes in progress.
    pub(in crate::cql) async fn repair_memberships(
        &self,
        mut keys: Vec<MemberKey>,
    ) -> Result<(), StoreError> {
        keys.sort_unstable();
        keys.dedup();
        for of_group in keys.chunk_by(|a, b| a.group == b.group) {
            let users: Vec<UserId> = of_group.iter().map(|key| key.user).collect();
            let rows = self.confirmed_members(of_group[0].group, &users).await?;
            self.write_memberships(&rows).await?;
        }
        Ok(())
    }
}

fn part(MemberRow { member, live, .. }: &MemberRow) -> Bound {
    let (key, version) = (member.key, member.version.get());
    Bound(&PUT, values![key.user.get(), key.group.get(), *live, version, version])
}
