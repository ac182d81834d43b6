//! The keys of windows.

use kith_store::ConversationId;

/// Names keys. All a conversation's keys are in one cluster slot; different epochs have different keys.
#[derive(Debug)]
pub(super) struct WindowNames {
    /// The database's prefix and id, without braces.
    tag: String,
}

impl WindowNames {
    pub(super) const fn new(tag: String) -> Self {
        Self { tag }
    }

    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    /// A window's hash and list.
    pub(super) fn window(&self, conversation: ConversationId, epoch: u64) -> Vec<String> {
        let name = |part| format!("{{{}:log:{conversation}}}:{epoch}:{part}", self.tag);
        ["h", "l"].map(name).to_vec()
    }
}

/// The nodes that read a conversation; in its window's slot.
pub(crate) fn readers(tag: &str, conversation: ConversationId, epoch: u64) -> String {
    format!("{{{tag}:log:{conversation}}}:{epoch}:n")
}

/// A number of a conversation, by its ids, so that all nodes agree.
pub(crate) fn number_of(conversation: ConversationId) -> u64 {
    let id = match conversation {
        ConversationId::Group(group) => group.get(),
        ConversationId::Direct(one, other) => one.get() ^ other.get(),
        ConversationId::Offline(log) => i64::from(log),
    };
    id.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_window_are_in_one_slot() {
        let names = WindowNames::new("kith:1".to_owned());
        let window = |text: &str, epoch| names.window(text.parse().unwrap(), epoch);
        assert_eq!(window("g9", 5), ["{kith:1:log:g9}:5:h", "{kith:1:log:g9}:5:l"]);
        assert_eq!(window("d7-8", 5)[0], "{kith:1:log:d7-8}:5:h");
        assert_ne!(window("g9", 5), window("g9", 6));
    }
}
