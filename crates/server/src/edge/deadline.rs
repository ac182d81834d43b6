//! `grpc-timeout`, read strictly.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;
use tonic::Status;

use super::answer;

const TIMEOUT: &str = "grpc-timeout";
/// The protocol allows at most so many digits.
const DIGITS_MAX: usize = 8;
/// Timers are no finer than this; a shorter time is looked at again before the call is taken on.
const FINEST: Duration = Duration::from_millis(1);

/// How long callers may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// The deadline for a call that names none.
    pub(super) default: Duration,
    pub(super) most: Duration,
}

/// When the caller stops waiting for a request that came at `started`.
pub(super) fn of(headers: &HeaderMap, started: Instant, limits: Deadlines) -> Result<Instant, Box<Status>> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(started + limits.default) };
    let Some(timeout) = parse(value.as_bytes()) else {
        return Err(Box::new(answer::invalid_metadata(
            TIMEOUT,
            "must be 1 to 8 digits and one of H, M, S, m, u, n",
        )));
    };
    let deadline = started + timeout.min(limits.most);
    if timeout < FINEST && Instant::now() >= deadline {
        return Err(Box::new(answer::deadline_exceeded()));
    }
    Ok(deadline)
}

fn parse(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let mut amount: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        amount = amount * 10 + u64::from(digit - b'0');
    }
    match unit {
        b'H' => Some(Duration::from_secs(amount * 60 * 60)),
        b'M' => Some(Duration::from_secs(amount * 60)),
        b'S' => Some(Duration::from_secs(amount)),
        b'm' => Some(Duration::from_millis(amount)),
        b'u' => Some(Duration::from_micros(amount)),
        b'n' => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_of_the_protocol_is_read() {
        let read = ["3H", "3M", "3S", "3m", "3u", "99999999n"].map(|text| parse(text.as_bytes()).unwrap());
        let expected = [
            Duration::from_secs(3 * 3600),
            Duration::from_secs(180),
            Duration::from_secs(3),
            Duration::from_millis(3),
            Duration::from_micros(3),
            Duration::from_nanos(99_999_999),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn what_the_protocol_does_not_know_is_refused() {
        for text in ["", "S", "-1S", "+1S", "1", "1s", "abc", "999999999n", "1 S", "1.5S", "\u{661}S"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_deadline_too_far_away_counts_as_the_longest() {
        let started = Instant::from_std(std::time::Instant::now());
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static(TIMEOUT),
            http::HeaderValue::from_static("99999999H"),
        )]);
        let most = Duration::from_secs(10);
        assert_eq!(
            of(&headers, started, Deadlines { default: Duration::from_secs(2), most }).unwrap(),
            started + most
        );
    }
}
