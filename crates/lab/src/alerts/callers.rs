//! Nodes that know callers, and faults in their files.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};
use kith_lab_servers::wait;

use crate::faults::{Node, Site};

/// How long a node may take until it serves.
const SERVES_WITHIN: Duration = Duration::from_secs(60);
/// A key that only nodes in a case use.
const KEY: &str = "a-key-of-the-laboratory-and-of-no-other-node\n";
/// The SHA-256 of a key that no caller has.
const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const TEN_DAYS: Duration = Duration::from_secs(10 * 24 * 3_600);

/// A fault in the last node of a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallersFault {
    /// It needs a key, and the callers have no key.
    KeyNeeded,
    /// A caller's key ends in ten days.
    KeyEndsSoon,
    /// Its key file becomes empty after the node has started.
    FileEmptied,
}

impl CallersFault {
    /// Starts the node again with the fault, and returns once it serves.
    pub(super) async fn inject(self, site: &mut Site) -> Result<()> {
        let node = &mut site.members.last_mut().context("there is a node")?.node;
        node.end().await?;
        match self {
            Self::KeyNeeded | Self::FileEmptied => {
                fs::write(node.folder().join("kith.key"), KEY)?;
                let often = ("KITH_AUTH__READ_AGAIN_EVERY", "200ms");
                node.run_with_variables(&[("KITH_API_KEY_FILE", "kith.key"), often])?;
            }
            Self::KeyEndsSoon => {
                fs::write(node.folder().join("callers.toml"), ends_in(TEN_DAYS))?;
                node.run_with_variables(&[("KITH_AUTH__CALLERS_FILE", "callers.toml")])?;
            }
        }
        until_serving(node).await?;
        if matches!(self, Self::FileEmptied) {
            fs::write(node.folder().join("kith.key"), "")?;
        }
        Ok(())
    }
}

/// Waits by its health service, which needs no key.
async fn until_serving(node: &mut Node) -> Result<()> {
    wait::until("a node does not serve", SERVES_WITHIN, async || {
        node.ensure_alive()?;
        Ok(node.serves().await == Some(true))
    })
    .await
}

/// A callers file with one key.
fn ends_in(time: Duration) -> String {
    let end = humantime::format_rfc3339_seconds(std::time::SystemTime::now() + time).to_string();
    let day = end.split('T').next().unwrap_or_default();
    format!(
        "[[caller]]\nname = \"soon\"\nscopes = [\"watcher\"]\nkeys = [{{ sha256 = \"{DIGEST}\", expires = {day} }}]\n"
    )
}
