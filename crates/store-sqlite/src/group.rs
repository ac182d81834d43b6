//! The store for groups.

use std::{collections::BTreeSet, sync::LazyLock};

use async_trait::async_trait;
use kith_store::{
    Applied, Group, GroupId, GroupPatch, GroupStore, NewGroup, ReceiptVisibility, SecretOwner, StoreError,
    Stored, Timestamp, UserId, Version, Write, group_search_keys,
};
use rusqlite::{Connection, params};

use crate::{
    Sqlite,
    batch::BatchQuery,
    error::{Failure, internal},
    row::{group_of, params_text, size, stored_group},
    secret,
    state::{check_expected, version_for_new},
    statement::{first, run},
};

macro_rules! columns {
    () => {
        "groups.id, version, deleted, name, tags, kind, visibility, join_policy, history, params, creator, \
         created_ms, updated_ms, receipts, icon"
    };
}
macro_rules! select {
    () => {
        concat!("SELECT ", columns!(), " FROM groups")
    };
}

/// Uses the primary key.
pub(crate) const BY_ID: &str = concat!(select!(), " WHERE id = ?1");
/// Uses the primary key.
pub(crate) static BY_IDS: LazyLock<BatchQuery> = LazyLock::new(|| BatchQuery::new(select!()));
/// Uses the primary key of `group_search`, in order; then the primary key of `groups`.
pub(crate) const SEARCH: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM group_search CROSS JOIN groups ON groups.id = group_search.group_id
    WHERE key = ?1 AND group_id > ?2 AND deleted = 0 ORDER BY group_id LIMIT ?3"
);
/// Uses the primary key.
pub(crate) const SCAN: &str = concat!(select!(), " WHERE id > ?1 AND deleted = 0 ORDER BY id LIMIT ?2");
/// Uses the primary key.
pub(crate) const STATE: &str = "SELECT version, deleted FROM groups WHERE id = ?1";
/// On conflict, the new state replaces a record or a stub.
const PUT: &str = "INSERT OR REPLACE INTO groups (id, version, deleted, name, tags, kind, visibility,
        join_policy, history, params, creator, created_ms, updated_ms, receipts, icon)
    VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
/// Uses the primary key.
pub(crate) const DISMISS: &str =
    "UPDATE groups SET version = ?2, deleted = 1, name = '', icon = '', tags = '[]',
    params = '{}', creator = NULL, created_ms = 0, updated_ms = ?3 WHERE id = ?1";
const LIST_KEY: &str = "INSERT OR IGNORE INTO group_search (key, group_id) VALUES (?1, ?2)";
/// Uses the primary key.
pub(crate) const UNLIST_KEY: &str = "DELETE FROM group_search WHERE key = ?1 AND group_id = ?2";

#[async_trait]
impl GroupStore for Sqlite {
    async fn group(&self, id: GroupId) -> Result<Stored<Group>, StoreError> {
        self.readers.read(move |connection| group(connection, id)).await
    }

    async fn groups(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Stored<Group>)>, StoreError> {
        self.readers.by_keys(&BY_IDS, ids, stored_group).await
    }

    async fn search_groups(
        &self,
        key: &str,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<Group>, StoreError> {
        let after = after.map_or(0, GroupId::get);
        self.readers.all(SEARCH, (key.to_owned(), after, size(limit)), group_of).await
    }

    async fn scan_groups(&self, after: Option<GroupId>, limit: usize) -> Result<Vec<Group>, StoreError> {
        self.readers.all(SCAN, [after.map_or(0, GroupId::get), size(limit)], group_of).await
    }

    async fn create_group(&self, group: NewGroup, write: Write) -> Result<Applied<Group>, StoreError> {
        self.writer.once(write, move |connection, write| create(connection, &group, write.now)).await
    }

    async fn update_group(
        &self,
        id: GroupId,
        patch: GroupPatch,
        write: Write,
    ) -> Result<Applied<Group>, StoreError> {
        self.writer.once(write, move |connection, write| update(connection, id, &patch, write)).await
    }

    async fn dismiss_group(&self, id: GroupId, write: Write) -> Result<Applied<Version>, StoreError> {
        self.writer.once(write, move |connection, write| dismiss(connection, id, write)).await
    }
}

fn group(connection: &Connection, id: GroupId) -> Result<Stored<Group>, Failure> {
    let found = first(connection, BY_ID, [id.get()], stored_group)?;
    Ok(found.map_or(Stored::Never, |(_, group)| group))
}

fn create(connection: &Connection, new: &NewGroup, now: Timestamp) -> Result<Group, Failure> {
    let version = version_for_new(connection, STATE, new.id.get())?;
    let group = first_state(new, version, now);
    put(connection, &group)?;
    list(connection, new.id, &BTreeSet::new(), &keys(&group))?;
    secret::change(connection, SecretOwner::Group(new.id), &new.secrets)?;
    Ok(group)
}

fn first_state(new: &NewGroup, version: Version, now: Timestamp) -> Group {
    Group {
        id: new.id,
        version,
        name: new.name.clone(),
        icon: new.icon.clone(),
        tags: new.tags.clone(),
        kind: new.kind,
        visibility: new.visibility,
        join_policy: new.join_policy,
        history_for_new_members: new.history_for_new_members,
        receipts: new.receipts,
        params: new.params.clone(),
        creator: new.creator,
        created: now,
        updated: now,
    }
}

fn update(connection: &Connection, id: GroupId, patch: &GroupPatch, write: &Write) -> Result<Group, Failure> {
    let Stored::Live(before) = group(connection, id)? else {
        return Err(StoreError::NotFound.into());
    };
    check_expected(write, before.version)?;
    let after = patched(&before, patch, write.now);
    if !after.params.fits() {
        return Err(StoreError::ParamsTooLarge.into());
    }
    put(connection, &after)?;
    if patch.name.is_some() || patch.tags.is_some() || patch.visibility.is_some() {
        list(connection, id, &keys(&before), &keys(&after))?;
    }
    secret::change(connection, SecretOwner::Group(id), &patch.secrets)?;
    Ok(after)
}

fn patched(before: &Group, patch: &GroupPatch, now: Timestamp) -> Group {
    let mut params = before.params.clone();
    params.apply(&patch.params);
    Group {
        id: before.id,
        version: before.version.next(),
        name: patch.name.as_ref().unwrap_or(&before.name).clone(),
        icon: patch.icon.as_ref().unwrap_or(&before.icon).clone(),
        tags: patch.tags.as_ref().unwrap_or(&before.tags).clone(),
        kind: patch.kind.unwrap_or(before.kind),
        visibility: patch.visibility.unwrap_or(before.visibility),
        join_policy: patch.join_policy.unwrap_or(before.join_policy),
        history_for_new_members: patch.history_for_new_members.unwrap_or(before.history_for_new_members),
        receipts: patch.receipts.unwrap_or(before.receipts),
        params,
        creator: before.creator,
        created: before.created,
        updated: now,
    }
}

fn dismiss(connection: &Connection, id: GroupId, write: &Write) -> Result<Version, Failure> {
    let Stored::Live(before) = group(connection, id)? else {
        return Err(StoreError::NotFound.into());
    };
    check_expected(write, before.version)?;
    let version = before.version.next();
    list(connection, id, &keys(&before), &BTreeSet::new())?;
    run(connection, DISMISS, [id.get(), version.get(), write.now.0])?;
    secret::remove_all(connection, SecretOwner::Group(id))?;
    Ok(version)
}

fn put(connection: &Connection, group: &Group) -> Result<(), Failure> {
    let tags = serde_json::to_string(&group.tags).map_err(|_| internal("tags cannot be written down"))?;
    let row = params![
        group.id.get(),
        group.version.get(),
        group.name.as_str(),
        tags,
        group.kind as u8,
        group.visibility as u8,
        group.join_policy as u8,
        group.history_for_new_members,
        params_text(&group.params)?,
        group.creator.map(UserId::get),
        group.created.0,
        group.updated.0,
        ReceiptVisibility::number(group.receipts),
        group.icon.as_str()
    ];
    run(connection, PUT, row)
}

fn keys(group: &Group) -> BTreeSet<String> {
    group_search_keys(&group.name, &group.tags, group.visibility)
}

/// Lists the group under its new search keys, and removes it from its former keys.
fn list(
    connection: &Connection,
    id: GroupId,
    before: &BTreeSet<String>,
    after: &BTreeSet<String>,
) -> Result<(), Failure> {
    for key in before.difference(after) {
        run(connection, UNLIST_KEY, params![key, id.get()])?;
    }
    for key in after.difference(before) {
        run(connection, LIST_KEY, params![key, id.get()])?;
    }
    Ok(())
}
