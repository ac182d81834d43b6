//! All present and former group members, for receipts.

use std::sync::Arc;

use kith_cache::Consistency;
use kith_store::{BATCH_MAX, GroupId, MemberChangeEvent, MemberKey, MemberRow, Seat, UserId, Version};

use super::{Members, service::store_error};
use crate::{error::Error, metric::RECEIPT_LOADS};

/// The rows in one read.
const PAGE: usize = 1_000;
/// Most changes that are read individually; with more, all rows are read again.
const CHANGES_MAX: usize = 1_000;
/// A number above every user id, so that a position with it is after all changes with a version.
const LAST_USER: i64 = i64::MAX;

/// All present and former group members, at a roster version or later.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupSeats {
    version: Version,
    /// The seats by ordinal.
    pub(crate) seats: Vec<Option<Seat>>,
}

impl Members {
    /// Reads all present and former group members, with every change that was acknowledged before. `known`:
    /// an earlier result, so that only changes are read. Cost: no store read if the roster is unchanged,
    /// otherwise one for each 500 changed users, or one for each 1000 rows.
    pub(crate) async fn seats(
        &self,
        group: GroupId,
        known: Option<Arc<GroupSeats>>,
    ) -> Result<Arc<GroupSeats>, Error> {
        // The version is read first: later reads have at least the changes up to it.
        let version = self.roster(group, &Consistency::Cached).await?.version;
        let Some(mut known) = known else { return self.load_seats(group, version).await.map(Arc::new) };
        if known.version >= version {
            return Ok(known);
        }
        let Some(users) = self.changed_since(group, known.version).await? else {
            return self.load_seats(group, version).await.map(Arc::new);
        };
        metrics::counter!(RECEIPT_LOADS.name, "what" => "changes").increment(1);
        let changed = Arc::make_mut(&mut known);
        for users in users.chunks(BATCH_MAX) {
            let keys: Vec<MemberKey> = users.iter().map(|user| MemberKey { group, user: *user }).collect();
            let rows = self.store.stored_members(&keys).await.map_err(store_error)?;
            rows.iter().flatten().for_each(|row| changed.set(row));
        }
        changed.version = version;
        Ok(known)
    }

    /// Whether seats that were read before have every change that was acknowledged before this call.
    pub(crate) async fn are_seats_current(&self, group: GroupId, known: &GroupSeats) -> Result<bool, Error> {
        Ok(known.version >= self.roster(group, &Consistency::Cached).await?.version)
    }

    /// The users who were changed after this version; `None`: too many, or the changes are no longer stored.
    async fn changed_since(&self, group: GroupId, version: Version) -> Result<Option<Vec<UserId>>, Error> {
        let user = UserId::new(LAST_USER).map_err(|_| Error::internal())?;
        let after = MemberChangeEvent { version, user };
        let changes = self.store.member_changes(group, after, CHANGES_MAX).await.map_err(store_error)?;
        let Some(changes) = changes.filter(|changes| changes.len() < CHANGES_MAX) else { return Ok(None) };
        let mut users: Vec<UserId> = changes.into_iter().map(|changed| changed.user).collect();
        users.sort_unstable();
        users.dedup();
        Ok(Some(users))
    }

    async fn load_seats(&self, group: GroupId, version: Version) -> Result<GroupSeats, Error> {
        metrics::counter!(RECEIPT_LOADS.name, "what" => "members").increment(1);
        let (mut loaded, mut after) = (GroupSeats { version, seats: Vec::new() }, None);
        loop {
            let rows = self.store.group_rows(group, after, PAGE).await.map_err(store_error)?;
            rows.iter().for_each(|row| loaded.set(row));
            match rows.last() {
                Some(last) if rows.len() == PAGE => after = Some(last.member.key.user),
                Some(_) | None => return Ok(loaded),
            }
        }
    }
}

impl GroupSeats {
    /// Creates the seats for a direct conversation: the user with the smaller id is first.
    pub(crate) fn direct(one: UserId, other: UserId) -> Self {
        let users = if one == other { vec![one] } else { vec![one.min(other), one.max(other)] };
        let seats = users.into_iter().map(|user| Some(Seat::direct(user))).collect();
        Self { version: Version::NONE, seats }
    }

    /// A user's seat, with its ordinal.
    pub(crate) fn of(&self, user: UserId) -> Option<(usize, &Seat)> {
        let mut seats = self.seats.iter().enumerate().filter_map(|(at, seat)| Some((at, seat.as_ref()?)));
        seats.find(|(_, seat)| seat.user == user)
    }

    fn set(&mut self, row: &MemberRow) {
        let Ok(ordinal) = usize::try_from(row.member.ordinal) else { return };
        if self.seats.len() <= ordinal {
            self.seats.resize(ordinal + 1, None);
        }
        self.seats[ordinal] = Some(Seat::of(row));
    }
}
