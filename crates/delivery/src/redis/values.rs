//! Values in replies of scripts. A value with an invalid form is refused.

use bytes::Bytes;
use kith_cache::remote::{SharedError, redis::Reply};

/// What reading an answer gives.
pub(crate) type ReplyResult<T> = Result<T, SharedError>;

pub(crate) const MALFORMED: SharedError = SharedError::Unexpected;

pub(crate) fn list(reply: Reply) -> ReplyResult<Vec<Reply>> {
    match reply {
        Reply::List(replies) => Ok(replies),
        Reply::Nothing | Reply::Number(_) | Reply::Text(_) => Err(MALFORMED),
    }
}

pub(crate) fn number(reply: &Reply) -> ReplyResult<i64> {
    match reply {
        Reply::Number(number) => Ok(*number),
        Reply::Nothing | Reply::Text(_) | Reply::List(_) => Err(MALFORMED),
    }
}

pub(crate) fn text(reply: Reply) -> ReplyResult<Bytes> {
    match reply {
        Reply::Text(bytes) => Ok(bytes),
        Reply::Nothing | Reply::Number(_) | Reply::List(_) => Err(MALFORMED),
    }
}
