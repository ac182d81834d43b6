//! Writes the file with the addresses at which a node listens.

use std::{fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use kith_server::{node::run::Addresses, start_error::StartError};

/// A file that exists while the node serves; removed when dropped. A node that is killed leaves it behind:
/// `pid` names its process, and the next node with the same file removes it when it starts.
#[derive(Debug)]
pub(super) struct PortsFile {
    path: PathBuf,
}

#[derive(Debug, Deserialize, Serialize)]
struct PortsContent {
    grpc: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<String>,
    pid: u32,
}

impl PortsFile {
    /// Removes an earlier node's file, so that its ports are not taken for this node's ports.
    pub(super) fn prepare(path: PathBuf) -> Result<Self, StartError> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(write_error(&path, &error)),
            Ok(()) | Err(_) => Ok(Self { path }),
        }
    }

    /// Writes it atomically: a reader finds the complete file.
    pub(super) fn write(&self, addresses: Addresses) -> Result<(), StartError> {
        let pid = std::process::id();
        let ports = PortsContent {
            grpc: addresses.grpc.to_string(),
            operations: addresses.operations.map(|address| address.to_string()),
            pid,
        };
        let sibling = self.path.with_added_extension(pid.to_string());
        let written = serde_json::to_string(&ports)
            .map_err(io::Error::from)
            .and_then(|text| fs::write(&sibling, text + "\n"))
            .and_then(|()| fs::rename(&sibling, &self.path));
        written.map_err(|error| {
            // It may not exist, and the error is returned already.
            fs::remove_file(&sibling).ok();
            write_error(&self.path, &error)
        })
    }

    /// Returns whether this process wrote the file: another node may use the same file.
    fn is_own(&self) -> bool {
        let ports =
            fs::read(&self.path).ok().and_then(|text| serde_json::from_slice::<PortsContent>(&text).ok());
        ports.is_some_and(|ports| ports.pid == std::process::id())
    }
}

impl Drop for PortsFile {
    fn drop(&mut self) {
        if self.is_own()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "the file of the ports is left behind");
        }
    }
}

fn write_error(path: &std::path::Path, error: &io::Error) -> StartError {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "its folder is not there; make it, or name another file".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "it cannot be written; give this user the right to it, or name another file".to_owned()
        }
        _ => error.to_string(),
    };
    StartError::new(format!("--ports-file {}: {why}", path.display()))
}
