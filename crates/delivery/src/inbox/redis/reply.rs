//! The replies of scripts. A reply with an invalid form is refused.

use std::collections::BTreeMap;

use bytes::Bytes;
use kith_cache::remote::redis::Reply;
use kith_store::{NodeName, Seq, UserId};

use crate::{
    inbox::{Position, ReadOutcome, entry_text},
    metrics::GenerationReason,
    redis::values::{MALFORMED, ReplyResult, list, nodes_at, number, text},
};

/// The answers from one run of a fan-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FanOutReplies {
    /// The number of users, counted from the first, that the run has handled.
    pub(super) users: usize,
    /// How many of the other users have an inbox.
    pub(super) left: usize,
    /// The answers of the inboxes, each with the index of its user, by rising index.
    pub(super) inboxes: Vec<(usize, FanOutReply)>,
}

/// The answer of an inbox to a fan-out, with the nodes that have receivers now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FanOutReply {
    Unchanged(Vec<NodeName>),
    Entered { nodes: Vec<NodeName>, entry: EntryPosition, first: Option<Seq> },
    Lost(Vec<NodeName>),
}

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

/// Reads the answers for up to `count` recipients. At least one recipient must have been handled.
pub(super) fn fan_out_replies(reply: Reply, count: usize) -> ReplyResult<FanOutReplies> {
    let mut values = list(reply)?.into_iter();
    let mut next = || values.next().ok_or(MALFORMED);
    let (now, users, left) = (number(&next()?)?, size(&next()?)?, size(&next()?)?);
    let (mut inboxes, mut first) = (Vec::new(), 0);
    while let Some(user) = values.next() {
        let user = size(&user)?.checked_sub(1).filter(|user| (first..users).contains(user));
        let (user, answer) = (user.ok_or(MALFORMED)?, values.next().ok_or(MALFORMED)?);
        inboxes.push((user, fan_out_reply(answer, now)?));
        first = user + 1;
    }
    let is_whole = (1..=count).contains(&users) && (users == count || left > 0);
    if is_whole { Ok(FanOutReplies { users, left, inboxes }) } else { Err(MALFORMED) }
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
        other => parsed(other)?,
    };
    let last = EntryPosition { generation: parsed(generation)?, position };
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
            let generation = parsed(generation.clone())?;
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

fn fan_out_reply(reply: Reply, now: i64) -> ReplyResult<FanOutReply> {
    let values = match reply {
        Reply::Text(_) => return Ok(FanOutReply::Unchanged(nodes_at(&reply, now)?)),
        other => list(other)?,
    };
    match &values[..] {
        [nodes] => Ok(FanOutReply::Lost(nodes_at(nodes, now)?)),
        [nodes, generation, position, first] => {
            let (nodes, first) = (nodes_at(nodes, now)?, number(first)?);
            let position = unsigned(number(position)?)?;
            let entry = EntryPosition { generation: parsed(generation.clone())?, position };
            Ok(FanOutReply::Entered { nodes, entry, first: (first > 0).then_some(first) })
        }
        _ => Err(MALFORMED),
    }
}

fn parsed(reply: Reply) -> ReplyResult<u64> {
    let bytes: Bytes = text(reply)?;
    std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok()).ok_or(MALFORMED)
}

fn size(reply: &Reply) -> ReplyResult<usize> {
    usize::try_from(number(reply)?).map_err(|_| MALFORMED)
}

fn unsigned(number: i64) -> ReplyResult<u64> {
    u64::try_from(number).map_err(|_| MALFORMED)
}

#[cfg(test)]
mod tests {
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
    fn fan_out_is_read() {
        let entered = of(&[word("1001 a 999 b 2000 c"), word("77"), Reply::Number(3), Reply::Number(57)]);
        let new = of(&[word(""), word("77"), Reply::Number(1), Reply::Number(0)]);
        let number = Reply::Number;
        let inboxes = [number(2), word("1001 a"), number(3), entered, number(5), new];
        let lost = [number(6), of(&[word("1001 a")])];
        let answers = [&[NOW, number(6), number(2)][..], &inboxes, &lost].concat();
        let entry = |position| EntryPosition { generation: 77, position };
        let entered_at =
            |nodes, position, first| FanOutReply::Entered { nodes, entry: entry(position), first };
        let inboxes = vec![
            (1, FanOutReply::Unchanged(vec![node("a")])),
            (2, entered_at(vec![node("a"), node("c")], 3, Some(57))),
            (4, entered_at(Vec::new(), 1, None)),
            (5, FanOutReply::Lost(vec![node("a")])),
        ];
        let replies = FanOutReplies { users: 6, left: 2, inboxes };
        assert_eq!(fan_out_replies(of(&answers), 9), Ok(replies));
        assert_eq!(fan_out_replies(of(&answers), 5), Err(MALFORMED), "of another user");
        for wrong in [word("x a"), word("1001"), of(&[]), Reply::Number(1), Reply::Nothing] {
            let answers = of(&[NOW, number(1), number(0), number(1), wrong.clone()]);
            assert_eq!(fan_out_replies(answers, 1), Err(MALFORMED), "{wrong:?}");
        }
    }

    #[test]
    fn fan_out_answers_for_users_in_order() {
        let read = |numbers: &[i64], count| {
            let values = numbers.iter().map(|value| Reply::Number(*value));
            fan_out_replies(Reply::List([NOW].into_iter().chain(values).collect()), count)
        };
        assert_eq!(read(&[3, 0], 3), Ok(FanOutReplies { users: 3, left: 0, inboxes: Vec::new() }));
        assert_eq!(read(&[3, 0], 4), Err(MALFORMED), "the fourth user is left out");
        assert_eq!(read(&[0, 1], 3), Err(MALFORMED), "it would go on for ever");
        let answers = |first, second| {
            let values = [Reply::Number(3), Reply::Number(0), Reply::Number(first), word("")];
            let values = [&[NOW], &values[..], &[Reply::Number(second), word("")]].concat();
            fan_out_replies(of(&values), 3).map(|replies| replies.inboxes.len())
        };
        assert_eq!(answers(1, 3), Ok(2));
        for (first, second) in [(0, 1), (2, 2), (2, 1), (3, 4)] {
            assert_eq!(answers(first, second), Err(MALFORMED), "{first}, {second}");
        }
    }

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
