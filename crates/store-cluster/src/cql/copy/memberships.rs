//! Completes restored memberships.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use kith_store::{GroupId, MemberKey, UserId};
use mongodb::bson::{Document, deserialize_from_slice};

use super::RowWrite;
use crate::{
    backup::{BackupError, BackupFile, DocumentReader},
    cql::stores::Cql,
};

/// The table whose rows memberships follow.
pub(crate) const MEMBERS: &str = "members";
/// How far the servers' clocks may be from this one.
const CLOCKS_APART: Duration = Duration::from_secs(120);
/// Members whose memberships are written together.
const BATCH: usize = 1_000;

impl Cql {
    /// Writes the memberships of all members that changed since the backup was begun: they were copied before
    /// the members.
    pub(crate) async fn restore_memberships(
        &self,
        folder: &Path,
        members: &BackupFile,
        began: SystemTime,
    ) -> Result<(), BackupError> {
        let path = members.path(folder);
        let since = began.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(CLOCKS_APART);
        let since = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        let mut keys = Vec::new();
        for row in DocumentReader::open(members, folder).map_err(BackupError::file(&path))? {
            let row = row.map_err(BackupError::file(&path))?;
            keys.extend(changed_member(&row, since));
            if keys.len() >= BATCH {
                self.repair_memberships(std::mem::take(&mut keys)).await.map_err(BackupError::Relations)?;
            }
        }
        self.repair_memberships(keys).await.map_err(BackupError::Relations)
    }
}

/// The member that this row is about, if it was written since then.
fn changed_member(row: &[u8], since: i64) -> Option<MemberKey> {
    let RowWrite { key, written, .. } = deserialize_from_slice(row).ok()?;
    if written < since || number(&key, "kind")? != 0 {
        return None;
    }
    let group = GroupId::new(number(&key, "grp")?).ok()?;
    Some(MemberKey { group, user: UserId::new(number(&key, "member")?).ok()? })
}

/// A whole number, of four or eight bytes.
fn number(key: &Document, name: &str) -> Option<i64> {
    let bytes = key.get_binary_generic(name).ok()?.as_slice();
    let small = bytes.try_into().map(|bytes| i64::from(i32::from_be_bytes(bytes)));
    small.or_else(|_| bytes.try_into().map(i64::from_be_bytes)).ok()
}
