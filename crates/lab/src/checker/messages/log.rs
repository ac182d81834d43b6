//! Compares the log at the end with the acknowledged messages.

use std::collections::{BTreeMap, HashMap};

use super::{Log, Messages, number, reads};
use crate::{
    checker::{report::CheckResult, shown::ShownUntil},
    history::{Draft, LogCopy, LoggedMessage, MessageCall, MessageRequest},
};

/// C9: each acknowledged message is in the log at its number with its content, once. The log has no gap and
/// nothing that was not sent. A message has a higher number than every message that was acknowledged before
/// its first send began, and than the messages before it in its batch. Reads return what the log has at these
/// numbers, omit nothing, and reach the number that the reader knew. Each user may read the whole log.
pub(in crate::checker) fn check(messages: &Messages<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C9 messages");
    for (conversation, log) in &messages.logs {
        let mut violation = |text: String| checked.violation(|| format!("{conversation}: {text}"));
        if let Some(stored) = log.stored {
            holes(stored, &mut violation);
            contents(log, stored, &mut violation);
            acknowledged(log, stored, &mut violation);
            copies(log, stored, &mut violation);
        }
        real_time(log, &mut violation);
        reads::check(log, &mut violation);
        log.sends.iter().filter(|(_, sends)| !sends.acks.is_empty()).for_each(|_| checked.count_judged());
    }
    for call in &messages.calls {
        batch(messages, call, &mut checked);
    }
    checked
}

/// Numbers rise by 1, starting at 1. Only the first violation is reported: all after it are wrong, too.
fn holes(stored: &LogCopy, violation: &mut impl FnMut(String)) {
    let mut numbered = (1..).zip(&stored.messages);
    if let Some((expected, found)) = numbered.find(|(expected, message)| *expected != message.seq) {
        violation(format!("number {expected} is missing, {} comes next", found.seq));
    }
}

/// Each message has the content that was sent, and is there once.
fn contents(log: &Log<'_>, stored: &LogCopy, violation: &mut impl FnMut(String)) {
    let mut seen: HashMap<u64, u64, ahash::RandomState> = HashMap::default();
    for message in &stored.messages {
        let Some(value) = message.value else { continue };
        if !log.sends.get(&value).is_some_and(|sends| is_of(message, sends.draft)) {
            violation(format!("{message:?} is stored, and was not sent"));
        }
        if let Some(before) = seen.insert(value, message.seq) {
            violation(format!("value {value} is stored with the numbers {before} and {}", message.seq));
        }
    }
}

fn acknowledged(log: &Log<'_>, stored: &LogCopy, violation: &mut impl FnMut(String)) {
    let by_number: HashMap<u64, &LoggedMessage, ahash::RandomState> =
        stored.messages.iter().map(|message| (message.seq, message)).collect();
    let sends: BTreeMap<_, _> = log.sends.iter().collect();
    for (value, sends) in sends {
        for (seq, ended) in &sends.acks {
            let found = by_number.get(seq).filter(|message| message.value == Some(*value));
            if found.is_none() {
                let there = by_number.get(seq);
                violation(format!(
                    "value {value} was acknowledged at {ended} ns with the number {seq}, where {there:?} is"
                ));
            }
        }
    }
}

/// Reads through the nodes at the end return what the database has.
fn copies(log: &Log<'_>, stored: &LogCopy, violation: &mut impl FnMut(String)) {
    for copy in &log.copies {
        let (read, there) = (&copy.messages, &stored.messages);
        let differs = (0..read.len().max(there.len())).find(|at| read.get(*at) != there.get(*at));
        if let Some(at) = differs {
            let (read, there) = (read.get(at), there.get(at));
            violation(format!("node {:?} reads {read:?} at the end, where {there:?} is stored", copy.node));
        }
    }
}

fn real_time(log: &Log<'_>, violation: &mut impl FnMut(String)) {
    let numbers = log.numbers();
    let acknowledged = ShownUntil::new(log.sends.values().flat_map(|sends| sends.acks.iter().copied()));
    let mut sends: Vec<_> = log.sends.iter().map(|(value, sends)| (sends.began, *value)).collect();
    sends.sort_unstable();
    for (began, value) in sends {
        let (Some(number), farthest) = (numbers.get(&value), acknowledged.before(began)) else { continue };
        if *number < farthest {
            violation(format!(
                "value {value} has number {number}, though number {farthest} was acknowledged before {began} ns, \
                 when it was sent"
            ));
        }
    }
}

/// Messages in one batch and conversation that were not sent again have rising numbers.
fn batch(messages: &Messages<'_>, call: &MessageCall, checked: &mut CheckResult) {
    let MessageRequest::Send(drafts) = &call.request else { return };
    let mut last: HashMap<&str, u64, ahash::RandomState> = HashMap::default();
    for (at, draft) in drafts.iter().enumerate().filter(|_| drafts.len() > 1) {
        let once = messages.logs.get(draft.conversation.as_str()).and_then(|log| log.sends.get(&draft.value));
        let Some(seq) = number(call, at).filter(|_| once.is_some_and(|sends| sends.times == 1)) else {
            continue;
        };
        let before = last.insert(&draft.conversation, seq).unwrap_or_default();
        if before >= seq {
            checked.violation(|| {
                let Draft { conversation, value, .. } = draft;
                format!("{conversation}: value {value} has number {seq}, after {before} of the same batch")
            });
        }
    }
}

fn is_of(message: &LoggedMessage, draft: &Draft) -> bool {
    (message.sender, message.silent) == (draft.sender, draft.silent)
}
