//! The scripts' replies. A reply with an invalid form is refused. A list loses only its invalid elements, so
//! that an invalid element does not hide the others.

use std::{str::FromStr, time::Duration};

use kith_cache::remote::redis::Reply;
use kith_store::UserId;

use crate::{Event, GatewayId, PresenceError};

pub(super) fn list(reply: Reply) -> Result<Vec<Reply>, PresenceError> {
    match reply {
        Reply::List(replies) => Ok(replies),
        _ => Err(PresenceError::Unexpected),
    }
}

pub(super) fn number(reply: &Reply) -> Result<i64, PresenceError> {
    match reply {
        Reply::Number(number) => Ok(*number),
        _ => Err(PresenceError::Unexpected),
    }
}

pub(super) fn text(reply: &Reply) -> Result<&str, PresenceError> {
    match reply {
        Reply::Text(bytes) => std::str::from_utf8(bytes).map_err(|_| PresenceError::Unexpected),
        _ => Err(PresenceError::Unexpected),
    }
}

pub(super) fn parsed<T: FromStr>(text: &str) -> Result<T, PresenceError> {
    text.parse().map_err(|_| PresenceError::Unexpected)
}

/// Milliseconds; `None`: below 0.
pub(super) fn left(reply: &Reply) -> Result<Option<Duration>, PresenceError> {
    Ok(u64::try_from(number(reply)?).ok().map(Duration::from_millis))
}

pub(super) fn duration(reply: &Reply) -> Result<Duration, PresenceError> {
    left(reply)?.ok_or(PresenceError::Unexpected)
}

/// Ids with commas between them; none: an empty text.
pub(super) fn gateways(text: &str) -> Result<Vec<GatewayId>, PresenceError> {
    text.split(',').filter(|id| !id.is_empty()).map(parsed).collect()
}

pub(super) fn users(reply: Reply) -> Result<Vec<UserId>, PresenceError> {
    Ok(list(reply)?.iter().filter_map(|user| parsed(text(user).ok()?).ok()).collect())
}

/// `user version gateways`.
pub(super) fn event(message: &[u8]) -> Option<Event> {
    let mut words = std::str::from_utf8(message).ok()?.splitn(3, ' ');
    let (user, version) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let gateways = gateways(words.next()?).ok()?;
    (version > 0).then_some(Event { user, version, gateways })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_nothing_else_is() {
        let read = event(b"7 42 a,b").unwrap();
        assert_eq!((read.user.get(), read.version, read.gateways.len()), (7, 42, 2));
        assert!(event(b"7 42 ").unwrap().gateways.is_empty());
        for bad in
            [&b""[..], b"7", b"7 42", b"0 42 a", b"7 0 a", b"7 -1 a", b"7 42 a b", b"7 42 \xff", b"x 42 a"]
        {
            assert_eq!(event(bad), None, "{bad:?}");
        }
    }
}
