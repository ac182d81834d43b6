//! The users whom a group's last versions changed, as a ring of rows. Rows are overwritten in place, so that
//! the ring does not grow and needs no deletions. A row contains all versions from one write, and the last of
//! these versions is its index.

use kith_store::{GroupId, MEMBER_CHANGES_KEPT, MemberChangeEvent, StoreError, UserId, Version};

use crate::cql::{
    client::{
        error::malformed,
        row::NamedRow,
        session::{Bound, Statement, values},
    },
    stores::Cql,
};

/// There are more rows than versions that are returned. A row that was overwritten after the roster was read
/// has a version above the roster's.
const SLOTS: i64 = 1_024;
const _: () = assert!(SLOTS > MEMBER_CHANGES_KEPT);

const PUT: Statement = Statement::conditional(
    "INSERT INTO %k.members (grp, kind, place, member, changed, named) VALUES (?, 2, ?, 0, ?, ?)",
);
const SLICE: Statement = Statement::read(
    "SELECT changed, named FROM %k.members \
     WHERE grp = ? AND kind = 2 AND place >= ? AND place <= ? AND changed >= ? LIMIT ? ALLOW FILTERING",
);

impl Cql {
    /// Lists up to `limit` changes after this change. `None`: the ring no longer has them all.
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
        // Reads one row more, because the known version's row may have no newer change.
        let rows_max = limit.saturating_add(1);
        let mut found = Vec::new();
        for (from, to) in slices(after.version, last) {
            let room = i32::try_from(rows_max - found.len()).unwrap_or(i32::MAX);
            if limit == 0 || room == 0 {
                break;
            }
            let slice = values![group.get(), from, to, after.version.get(), room];
            let rows = self.client.records(&SLICE, slice).await?;
            found.extend(rows.iter().map(|row| Ok((row.version("changed")?, events(row)?))));
        }
        let found = found.into_iter().collect::<Result<Vec<_>, StoreError>>()?;
        if found.iter().any(|(version, _)| *version > last) {
            // A row was overwritten after the roster was read, so a change may be missing.
            return Ok(None);
        }
        let all = found.into_iter().flat_map(|(_, events)| events);
        let mut newer: Vec<MemberChangeEvent> = all.filter(|event| *event > after).collect();
        newer.sort_unstable();
        newer.truncate(limit);
        Ok(Some(newer))
    }
}

/// The ring row with the users in one write's versions, at the last version's index.
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

/// The index ranges for the versions from `first` to `last`, in version order.
fn slices(first: Version, last: Version) -> Vec<(i64, i64)> {
    let (from, to) = (slot(first), slot(last));
    if from <= to { vec![(from, to)] } else { vec![(from, SLOTS - 1), (0, to)] }
}

fn events(row: &NamedRow) -> Result<Vec<MemberChangeEvent>, StoreError> {
    let named = row.numbers("named")?;
    let (pairs, []) = named.as_chunks() else { return Err(malformed("named")) };
    let event = |[version, user]: &[i64; 2]| {
        let user = UserId::new(*user).map_err(|_| malformed("named"))?;
        Ok(MemberChangeEvent { version: Version::new(*version).ok_or_else(|| malformed("named"))?, user })
    };
    pairs.iter().map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_past_ring_end_make_two_slices() {
        let of = |first, last| slices(Version::new(first).unwrap(), Version::new(last).unwrap());
        assert_eq!(of(0, 0), [(0, 0)]);
        assert_eq!(of(3, 1_003), [(3, 1_003)]);
        assert_eq!(of(1_020, 1_026), [(1_020, 1_023), (0, 2)]);
        assert_eq!(of(2_000, 3_000), [(976, 1_023), (0, 952)]);
    }
}
