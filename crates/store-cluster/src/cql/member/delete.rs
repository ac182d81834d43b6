//! Ends memberships in a dismissed group.

use kith_store::{Bans, GroupId, MEMBERS_AT_ONCE, Role, StoreError, Timestamp};

use super::batch::Draft;
use crate::cql::{
    change_log::{ChangeLogEntry, ChangeSubject},
    client::conditional::FailedAttempts,
    log_end::not_read,
    stores::Cql,
};

impl Cql {
    /// Ends up to `limit` members. Returns how many are left.
    pub(in crate::cql) async fn end_members_in_steps(
        &self,
        group: GroupId,
        limit: usize,
        now: Timestamp,
    ) -> Result<u32, StoreError> {
        let mut room = limit;
        loop {
            let at_once = room.min(MEMBERS_AT_ONCE);
            let left = self.end_batch(group, at_once, now).await?;
            room -= at_once;
            if left == 0 || room == 0 {
                return Ok(left);
            }
        }
    }

    /// Ends up to `limit` members by one conditional write. Returns how many are left.
    async fn end_batch(&self, group: GroupId, limit: usize, now: Timestamp) -> Result<u32, StoreError> {
        let mut note = ChangeLogEntry::about(self, ChangeSubject::Roster(group));
        let mut failed = FailedAttempts::default();
        loop {
            note = self.renewed_note(note);
            let before = self.roster(group).await?;
            let mut rows = self.list_members(group, Role::Member, None, limit).await?;
            // Mutes and bans are ended in the last step, with the last members.
            let only_members = rows.len() >= limit;
            let (mut named, mut is_more) = (Vec::new(), only_members);
            if !only_members {
                let muted = self.muted_former_members(group, limit).await?;
                named = self.list_bans(group, None, limit, Timestamp(i64::MIN)).await?;
                is_more = muted.len() >= limit || named.len() >= limit;
                rows.extend(muted);
            }
            let log_end =
                if rows.iter().any(|row| row.live) { self.log_end(group).await } else { Err(not_read()) };
            let bans = Bans { named, count: 0 };
            let mut draft = Draft::new(group, before, rows).with_bans(bans).with_log_end(log_end);
            let left = draft.end(now)?.count.max(u32::from(is_more));
            let after = draft.after(rand::random());
            match self.write_draft(&draft, after, note).await {
                Ok(notes) => return self.follow_up(&draft, notes).await.map(|()| left),
                Err(error) => failed.retry(error, false).await?,
            }
        }
    }
}
