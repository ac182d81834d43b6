//! A node is killed again and again; halfway its data are replaced by a backup.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::FollowedState;
use crate::faults::{Figure, load_tests::embedded_node::EmbeddedNode};

/// Time between two kills.
const KILLED_EVERY: Duration = Duration::from_millis(1_500);
const KILLS_MIN: u64 = 3;
/// Where the backup is, in the node's folder.
const BACKUP: &str = "backup.db";

/// Goes on until there are enough writes and enough kills, and a backup was restored.
pub(super) async fn inject(node: &mut EmbeddedNode, state: &FollowedState) -> Result<Vec<Figure>> {
    let (mut kills, mut has_backup, mut restored) = (0, false, 0);
    while kills < KILLS_MIN || restored == 0 || !state.progress.has_enough() {
        sleep(KILLED_EVERY).await;
        if !has_backup {
            node.command(&["backup", "--to", BACKUP])?;
            has_backup = true;
            sleep(KILLED_EVERY).await;
        }
        node.kill();
        kills += 1;
        if restored == 0 && 2 * state.progress.done() >= state.progress.goal() {
            node.command(&["restore", BACKUP, "--force"])?;
            restored += 1;
            state.note_restored();
        }
        node.run().await?;
    }
    let kills = Figure::at_least_count("kills", kills, KILLS_MIN);
    Ok(vec![kills, Figure::at_least_count("restores", restored, 1)])
}
