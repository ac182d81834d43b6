//! Calls about messages, grouped by conversation. Numbers give the order: the log at the end has each message
//! at its number.

mod answers;
mod log;
mod marks;
mod reads;
mod streams;

use std::collections::{BTreeMap, HashMap};

pub(super) use self::{answers::codes, log::check as log, marks::check as marks, streams::check as streams};
use super::shown::ShownSince;
use crate::history::{
    DialogEnd, Draft, Event, LogCopy, MessageCall, MessageOutcome, MessageRequest, ReceivedMessages,
    SendOutcome,
};

/// Everything about messages.
#[derive(Debug, Default)]
pub(super) struct Messages<'a> {
    /// Ordered by their begin.
    calls: Vec<&'a MessageCall>,
    logs: BTreeMap<&'a str, Log<'a>>,
    marks: BTreeMap<(i64, &'a str), ReadMarks<'a>>,
    received: Vec<&'a ReceivedMessages>,
}

/// Everything about one conversation.
#[derive(Debug, Default)]
struct Log<'a> {
    /// All sends, by value.
    sends: HashMap<u64, Sends<'a>, ahash::RandomState>,
    /// Reads that were answered.
    reads: Vec<&'a MessageCall>,
    /// The log in the database at the end. `None`: it is not in the history.
    stored: Option<&'a LogCopy>,
    /// The log as it was read through nodes.
    copies: Vec<&'a LogCopy>,
}

/// All sends with one message.
#[derive(Debug)]
struct Sends<'a> {
    draft: &'a Draft,
    /// When the first one began.
    began: u64,
    times: u32,
    /// Acknowledged numbers, each with the time when the answer came.
    acks: Vec<(u64, u64)>,
}

/// Everything about a user's read mark in one conversation.
#[derive(Debug, Default)]
struct ReadMarks<'a> {
    /// Calls that set or read the mark.
    calls: Vec<&'a MessageCall>,
    ends: Vec<&'a DialogEnd>,
}

impl<'a> Messages<'a> {
    pub(super) fn new(events: &'a [Event]) -> Self {
        let mut messages = Self::default();
        for event in events {
            match event {
                Event::Message(call) => messages.calls.push(call),
                Event::Log(copy) => messages.add_copy(copy),
                Event::Dialog(end) => messages.marks_of(end.user, &end.conversation).ends.push(end),
                Event::Received(received) => messages.received.push(received),
                _ => {}
            }
        }
        messages.calls.sort_by_key(|call| (call.began, call.ended));
        for call in messages.calls.clone() {
            messages.add_call(call);
        }
        messages
    }

    /// Reads that show a log's end: when each began and ended, the conversation, and for how long a message
    /// above its end had been acknowledged then.
    pub(super) fn ages(&self) -> impl Iterator<Item = (&'a MessageCall, &'a str, u64)> {
        self.logs.iter().flat_map(|(conversation, log)| {
            let acks = log.sends.values().flat_map(|sends| sends.acks.iter().copied());
            let acknowledged = ShownSince::new(acks.collect());
            log.reads.iter().filter_map(move |call| {
                let MessageOutcome::Read { range: Some((_, end)), .. } = call.outcome else { return None };
                Some((*call, *conversation, acknowledged.age(end, call.began)))
            })
        })
    }

    fn add_copy(&mut self, copy: &'a LogCopy) {
        let log = self.logs.entry(&copy.conversation).or_default();
        if copy.node.is_none() {
            log.stored = Some(copy);
        } else {
            log.copies.push(copy);
        }
    }

    fn add_call(&mut self, call: &'a MessageCall) {
        match &call.request {
            MessageRequest::Send(drafts) => self.add_sends(call, drafts),
            MessageRequest::Read { conversation, .. } => {
                if matches!(call.outcome, MessageOutcome::Read { .. }) {
                    self.logs.entry(conversation).or_default().reads.push(call);
                }
            }
            MessageRequest::Mark { user, conversation, .. } => {
                self.marks_of(*user, conversation).calls.push(call);
            }
        }
    }

    fn add_sends(&mut self, call: &'a MessageCall, drafts: &'a [Draft]) {
        for (at, draft) in drafts.iter().enumerate() {
            let log = self.logs.entry(&draft.conversation).or_default();
            let new = Sends { draft, began: call.began, times: 0, acks: Vec::new() };
            let sends = log.sends.entry(draft.value).or_insert(new);
            sends.times += 1;
            if let Some(seq) = number(call, at) {
                sends.acks.push((seq, call.ended));
            }
        }
    }

    fn marks_of(&mut self, user: i64, conversation: &'a str) -> &mut ReadMarks<'a> {
        self.marks.entry((user, conversation)).or_default()
    }
}

impl Log<'_> {
    /// The known numbers for values: from the log, or else from acknowledgements.
    fn numbers(&self) -> HashMap<u64, u64, ahash::RandomState> {
        if let Some(stored) = self.stored {
            let numbers = stored.messages.iter().filter_map(|message| Some((message.value?, message.seq)));
            return numbers.collect();
        }
        let sends = self.sends.iter();
        sends.filter_map(|(value, sends)| Some((*value, sends.acks.first()?.0))).collect()
    }
}

/// The number that a call acknowledged for the message at this place in its request.
fn number(call: &MessageCall, at: usize) -> Option<u64> {
    match &call.outcome {
        MessageOutcome::Sent(results) => match results.get(at) {
            Some(SendOutcome::At(seq)) => Some(*seq),
            _ => None,
        },
        _ => None,
    }
}
