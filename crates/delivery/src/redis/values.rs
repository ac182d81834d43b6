//! Values in script replies. A value with an invalid form is refused.

use bytes::Bytes;
use kith_cache::remote::{SharedError, redis::Reply};
use kith_store::NodeName;

/// The result of reading an answer.
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

pub(crate) fn size(reply: &Reply) -> ReplyResult<usize> {
    usize::try_from(number(reply)?).map_err(|_| MALFORMED)
}

pub(crate) fn unsigned(number: i64) -> ReplyResult<u64> {
    u64::try_from(number).map_err(|_| MALFORMED)
}

/// A number that Redis keeps as text.
pub(crate) fn parsed(reply: &Reply) -> ReplyResult<u64> {
    let Reply::Text(bytes) = reply else { return Err(MALFORMED) };
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(MALFORMED)
}

/// The nodes whose time is not over. Each is its end time and its name: `1790000000000 n1`.
pub(crate) fn nodes_at(nodes: &Reply, now: i64) -> ReplyResult<Vec<NodeName>> {
    let Reply::Text(nodes) = nodes else { return Err(MALFORMED) };
    let nodes = std::str::from_utf8(nodes).map_err(|_| MALFORMED)?;
    let mut words = nodes.split_terminator(' ');
    let mut live = Vec::new();
    while let Some(ends) = words.next() {
        let ends: i64 = ends.parse().map_err(|_| MALFORMED)?;
        let node = words.next().ok_or(MALFORMED)?.parse().map_err(|_| MALFORMED)?;
        if ends > now {
            live.push(node);
        }
    }
    Ok(live)
}
