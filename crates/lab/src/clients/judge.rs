//! Compares what a program was answered with what the cluster has stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Deserialize;

/// A message that was acknowledged, as the program prints it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Acknowledged {
    /// The conversation: its place in the program's task.
    pub chat: usize,
    /// Counts the messages of the conversation from 0, in the order in which they were sent.
    pub n: u64,
    /// The `client_message_id`.
    pub id: String,
    /// The number that the node has answered.
    pub seq: i64,
    /// Whether the other node had it when it was read right after.
    pub read: bool,
}

/// A message that a conversation has at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its number in the conversation.
    pub seq: i64,
    /// The `client_message_id`.
    pub id: String,
}

/// The faults that a message can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The program has ended without an answer to it.
    Unanswered,
    /// It was acknowledged and is not stored.
    Lost,
    /// It is stored under another number than the acknowledged number.
    Moved,
    /// It is stored more than once.
    Repeated,
    /// It is stored and was never acknowledged.
    Unknown,
    /// It has a higher number than a message that was sent after it.
    Disordered,
    /// The other node did not have it right after it was acknowledged.
    Unread,
}

impl Kind {
    /// All kinds, in the order of a report.
    pub const ALL: [Self; 7] = [
        Self::Unanswered,
        Self::Lost,
        Self::Moved,
        Self::Repeated,
        Self::Unknown,
        Self::Disordered,
        Self::Unread,
    ];

    /// Its name in a report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unanswered => "unanswered",
            Self::Lost => "lost",
            Self::Moved => "other number",
            Self::Repeated => "stored twice",
            Self::Unknown => "unknown",
            Self::Disordered => "out of order",
            Self::Unread => "not read",
        }
    }
}

/// A message for which a promise does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The message's fault.
    pub kind: Kind,
    /// Which message, and how.
    pub about: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.about)
    }
}

/// Returns all violations. `stored` has the messages of each conversation, by rising number. Every
/// conversation was to get `messages` messages.
#[must_use]
pub fn judge(messages: u64, acknowledged: &[Acknowledged], stored: &[Vec<StoredMessage>]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (chat, stored) in stored.iter().enumerate() {
        let sent: BTreeMap<&str, &Acknowledged> = acknowledged
            .iter()
            .filter(|message| message.chat == chat)
            .map(|message| (message.id.as_str(), message))
            .collect();
        let mut add = |kind, about| found.push(Violation { kind, about });
        let answered: BTreeSet<u64> = sent.values().map(|message| message.n).collect();
        for n in (0..messages).filter(|n| !answered.contains(n)) {
            add(Kind::Unanswered, format!("message {n} of conversation {chat}"));
        }
        judge_answers(&sent, stored, &mut add);
        judge_log(&sent, stored, &mut add);
    }
    found
}

/// Judges each acknowledged message of a conversation.
fn judge_answers(
    sent: &BTreeMap<&str, &Acknowledged>,
    stored: &[StoredMessage],
    add: &mut impl FnMut(Kind, String),
) {
    for (id, message) in sent {
        let copies: Vec<i64> = stored.iter().filter(|copy| copy.id == *id).map(|copy| copy.seq).collect();
        match copies[..] {
            [] => add(Kind::Lost, format!("{id}, acknowledged as {}", message.seq)),
            [seq] if seq == message.seq => {}
            [seq] => add(Kind::Moved, format!("{id}, acknowledged as {} and stored as {seq}", message.seq)),
            _ => add(Kind::Repeated, format!("{id}, stored as {copies:?}")),
        }
        if !message.read {
            add(Kind::Unread, format!("{id}, acknowledged as {}", message.seq));
        }
    }
}

/// Judges the order of a conversation, by the first copy of each message.
fn judge_log(
    sent: &BTreeMap<&str, &Acknowledged>,
    stored: &[StoredMessage],
    add: &mut impl FnMut(Kind, String),
) {
    let (mut known, mut last) = (BTreeSet::new(), None);
    for copy in stored {
        let Some(message) = sent.get(copy.id.as_str()) else {
            add(Kind::Unknown, format!("{:?}, stored as {}", copy.id, copy.seq));
            continue;
        };
        if !known.insert(&copy.id) {
            continue;
        }
        if last > Some(message.n) {
            add(Kind::Disordered, format!("{}, stored as {}", copy.id, copy.seq));
        }
        last = last.max(Some(message.n));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three messages of the first conversation, and one of the second, as a sound run leaves them.
    fn sound() -> (Vec<Acknowledged>, Vec<Vec<StoredMessage>>) {
        let acknowledged = |chat, n: u64, seq| {
            let id = format!("m{chat}-{n}");
            Acknowledged { chat, n, id, seq, read: true }
        };
        let acknowledged: Vec<_> = (0..3)
            .zip([1, 2, 4])
            .map(|(n, seq)| acknowledged(0, n, seq))
            .chain((0..3).zip([1, 2, 3]).map(|(n, seq)| acknowledged(1, n, seq)))
            .collect();
        let stored = |chat| {
            let sent = acknowledged.iter().filter(move |message| message.chat == chat);
            sent.map(|message| StoredMessage { seq: message.seq, id: message.id.clone() }).collect()
        };
        let stored = vec![stored(0), stored(1)];
        (acknowledged, stored)
    }

    /// The kinds of violations in a run that is broken in one place.
    fn kinds(
        break_it: impl FnOnce(&mut Vec<Acknowledged>, &mut Vec<Vec<StoredMessage>>),
    ) -> Vec<(Kind, String)> {
        let (mut acknowledged, mut stored) = sound();
        break_it(&mut acknowledged, &mut stored);
        let found = judge(3, &acknowledged, &stored).into_iter();
        found.map(|violation| (violation.kind, violation.about)).collect()
    }

    fn only(kind: Kind, about: &str) -> Vec<(Kind, String)> {
        vec![(kind, about.to_owned())]
    }

    #[test]
    fn sound_run_has_no_violation() {
        assert!(kinds(|_, _| {}).is_empty());
    }

    #[test]
    fn message_without_answer_is_found() {
        let found = kinds(|acknowledged, stored| {
            acknowledged.remove(2);
            stored[0].pop();
        });
        assert_eq!(found, only(Kind::Unanswered, "message 2 of conversation 0"));
    }

    #[test]
    fn lost_message_is_found() {
        let found = kinds(|_, stored| drop(stored[0].remove(1)));
        assert_eq!(found, only(Kind::Lost, "m0-1, acknowledged as 2"));
    }

    #[test]
    fn other_number_is_found() {
        let found = kinds(|_, stored| stored[0][2].seq = 5);
        assert_eq!(found, only(Kind::Moved, "m0-2, acknowledged as 4 and stored as 5"));
    }

    #[test]
    fn message_that_is_stored_twice_is_found() {
        let again = |seq, id: &str| StoredMessage { seq, id: id.to_owned() };
        let found = kinds(|_, stored| stored[0].push(again(5, "m0-0")));
        assert_eq!(found, only(Kind::Repeated, "m0-0, stored as [1, 5]"));
    }

    #[test]
    fn message_in_another_conversation_is_found() {
        let found = kinds(|_, stored| {
            let strange = stored[0].remove(0);
            stored[1].insert(0, strange);
        });
        let lost = (Kind::Lost, "m0-0, acknowledged as 1".to_owned());
        assert_eq!(found, [lost, (Kind::Unknown, "\"m0-0\", stored as 1".to_owned())]);
    }

    #[test]
    fn order_of_sends_is_judged() {
        let found = kinds(|acknowledged, stored| {
            acknowledged[1].seq = 4;
            acknowledged[2].seq = 2;
            stored[0][1].id = "m0-2".to_owned();
            stored[0][2].id = "m0-1".to_owned();
        });
        assert_eq!(found, only(Kind::Disordered, "m0-1, stored as 4"));
    }

    #[test]
    fn own_write_that_was_not_read_is_found() {
        let found = kinds(|acknowledged, _| acknowledged[4].read = false);
        assert_eq!(found, only(Kind::Unread, "m1-1, acknowledged as 2"));
    }

    #[test]
    fn every_kind_has_a_column() {
        let names: BTreeSet<&str> = Kind::ALL.into_iter().map(Kind::name).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
