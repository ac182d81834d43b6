//! User and group ids, as requests give them.

use kith_store::{GroupId, UserId};

use crate::error::{Error, valid};

pub(crate) fn user(field: &'static str, id: i64) -> Result<UserId, Error> {
    valid(field, UserId::new(id))
}

pub(crate) fn users(field: &'static str, ids: &[i64]) -> Result<Vec<UserId>, Error> {
    ids.iter().map(|id| user(field, *id)).collect()
}

pub(crate) fn group(id: i64) -> Result<GroupId, Error> {
    valid("group_id", GroupId::new(id))
}
