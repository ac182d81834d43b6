//! The replies of scripts. A reply with an invalid form is refused.

use std::collections::BTreeMap;

use kith_cache::remote::redis::Reply;
use kith_store::{NodeName, Seq, UserId};

use crate::{
    inbox::{Position, ReadOutcome, entry_text},
    metrics::GenerationReason,
    redis::values::{MALFORMED, ReplyResult, list, nodes_at, number, parsed, size, text, unsigned},
};

/// The position of an entry, with the number of its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryPosition {
    pub(super) generation: u64,
    pub(super) position: Position,
}

/// An opened inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenedReply {
    /// Why the generation is new; `None`: it is not.
    pub(super) made: Option<GenerationReason>,
    /// The last entry.
    pub(super) last: EntryPosition,
    pub(super) complete: bool,
}

/// Marks after a call, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MarkedReply {
    pub(super) nodes: Vec<NodeName>,
    pub(super) position: Position,
    /// Entries that were written.
    pub(super) written: u64,
    /// Conversations that have a mark.
    pub(super) conversations: u64,
    pub(super) marks: Vec<Seq>,
}

/// An inbox that got a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotedReply {
    pub(super) nodes: Vec<NodeName>,
    /// The position of the note's entry; `None`: the inbox has ended.
    pub(super) entry: Option<EntryPosition>,
}

pub(super) fn opened(reply: Reply) -> ReplyResult<OpenedReply> {
    let values: [Reply; 4] = list(reply)?.try_into().map_err(|_| MALFORMED)?;
    let [made, generation, position, complete] = values;
    let made = match number(&made)? {
        0 => None,
        1 => Some(GenerationReason::New),
        2 => Some(GenerationReason::Hash),
        _ => return Err(MALFORMED),
    };
    // The position comes from the hash as text, and as a number if the inbox is new.
    let position = match position {
        Reply::Number(position) => unsigned(position)?,
        other => parsed(&other)?,
    };
    let last = EntryPosition { generation: parsed(&generation)?, position };
    Ok(OpenedReply { made, last, complete: number(&complete)? == 1 })
}

/// Reads the marks; `None`: the generation has ended.
pub(super) fn marked(reply: Reply, count: usize) -> ReplyResult<Option<MarkedReply>> {
    let values = match reply {
        Reply::Number(0) => return Ok(None),
        other => list(other)?,
    };
    let [now, nodes, position, written, conversations, marks @ ..] = &values[..] else {
        return Err(MALFORMED);
    };
    let nodes = nodes_at(nodes, number(now)?)?;
    let marks = marks.iter().map(number).collect::<ReplyResult<Vec<_>>>()?;
    if marks.len() != count || marks.iter().any(|mark| *mark < 0) {
        return Err(MALFORMED);
    }
    let (position, written) = (unsigned(number(position)?)?, unsigned(number(written)?)?);
    let conversations = unsigned(number(conversations)?)?;
    Ok(Some(MarkedReply { nodes, position, written, conversations, marks }))
}

/// Reads the entries after a position.
pub(super) fn read_outcome(reply: Reply, after: Position) -> ReplyResult<ReadOutcome> {
    let texts = match reply {
        Reply::Number(0) => return Ok(ReadOutcome::Reset),
        other => list(other)?,
    };
    let texts = texts.into_iter().map(text).collect::<ReplyResult<Vec<_>>>()?;
    let entries = (after.saturating_add(1)..).zip(texts);
    let entries = entries.map(|(position, text)| Some((position, entry_text::decode(&text)?)));
    // If an entry does not say clearly which messages there are, the receiver begins again.
    Ok(entries.collect::<Option<_>>().map_or(ReadOutcome::Reset, ReadOutcome::Entries))
}

/// Reads a note's entry; `None`: the user has no inbox.
pub(super) fn noted(reply: Reply) -> ReplyResult<Option<NotedReply>> {
    let values = match reply {
        Reply::Number(0) => return Ok(None),
        other => list(other)?,
    };
    let (now, nodes, entry) = match &values[..] {
        [now, nodes] => (now, nodes, None),
        [now, nodes, generation, position] => {
            let generation = parsed(generation)?;
            (now, nodes, Some(EntryPosition { generation, position: unsigned(number(position)?)? }))
        }
        _ => return Err(MALFORMED),
    };
    Ok(Some(NotedReply { nodes: nodes_at(nodes, number(now)?)?, entry }))
}

/// Reads the nodes that an answer names.
pub(super) fn nodes(reply: Reply) -> ReplyResult<Vec<NodeName>> {
    match &list(reply)?[..] {
        [now, nodes] => nodes_at(nodes, number(now)?),
        _ => Err(MALFORMED),
    }
}

/// Reads which of a run's users have receivers, and on which nodes.
pub(super) fn receiving(reply: Reply, run: &[UserId]) -> ReplyResult<BTreeMap<UserId, Vec<NodeName>>> {
    let values = list(reply)?;
    let [now, found @ ..] = &values[..] else { return Err(MALFORMED) };
    let (now, mut receiving) = (number(now)?, BTreeMap::new());
    for pair in found.chunks(2) {
        let [index, nodes] = pair else { return Err(MALFORMED) };
        let user = run.get(size(index)?.wrapping_sub(1)).ok_or(MALFORMED)?;
        receiving.insert(*user, nodes_at(nodes, now)?);
    }
    receiving.retain(|_, nodes| !nodes.is_empty());
    Ok(receiving)
}

/// Checks the answer of a script without a result.
pub(super) fn done(reply: &Reply) -> ReplyResult<()> {
    if number(reply)? == 0 { Ok(()) } else { Err(MALFORMED) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::inbox::Entry;

    fn word(text: &'static str) -> Reply {
        Reply::Text(Bytes::from_static(text.as_bytes()))
    }

    fn node(name: &str) -> NodeName {
        name.parse().unwrap()
    }

    fn of(values: &[Reply]) -> Reply {
        Reply::List(values.to_vec())
    }

    const NOW: Reply = Reply::Number(1_000);

    #[test]
    fn opening_is_read() {
        let new = of(&[Reply::Number(1), word("77"), Reply::Number(0), Reply::Number(0)]);
        let last = EntryPosition { generation: 77, position: 0 };
        assert_eq!(opened(new), Ok(OpenedReply { made: Some(GenerationReason::New), last, complete: false }));
        let found = of(&[Reply::Number(0), word("77"), word("12"), Reply::Number(1)]);
        let last = EntryPosition { generation: 77, position: 12 };
        assert_eq!(opened(found), Ok(OpenedReply { made: None, last, complete: true }));
        let wrong = of(&[Reply::Number(3), word("77"), word("12"), Reply::Number(1)]);
        assert_eq!(opened(wrong), Err(MALFORMED));
    }

    #[test]
    fn marks_are_read() {
        let numbers = [4, 1, 6, 9].map(Reply::Number);
        let values = [&[NOW, word("1001 a")], &numbers[..]].concat();
        let expected =
            MarkedReply { nodes: vec![node("a")], position: 4, written: 1, conversations: 6, marks: vec![9] };
        assert_eq!(marked(of(&values), 1), Ok(Some(expected)));
        assert_eq!(marked(of(&values), 2), Err(MALFORMED));
        assert_eq!(marked(Reply::Number(0), 1), Ok(None));
    }

    #[test]
    fn entries_are_read() {
        let range = Entry::Range { conversation: "g9".parse().unwrap(), first: Some(1), last: 2 };
        let texts = of(&[word("m g9 1 2"), word("z later")]);
        assert_eq!(read_outcome(texts, 4), Ok(ReadOutcome::Entries(vec![(5, range), (6, Entry::Unknown)])));
        assert_eq!(read_outcome(of(&[]), 4), Ok(ReadOutcome::Entries(Vec::new())));
        assert_eq!(read_outcome(Reply::Number(0), 4), Ok(ReadOutcome::Reset));
        assert_eq!(read_outcome(of(&[word("m g9 2 1")]), 4), Ok(ReadOutcome::Reset), "a damaged range");
        assert_eq!(read_outcome(of(&[Reply::Number(1)]), 4), Err(MALFORMED));
    }

    #[test]
    fn note_is_read() {
        let entry = Some(EntryPosition { generation: 77, position: 3 });
        let noted_at = noted(of(&[NOW, word("1001 a"), word("77"), Reply::Number(3)]));
        assert_eq!(noted_at, Ok(Some(NotedReply { nodes: vec![node("a")], entry })));
        let ended = noted(of(&[NOW, word("1001 a")]));
        assert_eq!(ended, Ok(Some(NotedReply { nodes: vec![node("a")], entry: None })));
        assert_eq!(noted(Reply::Number(0)), Ok(None));
        assert_eq!(nodes(of(&[NOW, word("1001 a 1000 b")])), Ok(vec![node("a")]));
        assert_eq!(nodes(of(&[NOW])), Err(MALFORMED));
    }
}
