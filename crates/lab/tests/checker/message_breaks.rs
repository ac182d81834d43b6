//! Ways to damage a correct message history in one place, so that exactly one check detects it.

#![expect(clippy::ptr_arg, reason = "each has the type of a Break")]

use std::collections::BTreeMap;

use kith_lab::history::{
    DialogEnd, Event, LogCopy, LoggedMessage, MessageCall, MessageOutcome, MessageRequest, SendOutcome,
};
use rand::{rngs::StdRng, seq::IndexedRandom as _};

use crate::{
    breaks::{Break, INVENTED, pick},
    world::MS,
};

/// The check that detects each break, and the break's description.
pub(crate) const ALL: [(&str, &str, Break); 7] = [
    ("C9", "two messages are swapped at the end", messages_are_swapped),
    ("C9", "a message that was not sent is read", message_is_invented),
    ("C9", "a page leaves a message out", message_is_left_out),
    ("C9", "an answer has a wrong number", number_is_wrong),
    ("C10", "a stream leaves a message out", delivery_is_left_out),
    ("C15", "a mark falls", mark_falls),
    ("C15", "a badge counts too many", badge_is_wrong),
];

/// Two messages that differ in their values alone have each other's places. The streams of the conversation
/// are left out: they are a second copy, which C10 reads.
fn messages_are_swapped(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let stored = events.iter().filter_map(|event| match event {
        Event::Log(copy) if copy.node.is_none() => Some(copy),
        _ => None,
    });
    let pairs = stored.flat_map(pairs).collect::<Vec<_>>();
    let (conversation, one, other) = pairs.choose(random)?.clone();
    events
        .retain(|event| !matches!(event, Event::Received(received) if received.conversation == conversation));
    for event in events {
        let Event::Log(copy) = event else { continue };
        if copy.conversation == conversation {
            let values = [one, other].map(|at| copy.messages[at].value);
            [copy.messages[one].value, copy.messages[other].value] = [values[1], values[0]];
        }
    }
    Some(format!("{one} and {other} of {conversation}"))
}

/// A read returns a value that was not sent.
fn message_is_invented(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let messages = a_page(events, random, |messages| !messages.is_empty())?;
    messages.first_mut()?.value = Some(INVENTED);
    Some(format!("{:?}", messages.first()))
}

/// A page has all but one between its first and last.
fn message_is_left_out(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let rows = |messages: &Vec<LoggedMessage>| {
        messages.len() > 2 && messages.windows(2).all(|two| two[0].seq.abs_diff(two[1].seq) == 1)
    };
    let messages = a_page(events, random, rows)?;
    Some(format!("{:?}", messages.remove(1)))
}

/// An answer names a number that another message has.
fn number_is_wrong(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let sends = |call: &MessageCall| matches!(&call.outcome, MessageOutcome::Sent(sent) if sent.len() == 1);
    let call = a_call(events, random, sends)?;
    let MessageOutcome::Sent(sent) = &mut call.outcome else { return None };
    let SendOutcome::At(seq) = sent.first_mut()? else { return None };
    *seq -= 1;
    Some(format!("{call:?}"))
}

/// A stream leaves out the last message.
fn delivery_is_left_out(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let received = pick(events, random, |event| matches!(event, Event::Received(_)))?;
    let Event::Received(received) = received else { return None };
    received.runs.first_mut()?.last -= 1;
    Some(format!("{received:?}"))
}

/// An answer has a mark that is lower than a previous mark.
fn mark_falls(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let mut before: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for event in events.iter() {
        let Event::Message(call) = event else { continue };
        if let MessageOutcome::Marked(mark) = call.outcome {
            before.entry(of(call)).or_default().push((call.ended, mark));
        }
    }
    let higher = |call: &MessageCall| {
        let marks = before.get(&of(call)).into_iter().flatten();
        marks
            .filter(|(ended, _)| *ended + STALE < call.began)
            .map(|(_, mark)| *mark)
            .max()
            .filter(|mark| *mark > 0)
    };
    let call = a_call(events, random, |call| {
        matches!(call.outcome, MessageOutcome::Marked(_)) && higher(call).is_some()
    })?;
    call.outcome = MessageOutcome::Marked(higher(call)? - 1);
    Some(format!("{call:?}"))
}

/// How old an answer may be in these runs.
const STALE: u64 = 500 * MS;

/// A badge counts one too many.
fn badge_is_wrong(events: &mut Vec<Event>, random: &mut StdRng) -> Option<String> {
    let dialog = pick(events, random, |event| matches!(event, Event::Dialog(_)))?;
    let Event::Dialog(DialogEnd { unread, .. }) = dialog else { return None };
    unread.0 += 1;
    Some(format!("{unread:?}"))
}

/// A mark's user and conversation.
fn of(call: &MessageCall) -> String {
    match &call.request {
        MessageRequest::Mark { user, conversation, .. } => format!("{user} {conversation}"),
        _ => String::new(),
    }
}

fn pairs(copy: &LogCopy) -> Vec<(String, usize, usize)> {
    let like =
        |one: &LoggedMessage, other: &LoggedMessage| (one.sender, one.silent) == (other.sender, other.silent);
    let messages = copy.messages.iter().enumerate();
    let pair = |(at, message): (usize, &LoggedMessage)| {
        let other = (at + 1..copy.messages.len()).find(|other| like(message, &copy.messages[*other]))?;
        Some((copy.conversation.clone(), at, other))
    };
    messages.filter_map(pair).collect()
}

fn a_page<'a>(
    events: &'a mut [Event],
    random: &mut StdRng,
    fits: impl Fn(&Vec<LoggedMessage>) -> bool,
) -> Option<&'a mut Vec<LoggedMessage>> {
    let call = a_call(
        events,
        random,
        |call| matches!(&call.outcome, MessageOutcome::Read { messages, .. } if fits(messages)),
    )?;
    if let MessageOutcome::Read { messages, .. } = &mut call.outcome { Some(messages) } else { None }
}

fn a_call<'a>(
    events: &'a mut [Event],
    random: &mut StdRng,
    fits: impl Fn(&MessageCall) -> bool,
) -> Option<&'a mut MessageCall> {
    let event = pick(events, random, |event| matches!(event, Event::Message(call) if fits(call)))?;
    if let Event::Message(call) = event { Some(call) } else { None }
}
