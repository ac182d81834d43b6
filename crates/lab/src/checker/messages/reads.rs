//! Checks what reads return from a log.

use super::Log;
use crate::history::{LoggedMessage, MessageCall, MessageOutcome, MessageRequest, Pages};

/// Reads return what was sent before they ended and what the log has at these numbers, omit nothing, and
/// reach the number that the reader knew.
pub(super) fn check(log: &Log<'_>, report: &mut impl FnMut(String)) {
    for call in &log.reads {
        let (MessageRequest::Read { pages, at_least, .. }, MessageOutcome::Read { messages, range, more }) =
            (&call.request, &call.outcome)
        else {
            continue;
        };
        let mut violation = |text: String| {
            let MessageCall { client, node, began, .. } = call;
            report(format!("client {client} read through node {node} at {began} ns: {text}"));
        };
        if let Some(message) = messages.iter().find(|message| !is_right(log, message, call.ended)) {
            violation(format!("{message:?}, which is not of the log"));
        }
        let left_out = match pages {
            Pages::These(seqs) => {
                // A member may have joined after an event.
                let is_sent = |message: &&LoggedMessage| message.value.is_some();
                let seqs = seqs.iter().filter(|seq| !is_event(log, **seq)).copied().collect();
                left_out(
                    &Pages::These(seqs),
                    &messages.iter().filter(is_sent).copied().collect::<Vec<_>>(),
                    *range,
                    *more,
                )
            }
            pages => left_out(pages, messages, *range, *more),
        };
        if let Some(text) = left_out {
            violation(text);
        }
        let Some((min, end)) = *range else { continue };
        if end < *at_least {
            violation(format!("an end of {end}, though number {at_least} was there"));
        }
        if let Some(message) = hidden(log, min) {
            violation(format!("from {min} on, though {message:?} is before"));
        }
    }
}

/// Whether the log has it at its number. If the log is unknown, whether it was sent before `ended`.
fn is_right(log: &Log<'_>, message: &LoggedMessage, ended: u64) -> bool {
    let is_sent = message.value.is_none_or(|value| {
        let sends = log.sends.get(&value);
        sends.is_some_and(|sends| sends.began < ended && sends.draft.sender == message.sender)
    });
    is_sent && (log.stored.is_none() || stored(log, message.seq) == Some(message))
}

fn is_event(log: &Log<'_>, seq: u64) -> bool {
    stored(log, seq).is_some_and(|message| message.value.is_none())
}

/// The message in the log with this number.
fn stored<'a>(log: &Log<'a>, seq: u64) -> Option<&'a LoggedMessage> {
    log.stored?.messages.get(usize::try_from(seq.checked_sub(1)?).ok()?)
}

/// A sent message that a reader who reads from this number on does not see: before the number there may only
/// be events.
fn hidden<'a>(log: &Log<'a>, min: u64) -> Option<&'a LoggedMessage> {
    let before = log.stored?.messages.iter().take_while(|message| message.seq < min);
    before.into_iter().find(|message| message.value.is_some())
}

/// The messages that are missing from a page. A page that ends early must say that others follow.
fn left_out(
    pages: &Pages,
    messages: &[LoggedMessage],
    range: Option<(u64, u64)>,
    more: bool,
) -> Option<String> {
    let found = messages.iter().map(|message| message.seq);
    let (min, end) = range.unwrap_or((1, u64::MAX));
    let wanted: Box<dyn Iterator<Item = u64>> = match pages {
        Pages::From(first) => Box::new((*first).max(min)..=end),
        Pages::Before(0) => Box::new((min..=end).rev()),
        Pages::Before(before) => Box::new((min..=end.min(before - 1)).rev()),
        Pages::These(seqs) => {
            let mut seqs = seqs.clone();
            seqs.sort_unstable();
            seqs.dedup();
            Box::new(seqs.into_iter())
        }
    };
    let mut wanted = wanted.fuse();
    for seq in found {
        let expected = wanted.next();
        if expected != Some(seq) {
            return Some(format!("number {seq} where {expected:?} comes next"));
        }
    }
    let next = wanted.next();
    // Single numbers above the end are left out, and the answer does not contain the end.
    let is_whole = more && !messages.is_empty() || next.is_none() || matches!(pages, Pages::These(_));
    (!is_whole).then(|| format!("a page that ends before {next:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_wrong(pages: &Pages, found: &[u64], end: u64, more: bool) -> bool {
        let logged = |seq: &u64| LoggedMessage { seq: *seq, value: Some(*seq), sender: 1, silent: false };
        left_out(pages, &found.iter().map(logged).collect::<Vec<_>>(), Some((1, end)), more).is_some()
    }

    #[test]
    fn page_has_all_from_its_first_number_on() {
        let from = Pages::From(3);
        assert!(!is_wrong(&from, &[3, 4, 5], 5, false) && !is_wrong(&from, &[3, 4], 5, true));
        assert!(is_wrong(&from, &[3, 4], 5, false) && is_wrong(&from, &[3, 5], 5, false));
        assert!(is_wrong(&from, &[4, 5], 5, false) && is_wrong(&from, &[], 5, true));
        assert!(!is_wrong(&from, &[], 2, false) && is_wrong(&from, &[3], 2, false));
    }

    #[test]
    fn page_backwards_begins_at_the_end() {
        assert!(
            !is_wrong(&Pages::Before(0), &[5, 4], 5, true) && !is_wrong(&Pages::Before(3), &[2, 1], 5, false)
        );
        assert!(is_wrong(&Pages::Before(0), &[4, 3], 5, true) && is_wrong(&Pages::Before(3), &[2], 5, false));
    }

    #[test]
    fn single_numbers_are_left_out_from_the_end_only() {
        let these = Pages::These(vec![7, 2, 2]);
        assert!(!is_wrong(&these, &[2, 7], 9, false) && !is_wrong(&these, &[2], 9, false));
        assert!(is_wrong(&these, &[7], 9, false) && is_wrong(&these, &[2, 3], 9, false));
    }
}
