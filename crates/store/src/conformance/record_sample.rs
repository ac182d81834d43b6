//! Users and groups by what their stores have in common: both kinds keep the same rules.

use super::sample::{
    applied, at_once, bare_group, bare_user, full_group, full_user, group_id, requested, setting, user_id,
    write,
};
use crate::{
    Applied, Group, GroupPatch, NewGroup, NewUser, Params, ParamsPatch, StoreError, Stored, Stores,
    Timestamp, User, UserPatch, Version, Write,
};

#[derive(Clone, Copy, Debug)]
enum RecordKind {
    User,
    Group,
}

/// A whole user or group.
#[allow(clippy::large_enum_variant, reason = "a case holds few of them")]
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AnyRecord {
    User(User),
    Group(Group),
}

/// One kind's records.
#[derive(Clone)]
pub(super) struct Records {
    stores: Stores,
    kind: RecordKind,
}

type Written = Result<Applied<AnyRecord>, StoreError>;

/// Returns both kinds' records.
pub(super) fn both(stores: &Stores) -> [Records; 2] {
    [RecordKind::User, RecordKind::Group].map(|kind| Records { stores: stores.clone(), kind })
}

impl AnyRecord {
    pub(super) fn version(&self) -> Version {
        match self {
            Self::User(user) => user.version,
            Self::Group(group) => group.version,
        }
    }

    pub(super) fn params(&self) -> &Params {
        match self {
            Self::User(user) => &user.params,
            Self::Group(group) => &group.params,
        }
    }

    /// When it was created, and when it changed.
    pub(super) fn times(&self) -> (Timestamp, Timestamp) {
        match self {
            Self::User(user) => (user.created, user.updated),
            Self::Group(group) => (group.created, group.updated),
        }
    }
}

fn written<T>(result: Result<Applied<T>, StoreError>, any: fn(T) -> AnyRecord) -> Written {
    result.map(|Applied { record, replayed }| Applied { record: any(record), replayed })
}

fn stored<T: Clone>(stored: Stored<T>, any: fn(T) -> AnyRecord) -> Stored<AnyRecord> {
    match stored {
        Stored::Deleted(version) => Stored::Deleted(version),
        Stored::Never => Stored::Never,
        live @ Stored::Live(_) => Stored::Live(any(live.live().unwrap()).into()),
    }
}

impl Records {
    pub(super) fn stores(&self) -> &Stores {
        &self.stores
    }

    /// A write with this request id; kinds do not share ids.
    pub(super) fn requested(&self, id: &str, fingerprint: u8) -> Write {
        requested(&format!("{:?}-{id}", self.kind), fingerprint)
    }

    /// Creates a record with a name, these parameters and nothing else.
    pub(super) async fn create_with(&self, id: i64, name: &str, params: Params, write: Write) -> Written {
        match self.kind {
            RecordKind::User => {
                let user = NewUser { params, ..bare_user(id, name) };
                written(self.stores.users.create_user(user, write).await, AnyRecord::User)
            }
            RecordKind::Group => {
                let group = NewGroup { params, ..bare_group(id, name) };
                written(self.stores.groups.create_group(group, write).await, AnyRecord::Group)
            }
        }
    }

    pub(super) async fn create(&self, id: i64, name: &str, write: Write) -> Written {
        self.create_with(id, name, Params::default(), write).await
    }

    /// Creates a record with a value in every field.
    pub(super) async fn create_full(&self, id: i64, write: Write) -> Written {
        match self.kind {
            RecordKind::User => {
                written(self.stores.users.create_user(full_user(id), write).await, AnyRecord::User)
            }
            RecordKind::Group => {
                written(self.stores.groups.create_group(full_group(id), write).await, AnyRecord::Group)
            }
        }
    }

    /// Creates a record without a request id.
    pub(super) async fn made(&self, id: i64) -> AnyRecord {
        applied(self.create(id, &format!("name {id}"), write()).await.unwrap())
    }

    pub(super) async fn change_params(&self, id: i64, params: ParamsPatch, write: Write) -> Written {
        match self.kind {
            RecordKind::User => {
                let patch = UserPatch { params, ..UserPatch::default() };
                written(self.stores.users.update_user(user_id(id), patch, write).await, AnyRecord::User)
            }
            RecordKind::Group => {
                let patch = GroupPatch { params, ..GroupPatch::default() };
                written(self.stores.groups.update_group(group_id(id), patch, write).await, AnyRecord::Group)
            }
        }
    }

    /// Sets the parameter `k` to a value.
    pub(super) async fn set(&self, id: i64, value: &str, write: Write) -> Written {
        self.change_params(id, setting(&[("k", value)]), write).await
    }

    /// Deletes a user, or dismisses a group.
    pub(super) async fn end(&self, id: i64, write: Write) -> Result<Applied<Version>, StoreError> {
        match self.kind {
            RecordKind::User => self.stores.users.delete_user(user_id(id), Timestamp(0), write).await,
            RecordKind::Group => self.stores.groups.dismiss_group(group_id(id), write).await,
        }
    }

    /// Lets an ended record's id be used again.
    pub(super) async fn release(&self, id: i64, ended: Timestamp) {
        if matches!(self.kind, RecordKind::User) {
            self.stores.users.release_id(user_id(id), ended).await.unwrap();
        }
    }

    pub(super) async fn state(&self, id: i64) -> Stored<AnyRecord> {
        match self.kind {
            RecordKind::User => stored(self.stores.users.user(user_id(id)).await.unwrap(), AnyRecord::User),
            RecordKind::Group => {
                stored(self.stores.groups.group(group_id(id)).await.unwrap(), AnyRecord::Group)
            }
        }
    }

    pub(super) async fn live(&self, id: i64) -> AnyRecord {
        self.state(id).await.live().unwrap()
    }

    /// Reads a batch. Returns it by rising id.
    pub(super) async fn batch(&self, ids: &[i64]) -> Result<Vec<(i64, Stored<AnyRecord>)>, StoreError> {
        let mut read: Vec<_> = match self.kind {
            RecordKind::User => {
                let ids: Vec<_> = ids.iter().copied().map(user_id).collect();
                let read = self.stores.users.users(&ids).await?.into_iter();
                read.map(|(id, user)| (id.get(), stored(user, AnyRecord::User))).collect()
            }
            RecordKind::Group => {
                let ids: Vec<_> = ids.iter().copied().map(group_id).collect();
                let read = self.stores.groups.groups(&ids).await?.into_iter();
                read.map(|(id, group)| (id.get(), stored(group, AnyRecord::Group))).collect()
            }
        };
        read.sort_by_key(|(id, _)| *id);
        Ok(read)
    }

    /// Returns the ids on a page with live records.
    pub(super) async fn scan(&self, after: Option<i64>, limit: usize) -> Vec<i64> {
        match self.kind {
            RecordKind::User => {
                let users = self.stores.users.scan_users(after.map(user_id), limit).await.unwrap();
                users.iter().map(|user| user.id.get()).collect()
            }
            RecordKind::Group => {
                let groups = self.stores.groups.scan_groups(after.map(group_id), limit).await.unwrap();
                groups.iter().map(|group| group.id.get()).collect()
            }
        }
    }

    /// Makes each item's call at once, each in a separate task.
    pub(super) async fn each_at_once<T, F>(
        &self,
        items: impl IntoIterator<Item = T>,
        call: impl Fn(Self, T) -> F,
    ) -> Vec<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        at_once(items.into_iter().map(|item| call(self.clone(), item))).await
    }
}
