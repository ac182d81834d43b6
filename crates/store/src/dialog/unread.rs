//! Counts of unread messages.

use crate::{Message, MessageKind, Seq, UserId};

/// The fields of a message that unread counts need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader<'a> {
    /// Its number in the conversation.
    pub seq: Seq,
    /// The user who sent it; `None`: a service.
    pub sender: Option<UserId>,
    /// Whether it leaves unread counts as they are. Events do.
    pub silent: bool,
    /// Whether it was recalled or erased.
    pub recalled: bool,
    /// The users whom it mentions.
    pub mentions: &'a [UserId],
    /// Whether it mentions every reader.
    pub mention_all: bool,
}

impl<'a> From<&'a Message> for MessageHeader<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            seq: message.seq,
            sender: message.sender,
            silent: message.silent || message.kind == MessageKind::Event,
            recalled: message.recalled.is_some(),
            mentions: &message.mentions,
            mention_all: message.mention_all,
        }
    }
}

/// The user and the range of an unread count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadRange {
    /// The user who reads.
    pub user: UserId,
    /// See [`ReadRanges::read_seq`](super::ReadRanges::read_seq).
    pub read_seq: Seq,
    /// The lowest number that the user may read.
    pub min_seq: Seq,
    /// The highest number that the user may read; `None`: the end of the log.
    pub max_seq: Option<Seq>,
}

/// An unread count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Number of unread messages.
    pub count: u64,
    /// The lowest number of an unread message that mentions the user.
    pub first_mention: Option<Seq>,
}

/// Counts the unread messages among these, each of which occurs once, in any order. A message is unread if it
/// is above the read mark and within the range, comes from another sender, and is neither silent nor
/// recalled. Unread ranges do not count: a user has passed them. The counts for parts of a log add up.
pub fn count_unread<'a>(range: UnreadRange, headers: impl IntoIterator<Item = MessageHeader<'a>>) -> Unread {
    let mut unread = Unread::default();
    for header in headers {
        if range.counts(&header) {
            unread.count += 1;
            if header.mention_all || header.mentions.contains(&range.user) {
                let first = unread.first_mention.map_or(header.seq, |seq| seq.min(header.seq));
                unread.first_mention = Some(first);
            }
        }
    }
    unread
}

impl UnreadRange {
    /// Whether the message counts as unread.
    fn counts(&self, header: &MessageHeader<'_>) -> bool {
        let within = header.seq > self.read_seq
            && header.seq >= self.min_seq
            && self.max_seq.is_none_or(|max| header.seq <= max);
        within && header.sender != Some(self.user) && !header.silent && !header.recalled
    }
}
