//! Records and fakes for tests in several domains.

use std::{collections::HashSet, sync::Arc, time::Duration};

use kith_store::{
    Coordination, GroupId, Member, MemberKey, Outcome, Role, StoreError, Timestamp, UserId, Version,
};
use parking_lot::Mutex;

/// Implements a trait for a fake: the methods in braces. The tests never call those after them.
macro_rules! partial {
    (
        $trait:ident for $type:ident { $($own:tt)* }
        $(fn $name:ident($($of:ty),*) -> $answer:ty;)*
    ) => {
        #[async_trait::async_trait]
        impl $trait for $type {
            $($own)*

            $(async fn $name(&self, $(_: $of),*) -> $answer {
                unreachable!("the tests make no such call")
            })*
        }
    };
}

pub(crate) use partial;

pub(crate) fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

pub(crate) fn users(ids: &[i64]) -> Vec<UserId> {
    ids.iter().map(|id| user(*id)).collect()
}

pub(crate) fn group_id(id: i64) -> GroupId {
    GroupId::new(id).unwrap()
}

/// A member in group 9 who may read all messages.
pub(crate) fn member(id: i64, role: Role) -> Member {
    Member {
        key: MemberKey { group: group_id(9), user: user(id) },
        version: Version::FIRST,
        role,
        ordinal: 0,
        remark: "".into(),
        muted_until: None,
        joined: Timestamp(0),
        from_seq: 1,
        joined_seq: 1,
    }
}

/// The error from a store that is away.
pub(crate) fn unavailable(outcome: Outcome) -> StoreError {
    StoreError::Unavailable { outcome, source: Arc::new(std::io::Error::other("away")) }
}

/// A store with one lease: who holds it, and how often it was asked for. Holder `cut` does not reach the
/// store.
#[derive(Debug, Default)]
pub(crate) struct OneLease(pub(crate) Mutex<(Option<String>, usize)>);

#[async_trait::async_trait]
impl Coordination for OneLease {
    async fn lease(&self, _name: &str, holder: &str, _lasts: Duration) -> Result<bool, StoreError> {
        if holder == "cut" {
            return Err(StoreError::Overloaded);
        }
        let (held_by, asked) = &mut *self.0.lock();
        *asked += 1;
        Ok(held_by.get_or_insert_with(|| holder.to_owned()) == holder)
    }

    async fn held(&self, names: &[String]) -> Result<HashSet<String>, StoreError> {
        Ok(names.iter().filter(|_| self.0.lock().0.is_some()).cloned().collect())
    }

    async fn release(&self, _name: &str, _holder: &str) -> Result<(), StoreError> {
        *self.0.lock() = (None, 0);
        Ok(())
    }

    async fn mark(&self, _name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    async fn set_mark(&self, _name: &str, holder: &str, _mark: &[u8]) -> Result<bool, StoreError> {
        Ok(self.0.lock().0.as_deref() == Some(holder))
    }
}

/// A mark, and a lease that all callers hold together.
#[derive(Debug, Default)]
pub(crate) struct MarkedLease(Mutex<Option<Vec<u8>>>);

#[async_trait::async_trait]
impl Coordination for MarkedLease {
    async fn lease(&self, _name: &str, _holder: &str, _lasts: Duration) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn held(&self, _names: &[String]) -> Result<HashSet<String>, StoreError> {
        Ok(HashSet::new())
    }

    async fn release(&self, _name: &str, _holder: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn mark(&self, _name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.lock().clone())
    }

    async fn set_mark(&self, _name: &str, _holder: &str, mark: &[u8]) -> Result<bool, StoreError> {
        *self.0.lock() = Some(mark.to_vec());
        Ok(true)
    }
}
