//! Notification of other domains of the names of groups.

use std::fmt::Debug;

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_store::{Group, GroupId, GroupPatch, Text};

use super::Groups;

/// Is notified of each change of the name of a group, within the write that made it: after the change is stored, and before it is
/// acknowledged. If the node crashes in between, or the outcome of the write is unknown, the listener is not notified.
#[async_trait]
pub trait RenameListener: Debug + Send + Sync {
    /// Handles the change. `group`: after the change. The caller of the write waits for it.
    async fn renamed(&self, group: &Group);
}

/// The name of a group before a change that may rename it.
#[derive(Debug)]
pub(super) struct PreviousName(Option<Text>);

impl Groups {
    /// The name before a change; `PreviousName(None)` if the change leaves it alone, or it cannot be read.
    pub(super) async fn previous_name(&self, id: GroupId, patch: &GroupPatch) -> PreviousName {
        if patch.name.is_none() || self.renames.is_none() {
            return PreviousName(None);
        }
        let group = self.get_group(id, &Consistency::Cached).await.ok();
        PreviousName(group.map(|group| group.value.name.clone()))
    }

    /// Notifies the listener if the name has changed.
    pub(super) async fn notify_renamed(&self, PreviousName(before): PreviousName, group: &Group) {
        if let (Some(listener), Some(before)) = (&self.renames, before)
            && before != group.name
        {
            listener.renamed(group).await;
        }
    }
}
