//! The meaning of client and server errors.

use fred::error::{Error, ErrorKind};

use crate::remote::shared::SharedError;

/// First words of errors with which Redis refuses a command for now.
pub(super) const REFUSALS: [&str; 9] =
    ["OOM", "READONLY", "MISCONF", "LOADING", "BUSY", "NOREPLICAS", "MASTERDOWN", "TRYAGAIN", "NOPERM"];
/// The first words of errors with which a cluster reports that it, or this part of it, is unavailable.
const ABSENCES: [&str; 4] = ["CLUSTERDOWN", "MOVED", "ASK", "NOAUTH"];

/// Translates a failure for the caller. Its text is not passed on.
pub(super) fn meaning(error: &Error) -> SharedError {
    let word = first_word(error);
    if REFUSALS.contains(&word) {
        return SharedError::Refused;
    }
    if ABSENCES.contains(&word) {
        return SharedError::Unavailable;
    }
    match error.kind() {
        ErrorKind::Timeout => SharedError::Timeout,
        ErrorKind::Protocol | ErrorKind::Parse | ErrorKind::InvalidArgument | ErrorKind::NotFound => {
            SharedError::Unexpected
        }
        // The server's errors begin with a code; the client's errors about a connection do not.
        ErrorKind::Unknown if is_code(word) => SharedError::Unexpected,
        _ => SharedError::Unavailable,
    }
}

/// The server is a replica: its data may be old.
pub(super) fn is_replica(error: &Error) -> bool {
    first_word(error) == "READONLY"
}

/// The key holds another type than a text.
pub(super) fn is_wrong_type(error: &Error) -> bool {
    first_word(error) == "WRONGTYPE"
}

/// The server does not know the script by its hash.
pub(super) fn is_unknown_script(error: &Error) -> bool {
    first_word(error) == "NOSCRIPT"
}

pub(super) fn first_word(error: &Error) -> &str {
    error.details().split_whitespace().next().unwrap_or("")
}

fn is_code(word: &str) -> bool {
    word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_server_is_not_unavailable() {
        let meaning_of = |kind, text: &'static str| meaning(&Error::new(kind, text));
        assert_eq!(meaning_of(ErrorKind::Unknown, "OOM command not allowed"), SharedError::Refused);
        assert_eq!(meaning_of(ErrorKind::Unknown, "READONLY You can't write"), SharedError::Refused);
        assert_eq!(meaning_of(ErrorKind::Unknown, "LOADING Redis is loading"), SharedError::Refused);
        assert_eq!(
            meaning_of(ErrorKind::Cluster, "CLUSTERDOWN Hash slot not served"),
            SharedError::Unavailable
        );
        assert_eq!(meaning_of(ErrorKind::Unknown, "Client is not initialized."), SharedError::Unavailable);
        assert_eq!(meaning_of(ErrorKind::IO, "Connection closed."), SharedError::Unavailable);
        assert_eq!(meaning_of(ErrorKind::Timeout, "Request timed out."), SharedError::Timeout);
        assert_eq!(meaning_of(ErrorKind::Unknown, "ERR unknown command"), SharedError::Unexpected);
        assert_eq!(meaning_of(ErrorKind::InvalidArgument, "WRONGTYPE Operation"), SharedError::Unexpected);
    }
}
