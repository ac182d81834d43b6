//! The users that the last versions of a group changed: a ring of rows, each of which is overwritten in place when its
//! turn comes again, so that it neither grows nor needs deletions. A row contains all versions of one write, and is at
//! the index of the last of them.

use kith_store::{GroupId, MEMBER_CHANGES_KEPT, MemberChangeEvent, StoreError, UserId, Version};

use crate::cql::{
    client::{
        error::malformed,
        row::NamedRow,
        session::{Bound, Statement, values},
    },
    stores::Cql,
};

/// More than are returned: a row that was overwritten since the roster was read is recognised by its version.
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
    pub(in crate::cql) async fn changes_after(
        &self,
        group: GroupId,
        after: MemberChangeEvent,
        limit: usize,
    ) -> Result<Option<Vec<MemberChangeEvent>>, StoreError> {
        let last = self.roster(group).await?.roster.version;
        if !(0..=MEMBER_CHANGES_KEPT).contains(&(last.get() - after.version.get())) {
            return Ok(None);
        }
        // The known version may be part of a complete row.
        let rows_max = limit.saturating_add(1);
        let mut found = Vec::new();
        for (from, to) in slices(after.version, last) {
            let room = i32::try_from(rows_max - found.len()).unwrap_or(i32::MAX);
            if limit == 0 || room == 0 {
                break;
            }
            let slice = values![group.get(), from, to, after.version.get(), room];
            let rows = self.client.records(&SLICE, slice).await?;
            found.extend(rows.iter().map(|row| Ok((row.version("changed")?, told(row)?))));
        }
        let found = found.into_iter().collect::<Result<Vec<_>, StoreError>>()?;
        if found.iter().any(|(version, _)| *version > last) {
            // An entry newer than the known version was overwritten: too much has been changed since.
            return Ok(None);
        }
        let all = found.into_iter().flat_map(|(_, told)| told);
        let mut told: Vec<MemberChangeEvent> = all.filter(|changed| *changed > after).collect();
        told.sort_unstable();
        told.truncate(limit);
        Ok(Some(told))
    }
}

/// The ring row with the users of the versions of one write, at the index of the last version.
pub(in crate::cql) fn ring_part(group: GroupId, changes: &[(Version, Vec<UserId>)]) -> Option<Bound> {
    let (last, _) = changes.last()?;
    let pairs = |(version, users): &(Version, Vec<UserId>)| {
        let version = version.get();
        users.iter().flat_map(move |user| [version, user.get()]).collect::<Vec<i64>>()
    };
    let named: Vec<i64> = changes.iter().flat_map(pairs).collect();
    Some(Bound(&PUT, values![group.get(), slot(*last), last.get(), named]))
}

fn slot(version: Version) -> i64 {
    version.get() % SLOTS
}

/// The ranges of indexes of these versions, in their order.
fn slices(first: Version, last: Version) -> Vec<(i64, i64)> {
    let (from, to) = (slot(first), slot(last));
    if from <= to { vec![(from, to)] } else { vec![(from, SLOTS - 1), (0, to)] }
}

fn told(row: &NamedRow) -> Result<Vec<MemberChangeEvent>, StoreError> {
    let named = row.numbers("named")?;
    let (pairs, []) = named.as_chunks() else { return Err(malformed("named")) };
    let changed = |[version, user]: &[i64; 2]| {
        let user = UserId::new(*user).map_err(|_| malformed("named"))?;
        Ok(MemberChangeEvent { version: Version::new(*version).ok_or_else(|| malformed("named"))?, user })
    };
    pairs.iter().map(changed).collect()
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
