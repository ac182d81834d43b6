//! Read marks, and the unread counts that follow from them.

use super::{Log, Messages, ReadMarks};
use crate::{
    checker::{report::CheckResult, shown::ShownSince},
    history::{DialogEnd, LogCopy, MessageCall, MessageOutcome, MessageRequest},
};

/// How many messages at a log's end are counted for a list, and for a count.
const OF_LIST: u64 = 100;
const OF_COUNT: u64 = 1_000;

/// C15: a mark that was acknowledged is never lost: the mark at the end is at least as high, and so is each
/// answer. The answer to a mark may be as old as a cached read, but is not below the requested mark. The mark
/// is no higher than what its user marked or sent. The unread count at the end follows from the log and the
/// mark. `bound`: how old a read of this time may be.
pub(in crate::checker) fn check(messages: &Messages<'_>, bound: impl Fn([u64; 2]) -> u64) -> CheckResult {
    let mut checked = CheckResult::new("C15 read marks");
    for ((user, conversation), marks) in &messages.marks {
        let mut violation =
            |text: String| checked.violation(|| format!("user {user} in {conversation}: {text}"));
        rising(marks, &bound, &mut violation);
        if let Some(log) = messages.logs.get(conversation) {
            marks.ends.iter().for_each(|end| at_the_end(*user, marks, log, end, &mut violation));
        }
        answers(marks).for_each(|_| checked.count_judged());
        marks.ends.iter().for_each(|_| checked.count_judged());
    }
    checked
}

/// Answers, each with its mark.
fn answers<'a>(marks: &ReadMarks<'a>) -> impl Iterator<Item = (&'a MessageCall, u64)> {
    marks.calls.iter().filter_map(|call| match call.outcome {
        MessageOutcome::Marked(mark) => Some((*call, mark)),
        _ => None,
    })
}

fn rising(marks: &ReadMarks<'_>, bound: impl Fn([u64; 2]) -> u64, violation: &mut impl FnMut(String)) {
    let acknowledged = ShownSince::new(answers(marks).map(|(call, mark)| (mark, call.ended)).collect());
    for (call, mark) in answers(marks) {
        let MessageCall { client, node, began, ended, .. } = call;
        let age = acknowledged.age(mark, *began);
        let most = if asked(call) == 0 { 0 } else { bound([*began, *ended]) };
        if age > most {
            violation(format!(
                "the mark is {mark} by node {node} for client {client} at {began} ns, and was higher {age} ns before"
            ));
        }
    }
    // Messages before the user's membership cannot be marked.
    let min = marks.ends.first().map_or(1, |end| end.min);
    for (call, mark) in answers(marks) {
        if mark < asked(call) && asked(call) >= min {
            violation(format!("the mark is {mark} after {:?} at {} ns", call.request, call.began));
        }
    }
}

/// The number up to which a call marks; 0: it only reads.
const fn asked(call: &MessageCall) -> u64 {
    if let MessageRequest::Mark { up_to, .. } = call.request { up_to } else { 0 }
}

fn at_the_end(
    user: i64,
    marks: &ReadMarks<'_>,
    log: &Log<'_>,
    end: &DialogEnd,
    violation: &mut impl FnMut(String),
) {
    let Some(stored) = log.stored else { return };
    let acknowledged = answers(marks).map(|(_, mark)| mark).max().unwrap_or_default();
    let sent = stored.messages.iter().filter(|message| message.value.is_some() && message.sender == user);
    let own = sent.map(|message| message.seq).max().unwrap_or_default();
    let most = marks.calls.iter().map(|call| asked(call)).max().unwrap_or_default().max(own);
    if !(acknowledged..=most).contains(&end.read_seq) {
        let mark = end.read_seq;
        violation(format!(
            "the mark is {mark} at the end; {acknowledged} was acknowledged, at most {most} marked"
        ));
    }
    let expected = [OF_LIST, OF_COUNT].map(|window| unread(user, stored, end, window));
    if [end.unread, end.counted] != expected {
        violation(format!("{end:?}, and by the log {expected:?} are unread"));
    }
    let last = stored.messages.last().map_or(0, |last| last.seq);
    if end.max != last {
        violation(format!("{end:?}, and the log ends with {last}"));
    }
}

/// How many of the log's last messages are unread, and whether there may be others before.
fn unread(user: i64, stored: &LogCopy, end: &DialogEnd, window: u64) -> (u64, bool) {
    let read = end.read_seq.max(end.min.saturating_sub(1));
    let first = (read + 1).max((end.max + 1).saturating_sub(window));
    let counts = stored.messages.iter().filter(|message| {
        let of_others = message.value.is_some() && message.sender != user;
        (first..=end.max).contains(&message.seq) && of_others && !message.silent
    });
    (u64::try_from(counts.count()).unwrap_or(u64::MAX), read + window < end.max)
}
