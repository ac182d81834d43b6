//! The meaning of an answer.

use std::{fmt, time::Duration};

use http::StatusCode;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The receiver has answered.
    Status {
        /// The status of the answer.
        status: StatusCode,
        /// How long the receiver asks to wait, by `retry-after` in seconds. A date is ignored.
        retry_after: Option<Duration>,
    },
    /// Why there is no answer, in words that follow "the receiver".
    None(&'static str),
}

/// The consequence of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has the event.
    Delivered,
    /// Another try may succeed, after the wait that the receiver asks for.
    Again(Option<Duration>),
    /// The receiver does not take this event, and another try would not change that.
    Refused(u16),
    /// The receiver wants no events any more.
    Gone,
}

impl Answer {
    /// Returns what follows from the answer.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let Self::Status { status, retry_after } = self else { return Outcome::Again(None) };
        match *status {
            StatusCode::GONE => Outcome::Gone,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Outcome::Again(*retry_after),
            status if status.is_success() => Outcome::Delivered,
            status if status.is_server_error() => Outcome::Again(*retry_after),
            status => Outcome::Refused(status.as_u16()),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { status, .. } if status.is_redirection() => {
                write!(f, "the receiver answers {}, and redirects are not followed", status.as_u16())
            }
            Self::Status { status, .. } => write!(f, "the receiver answers {}", status.as_u16()),
            Self::None(why) => write!(f, "the receiver {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: u16) -> Outcome {
        let status = StatusCode::from_u16(status).unwrap();
        Answer::Status { status, retry_after: Some(Duration::from_secs(7)) }.outcome()
    }

    #[test]
    fn status_decides_what_follows() {
        for (statuses, follows) in [
            (&[200, 202, 204, 299][..], Outcome::Delivered),
            (&[408, 429, 500, 503, 599], Outcome::Again(Some(Duration::from_secs(7)))),
            (&[410], Outcome::Gone),
        ] {
            statuses.iter().for_each(|status| assert_eq!(outcome(*status), follows, "{status}"));
        }
        for refused in [301, 307, 400, 401, 404, 413, 422, 600] {
            assert_eq!(outcome(refused), Outcome::Refused(refused));
        }
        assert_eq!(Answer::None("is away").outcome(), Outcome::Again(None));
    }
}
