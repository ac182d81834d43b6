//! Checks the messages that receivers got.

use super::Messages;
use crate::{
    checker::report::CheckResult,
    history::{LogCopy, ReceivedMessages, ReceivedRun},
};

/// C10: each receiver gets every message in a conversation from its first message to the log's end, by rising
/// number, each once, with the content that it has in the log. Numbers that a stream reported as missed count
/// as received: the client pulls them.
pub(in crate::checker) fn check(messages: &Messages<'_>) -> CheckResult {
    let mut checked = CheckResult::new("C10 streams");
    for received in &messages.received {
        checked.count_judged();
        let log = messages.logs.get(received.conversation.as_str()).and_then(|log| log.stored);
        for text in violations(received, log) {
            let ReceivedMessages { receiver, user, conversation, .. } = received;
            checked.violation(|| format!("receiver {receiver} of user {user} in {conversation}: {text}"));
        }
    }
    checked
}

fn violations(received: &ReceivedMessages, log: Option<&LogCopy>) -> Vec<String> {
    let out_of_order =
        received.wrong.iter().map(|(expected, came)| format!("{came} came where {expected} is next"));
    let mut violations: Vec<String> = out_of_order.collect();
    let mut parts: Vec<(u64, u64)> = received.runs.iter().map(|run| (run.first, run.last)).collect();
    parts.extend(&received.missed);
    parts.sort_unstable();
    let gaps = parts.windows(2).filter(|pair| pair[0].1 + 1 != pair[1].0);
    violations.extend(gaps.map(|pair| format!("{:?} is followed by {:?}", pair[0], pair[1])));
    let Some(log) = log else { return violations };
    let (last, end) = (parts.last().map_or(0, |part| part.1), log.messages.last().map_or(0, |last| last.seq));
    if last != end {
        violations.push(format!("the last number is {last}, and the log ends with {end}"));
    }
    let other = received.runs.iter().filter(|run| digest(log, run) != Some(run.digest));
    violations
        .extend(other.map(|run| format!("the log has other contents from {} to {}", run.first, run.last)));
    violations
}

/// The digest over the same numbers in the log; `None`: it does not have them all.
fn digest(log: &LogCopy, run: &ReceivedRun) -> Option<u64> {
    let [first, last] = [run.first, run.last].map(|seq| usize::try_from(seq).ok());
    let messages = log.messages.get(first?.checked_sub(1)?..last?)?;
    let mut own = ReceivedRun::before(run.first);
    messages.iter().for_each(|message| own.add(message.value));
    Some(own.digest)
}
