//! The reasons for which a socket is closed, as its peer reads them.

use kith_service::error::{Error as CallError, Reason};
use tokio_tungstenite::tungstenite::{
    Error,
    protocol::{CloseFrame, frame::coding::CloseCode},
};
use tonic::{Code, Status};

/// The reason for which the node closes a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// The node stops.
    Stopping,
    /// The bytes are not the WebSocket protocol.
    Protocol,
    /// A frame is binary.
    Binary,
    /// A text is not UTF-8.
    NotUtf8,
    /// A text is not JSON.
    NotJson,
    /// A JSON value is neither a hello nor a renewal nor a call.
    Form,
    /// The first frame is a call, or none came in time.
    NoHello,
    /// A second hello while the first one holds.
    Again,
    /// A later hello or renewal names another user.
    OtherUser,
    /// The hello was refused, or the user's token has ended; an error frame says why.
    Refused,
    /// The socket has reached the longest age that a socket with a token may have.
    Old,
    /// A frame is too large.
    TooLarge,
    /// The peer does not read.
    Unread,
    /// No frame came from the peer for too long.
    Silent,
    /// The node cannot serve the socket now; an error frame says why.
    Later,
    /// The node has a fault.
    Fault,
}

impl Close {
    const fn code(self) -> CloseCode {
        match self {
            Self::Stopping | Self::Old => CloseCode::Away,
            Self::Protocol => CloseCode::Protocol,
            Self::Binary => CloseCode::Unsupported,
            Self::NotUtf8 | Self::NotJson => CloseCode::Invalid,
            Self::Form | Self::NoHello | Self::Again | Self::OtherUser | Self::Refused => CloseCode::Policy,
            Self::TooLarge => CloseCode::Size,
            Self::Unread | Self::Silent | Self::Later => CloseCode::Again,
            Self::Fault => CloseCode::Error,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Stopping => "the node stops",
            Self::Protocol => "these bytes are not the WebSocket protocol",
            Self::Binary => "frames must be text",
            Self::NotUtf8 => "the text is not UTF-8",
            Self::NotJson => "the text is not JSON",
            Self::Form => {
                "a frame must be {\"hello\": ...}, {\"renew\": ...} or {\"id\": ..., \"call\": ..., \"body\": ...}"
            }
            Self::NoHello => "the first frame must be a hello, and come within 5 s",
            Self::Again => "a hello is sent once, and again after a reset",
            Self::OtherUser => "a socket keeps its user",
            Self::Refused => "the hello was refused, or the token has ended",
            Self::Old => "the socket is as old as limits.stream_max allows",
            Self::TooLarge => "a frame has at most 256 KiB",
            Self::Unread => "the frames of the node were not read for 10 s",
            Self::Silent => "nothing was heard, not even a pong",
            Self::Later => "the node cannot serve this now",
            Self::Fault => "something went wrong within Kith",
        }
    }

    pub(super) fn frame(self) -> CloseFrame {
        CloseFrame { code: self.code(), reason: self.text().into() }
    }

    /// The error that a frame reports before the close. `None`: an error was sent already, or the close frame
    /// says all.
    pub(super) fn error(self) -> Option<CallError> {
        let reason = match self {
            Self::Binary | Self::NotJson | Self::Form => Reason::MalformedMessage,
            Self::NoHello => Reason::CredentialsMissing,
            Self::Again | Self::OtherUser => Reason::StateForbids,
            _ => return None,
        };
        Some(CallError::new(reason, self.text()))
    }

    /// The close after a call that the socket itself made has failed.
    pub(super) fn after(status: &Status) -> Self {
        match status.code() {
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted => {
                Self::Later
            }
            Code::Internal | Code::Unknown | Code::DataLoss => Self::Fault,
            _ => Self::Refused,
        }
    }
}

/// How a socket ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketEnd {
    /// The node closes it.
    Close(Close),
    /// The peer closed it.
    Closed,
    /// The peer is gone: nothing can be sent.
    Gone,
}

impl SocketEnd {
    /// Whether the peer was lost: it may not have what it was sent last.
    pub(super) const fn is_loss(self) -> bool {
        matches!(self, Self::Gone | Self::Close(Close::Silent | Close::Unread))
    }
}

impl From<Close> for SocketEnd {
    fn from(close: Close) -> Self {
        Self::Close(close)
    }
}

/// The close after a frame could not be read.
impl From<Error> for SocketEnd {
    fn from(error: Error) -> Self {
        match error {
            Error::Capacity(_) => Close::TooLarge.into(),
            Error::Utf8(_) => Close::NotUtf8.into(),
            Error::Protocol(why) if is_gone(&why) => Self::Gone,
            Error::Protocol(_) => Close::Protocol.into(),
            Error::ConnectionClosed | Error::AlreadyClosed => Self::Closed,
            _ => Self::Gone,
        }
    }
}

/// The connection ended without a close frame.
const fn is_gone(why: &tokio_tungstenite::tungstenite::error::ProtocolError) -> bool {
    matches!(why, tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_into_a_close_frame() {
        for close in [Close::Form, Close::NoHello, Close::Again, Close::Unread] {
            assert!(close.text().len() <= 123, "{close:?}");
        }
    }

    #[test]
    fn codes_are_those_of_the_document() {
        let codes = [
            (1001, &[Close::Stopping, Close::Old][..]),
            (1002, &[Close::Protocol]),
            (1003, &[Close::Binary]),
            (1007, &[Close::NotUtf8, Close::NotJson]),
            (1008, &[Close::Form, Close::NoHello, Close::Again, Close::OtherUser, Close::Refused]),
            (1009, &[Close::TooLarge]),
            (1011, &[Close::Fault]),
            (1013, &[Close::Unread, Close::Silent, Close::Later]),
        ];
        for (code, all) in codes {
            assert!(all.iter().all(|close| u16::from(close.frame().code) == code), "{code}: {all:?}");
        }
    }

    #[test]
    fn failed_calls_say_whether_to_come_again() {
        let after = |error: CallError| Close::after(&error.into());
        assert_eq!(after(CallError::new(Reason::StoreUnavailable, "")), Close::Later);
        assert_eq!(after(CallError::not_found("user")), Close::Refused);
        assert_eq!(after(CallError::internal()), Close::Fault);
    }
}
