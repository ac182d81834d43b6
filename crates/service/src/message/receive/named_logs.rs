//! Large groups beyond those that a stream reads: their messages are not sent, but named as missed, so that
//! the client pulls them.
//!
//! The numbers up to which a stream has named messages are not in its cursor, which has no room for them. A
//! stream that is resumed therefore names each conversation once, from the user's join on; the client leaves
//! out what it has.

use std::collections::HashMap;

use kith_store::{ConversationId, Seq};

/// Most conversations whose messages a stream names. `live` says how many others there are.
const NAMED_MAX: usize = 2_000;

/// The conversations whose messages a stream names.
#[derive(Debug, Default)]
pub(super) struct NamedLogs {
    /// The number up to which messages were named or sent; 0: none was.
    up_to: HashMap<ConversationId, Seq>,
    /// How many conversations there are beyond [`NAMED_MAX`].
    pub(super) left_out: usize,
}

impl NamedLogs {
    pub(super) fn contains(&self, conversation: ConversationId) -> bool {
        self.up_to.contains_key(&conversation)
    }

    /// The number up to which a conversation's messages were named; `None`: the stream does not name it.
    pub(super) fn up_to(&self, conversation: ConversationId) -> Option<Seq> {
        self.up_to.get(&conversation).copied()
    }

    pub(super) fn add(&mut self, conversation: ConversationId, up_to: Seq) {
        self.up_to.insert(conversation, up_to);
    }

    pub(super) fn raise(&mut self, conversation: ConversationId, seq: Seq) {
        if let Some(up_to) = self.up_to.get_mut(&conversation) {
            *up_to = seq.max(*up_to);
        }
    }

    /// Forgets the conversations that are not large any more: the inbox has their later messages.
    pub(super) fn retain(&mut self, large: &[ConversationId]) {
        self.up_to.retain(|known, _| large.contains(known));
    }

    /// Leaves as many as there is room for, and counts the others.
    pub(super) fn cut(&mut self, new: &mut Vec<ConversationId>) {
        let room = NAMED_MAX.saturating_sub(self.up_to.len());
        self.left_out = new.len().saturating_sub(room);
        new.truncate(room);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::sample::group, *};

    #[test]
    fn conversations_beyond_the_bound_are_counted() {
        let mut named = NamedLogs::default();
        let mut new: Vec<_> = (1..=2_003).map(group).collect();
        named.cut(&mut new);
        assert_eq!((new.len(), named.left_out), (NAMED_MAX, 3));
        named.up_to.extend(new.iter().map(|conversation| (*conversation, 0)));
        let mut others = vec![group(2_001)];
        named.cut(&mut others);
        assert_eq!((others.len(), named.left_out), (0, 1));
        named.retain(&[group(7)]);
        assert_eq!((named.up_to(group(7)), named.up_to(group(8))), (Some(0), None));
    }
}
