//! Message documents: each has a fixed number of messages with contiguous numbers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{ConversationId, DOCUMENT, Message, Seq};
use crate::{Invalid, Version};

/// Identifies a log's document: [`DOCUMENT`] messages with contiguous numbers that are stored together.
///
/// The text form is the conversation, a slash and the document's number, as `g9/12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocumentKey {
    /// The document's log.
    pub conversation: ConversationId,
    /// The number, from 0; see [`document_of`](super::document_of).
    pub document: i64,
}

/// A document as it is stored. A document that is followed by another is full: it gets no further message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDocument {
    /// The document's key.
    pub key: DocumentKey,
    /// Rises with each change to one of its messages, but not with appends.
    pub version: Version,
    /// The messages by rising number.
    pub messages: Vec<Message>,
}

impl LogDocument {
    /// Whether it has all its messages.
    #[must_use]
    pub fn is_full(&self) -> bool {
        i64::try_from(self.messages.len()).is_ok_and(|count| count == DOCUMENT)
    }

    /// Its messages from `first` to `last`, both included.
    pub fn between(&self, first: Seq, last: Seq) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| (first..=last).contains(&message.seq))
    }

    /// Approximate size in bytes, for the bounds that caches have.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.messages.iter().map(Message::weight).sum::<usize>()
    }
}

impl DocumentKey {
    /// Returns its first message's number.
    #[must_use]
    pub const fn first(self) -> Seq {
        self.document * DOCUMENT + 1
    }
}

impl fmt::Display for DocumentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.conversation, self.document)
    }
}

impl FromStr for DocumentKey {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        const FORM: Invalid = Invalid::fixed("must be a conversation, a slash and a number, as g9/12");
        let (conversation, document) = text.split_once('/').ok_or(FORM)?;
        let document = document.parse().ok().filter(|document| *document >= 0).ok_or(FORM)?;
        let key = Self { conversation: conversation.parse()?, document };
        if key.to_string() == text { Ok(key) } else { Err(FORM) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_one_spelling() {
        for text in ["d7-8/0", "g9/12", "g9/92233720368547758"] {
            assert_eq!(text.parse::<DocumentKey>().unwrap().to_string(), text);
        }
        for text in ["", "g9", "g9/", "/1", "g9/-1", "g9/+1", "g9/01", "g9/1/2", "x9/1", "g9/1 "] {
            assert!(text.parse::<DocumentKey>().is_err(), "{text}");
        }
    }
}
