//! Whom the last versions of a group changed: a ring of rows, each of which is overwritten in place when its turn comes again,
//! so that it neither grows nor has to be deleted from.

use kith_store::{GroupId, MEMBER_CHANGES_KEPT, MemberChanged, StoreError, UserId, Version};

use super::{
    error::malformed,
    record::Record,
    session::{Bound, Cql, Statement, values},
};

/// More than are told of: what was overwritten since the roster was read is seen by its version.
const SLOTS: i64 = 1_024;
const _: () = assert!(SLOTS > MEMBER_CHANGES_KEPT);

const PUT: Statement = Statement::conditional(
    "INSERT INTO %k.members (grp, kind, place, member, changed, named) VALUES (?, 2, ?, 0, ?, ?)",
);
const SLICE: Statement = Statement::read(
    "SELECT changed, named FROM %k.members WHERE grp = ? AND kind = 2 AND place >= ? AND place <= ? AND changed >= ? \
     LIMIT ? ALLOW FILTERING",
);

impl Cql {
    pub(super) async fn changes_after(
        &self,
        group: GroupId,
        after: MemberChanged,
        limit: usize,
    ) -> Result<Option<Vec<MemberChanged>>, StoreError> {
        let last = self.roster(group).await?.roster.version;
        if !(0..=MEMBER_CHANGES_KEPT).contains(&(last.get() - after.version.get())) {
            return Ok(None);
        }
        // The version that is known may be told whole.
        let rows_max = limit.saturating_add(1);
        let mut found = Vec::new();
        for (from, to) in slices(after.version, last) {
            let room = i32::try_from(rows_max - found.len()).unwrap_or(i32::MAX);
            if limit == 0 || room == 0 {
                break;
            }
            let slice = values![group.get(), from, to, after.version.get(), room];
            for row in self.records(&SLICE, slice).await? {
                found.push((row.version("changed")?, users(&row)?));
            }
        }
        if found.iter().any(|(version, _)| *version > last) {
            // It stands where one stood that came after what is known: so much has been changed since.
            return Ok(None);
        }
        let told = found
            .into_iter()
            .flat_map(|(version, users)| users.into_iter().map(move |user| MemberChanged { version, user }));
        let mut told: Vec<MemberChanged> = told.filter(|changed| *changed > after).collect();
        told.sort_unstable();
        told.truncate(limit);
        Ok(Some(told))
    }
}

/// Notes whom a version has changed.
pub(super) fn ring_part(group: GroupId, version: Version, users: &[UserId]) -> Bound {
    let named: Vec<i64> = users.iter().map(|user| user.get()).collect();
    Bound(&PUT, values![group.get(), slot(version), version.get(), named])
}

fn slot(version: Version) -> i64 {
    version.get() % SLOTS
}

/// Where these versions stand, in their order.
fn slices(first: Version, last: Version) -> Vec<(i64, i64)> {
    let (from, to) = (slot(first), slot(last));
    if from <= to { vec![(from, to)] } else { vec![(from, SLOTS - 1), (0, to)] }
}

fn users(row: &Record) -> Result<Vec<UserId>, StoreError> {
    let named = row.numbers("named")?;
    named.into_iter().map(|id| UserId::new(id).map_err(|_| malformed("named"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_stand_in_one_slice_or_in_two() {
        let of = |first, last| slices(Version::new(first).unwrap(), Version::new(last).unwrap());
        assert_eq!(of(0, 0), [(0, 0)]);
        assert_eq!(of(3, 1_003), [(3, 1_003)]);
        assert_eq!(of(1_020, 1_026), [(1_020, 1_023), (0, 2)]);
        assert_eq!(of(2_000, 3_000), [(976, 1_023), (0, 952)]);
    }
}
