//! Notifies other domains about changed groups.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_store::{Group, GroupId, GroupPatch, SecretChange, Text};

use super::Groups;

/// Is notified about each change of a group's name, within the write that made it: after the change is
/// stored, and before it is acknowledged. If the node crashes in between, or the write's outcome is unknown,
/// the listener is not notified.
#[async_trait]
pub trait RenameListener: Debug + Send + Sync {
    /// Handles the change. `group`: after the change. The writer waits for it.
    async fn renamed(&self, group: &Group);
}

/// Is notified in the same way about other group changes that members may see, such as its picture, and of
/// its name if there is no other listener for it.
pub trait GroupListener: Debug + Send + Sync {
    /// Handles the change, in the background.
    fn changed(&self, group: GroupId);
}

/// The listeners for group changes.
#[derive(Clone, Debug)]
pub struct GroupListeners {
    /// Is notified about new names. `None`: [`Self::changes`].
    pub renames: Option<Arc<dyn RenameListener>>,
    /// Is notified about other changes.
    pub changes: Arc<dyn GroupListener>,
}

/// A group before a change, as far as listeners ask for it.
#[derive(Debug)]
pub(super) struct PreviousGroup {
    /// `None`: the change leaves it alone, or it cannot be read.
    name: Option<Text>,
    /// Whether members may see the change.
    is_visible: bool,
}

impl Groups {
    /// Reads the state that a change may replace.
    pub(super) async fn before_change(&self, id: GroupId, patch: &GroupPatch) -> PreviousGroup {
        let visible = GroupPatch { secrets: SecretChange::default(), ..patch.clone() };
        let is_visible = visible != GroupPatch::default();
        if patch.name.is_none() || self.listeners.renames.is_none() {
            return PreviousGroup { name: None, is_visible };
        }
        let group = self.get_group(id, &Consistency::Cached).await.ok();
        PreviousGroup { name: group.map(|group| group.value.name.clone()), is_visible }
    }

    /// Notifies one listener: an event for a new name reaches all members, who then read the group.
    pub(super) async fn notify_changed(&self, before: PreviousGroup, group: &Group) {
        match (&self.listeners.renames, before.name) {
            (Some(renames), Some(name)) if name != group.name => renames.renamed(group).await,
            _ if before.is_visible => self.listeners.changes.changed(group.id),
            _ => {}
        }
    }
}
