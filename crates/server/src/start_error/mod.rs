//! The reasons why a node does not start.

mod lock_holder;

use std::{io, net::SocketAddr};

use crate::config::ConfigError;

/// The reason why a node does not start, in one line with what to do. The command exits with code 2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

impl StartError {
    /// One line: line breaks and control characters are escaped.
    pub fn new(line: impl Into<String>) -> Self {
        let line = line.into();
        if !line.contains(char::is_control) {
            return Self(line);
        }
        let escaped =
            line.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() });
        Self(escaped.collect())
    }

    /// The error for an address that `flag` sets.
    pub(crate) fn bind(address: SocketAddr, flag: &str, error: &io::Error) -> Self {
        let port = address.port();
        let why = match error.kind() {
            io::ErrorKind::AddrInUse => {
                let holder = lock_holder::of(port).unwrap_or_else(|| "another program".to_owned());
                format!("port {port} is taken by {holder}; stop it, or choose another port with {flag}")
            }
            io::ErrorKind::PermissionDenied => {
                format!("port {port} is for root alone; choose one above 1023 with {flag}")
            }
            io::ErrorKind::AddrNotAvailable => {
                format!("{} is no address of this machine; choose another with {flag}", address.ip())
            }
            _ => format!("{error}; choose another address with {flag}"),
        };
        Self::new(format!("cannot listen on {address}: {why}"))
    }
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self::new(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::StartError;

    #[test]
    fn an_error_is_one_line_whatever_a_path_holds() {
        let error = StartError::new("a\nb\u{1b}[31mc");
        assert_eq!(error.to_string(), "a\\nb\\u{1b}[31mc");
    }
}
