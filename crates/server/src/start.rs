//! Why a node does not start.

use std::{io, net::SocketAddr};

use crate::config::ConfigError;

/// Why a node does not start, in one line that says what to do. The command ends with code 2 then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

impl StartError {
    /// One line.
    pub fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }

    /// Of an address that `flag` sets.
    pub(crate) fn bind(address: SocketAddr, flag: &str, error: &io::Error) -> Self {
        let why = match error.kind() {
            io::ErrorKind::AddrInUse => format!("port {} is taken by another program", address.port()),
            io::ErrorKind::PermissionDenied => format!("port {} needs a permission", address.port()),
            io::ErrorKind::AddrNotAvailable => format!("{} is no address of this machine", address.ip()),
            _ => error.to_string(),
        };
        Self(format!("cannot listen on {address}: {why}; choose another with {flag}"))
    }
}

/// Of standard output, where a command writes what it found.
impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self(format!("standard output cannot be written: {error}"))
    }
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self(error.to_string())
    }
}
