//! Script arguments.

use std::time::Duration;

use bytes::Bytes;

pub(crate) fn number<T: ToString + Copy>(number: T) -> Bytes {
    number.to_string().into()
}

/// Whole milliseconds.
pub(crate) fn milliseconds(time: Duration) -> Bytes {
    number(time.as_millis())
}
