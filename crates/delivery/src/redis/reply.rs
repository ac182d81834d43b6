//! Script replies. A reply with an invalid form is refused.

use std::time::Duration;

use bytes::Bytes;
use kith_cache::remote::redis::Reply;
use kith_store::NodeName;

use super::values::{MALFORMED, ReplyResult, list, nodes_at, number, text};
use crate::{DropReason, FillOutcome, HeadLookup, ServerTime, Span, WindowLookup, WindowSnapshot, metrics};

/// An answer, and the server's time when it was given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Timed<T> {
    pub(super) answer: T,
    pub(super) at: ServerTime,
}

pub(super) fn lookup(reply: Reply, epoch: u64, asked: Span) -> ReplyResult<Timed<WindowLookup>> {
    let mut values = list(reply)?.into_iter();
    let mut next = || values.next().ok_or(MALFORMED);
    let (code, at) = (number(&next()?)?, time(&next()?, epoch)?);
    count_dropped(&next()?)?;
    let lookup = match code {
        0 => {
            let (span, age) = (span(&next()?, &next()?)?, age(&next()?)?);
            let entries = entries(next()?, asked.overlap(span).count())?;
            WindowLookup::Hit { window: WindowSnapshot { at, span, age }, entries }
        }
        1 => WindowLookup::Miss { at },
        2 => WindowLookup::Busy,
        3 => WindowLookup::Held,
        _ => return Err(MALFORMED),
    };
    Ok(Timed { answer: lookup, at })
}

pub(super) fn fill_outcome(reply: Reply, epoch: u64) -> ReplyResult<Timed<FillOutcome>> {
    let values = list(reply)?;
    let [code, now] = &values[..] else { return Err(MALFORMED) };
    let fill_outcome = match number(code)? {
        0 => FillOutcome::Stored,
        1 => FillOutcome::Lost,
        2 => FillOutcome::Below,
        _ => return Err(MALFORMED),
    };
    Ok(Timed { answer: fill_outcome, at: time(now, epoch)? })
}

/// A script's answer if it only changes: its time, and maybe why it dropped the window.
pub(super) fn changed(reply: Reply, epoch: u64) -> ReplyResult<Timed<()>> {
    let values = list(reply)?;
    let [now, dropped @ ..] = &values[..] else { return Err(MALFORMED) };
    dropped.iter().try_for_each(count_dropped)?;
    Ok(Timed { answer: (), at: time(now, epoch)? })
}

/// An append's answer: its time, why it dropped the window, and the nodes that read the conversation.
pub(super) fn appended(reply: Reply, epoch: u64) -> ReplyResult<Timed<Vec<NodeName>>> {
    let values = list(reply)?;
    let [now, dropped, nodes] = &values[..] else { return Err(MALFORMED) };
    count_dropped(dropped)?;
    Ok(Timed { answer: nodes_at(nodes, number(now)?)?, at: time(now, epoch)? })
}

/// A script's answers for this many windows.
pub(super) fn heads(
    reply: ReplyResult<Reply>,
    epoch: u64,
    count: usize,
) -> Vec<ReplyResult<Timed<HeadLookup>>> {
    let answers = reply.and_then(list);
    match answers.and_then(|answers| (answers.len() == count).then_some(answers).ok_or(MALFORMED)) {
        Ok(answers) => answers.into_iter().map(|answer| head(answer, epoch)).collect(),
        Err(why) => (0..count).map(|_| Err(why)).collect(),
    }
}

fn head(reply: Reply, epoch: u64) -> ReplyResult<Timed<HeadLookup>> {
    let mut values = list(reply)?.into_iter();
    let mut next = || values.next().ok_or(MALFORMED);
    let (code, at) = (number(&next()?)?, time(&next()?, epoch)?);
    count_dropped(&next()?)?;
    let head = match code {
        0 => {
            let (span, age) = (span(&next()?, &next()?)?, age(&next()?)?);
            let last = Some(text(next()?)?).filter(|_| span.last > 0);
            HeadLookup::Hit { window: WindowSnapshot { at, span, age }, last, headers: text(next()?)? }
        }
        1 => HeadLookup::Miss { lease: (number(&next()?)? == 1).then_some(at) },
        3 => HeadLookup::Held,
        _ => return Err(MALFORMED),
    };
    Ok(Timed { answer: head, at })
}

fn time(reply: &Reply, epoch: u64) -> ReplyResult<ServerTime> {
    let ms = number(reply)?;
    if ms > 0 { Ok(ServerTime { epoch, ms }) } else { Err(MALFORMED) }
}

fn span(first: &Reply, last: &Reply) -> ReplyResult<Span> {
    let span = Span { first: number(first)?, last: number(last)? };
    let is_span = span.last >= 0 && (1..=span.last + 1).contains(&span.first);
    if is_span { Ok(span) } else { Err(MALFORMED) }
}

/// Reads an age; a number below 0 means that it is not known.
fn age(reply: &Reply) -> ReplyResult<Option<Duration>> {
    Ok(u64::try_from(number(reply)?).ok().map(Duration::from_millis))
}

fn entries(reply: Reply, count: usize) -> ReplyResult<Vec<Bytes>> {
    let entries = list(reply)?.into_iter().map(text).collect::<ReplyResult<Vec<_>>>()?;
    if entries.len() == count { Ok(entries) } else { Err(MALFORMED) }
}

fn count_dropped(why: &Reply) -> ReplyResult<()> {
    let why = match number(why)? {
        0 => return Ok(()),
        1 => DropReason::Gap,
        2 => DropReason::Change,
        3 => DropReason::Hold,
        4 => DropReason::Behind,
        5 => DropReason::Evicted,
        _ => return Err(MALFORMED),
    };
    metrics::count_drop(why);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Span = Span { first: 2, last: 9 };

    fn numbers(numbers: &[i64]) -> Vec<Reply> {
        numbers.iter().copied().map(Reply::Number).collect()
    }

    fn texts(count: usize) -> Reply {
        Reply::List((0..count).map(|_| Reply::Text(Bytes::from_static(b"x"))).collect())
    }

    fn hit(values: &[i64], entries: Reply) -> ReplyResult<Timed<WindowLookup>> {
        let mut values = numbers(values);
        values.push(entries);
        lookup(Reply::List(values), 5, ASKED)
    }

    #[test]
    fn window_is_read() {
        let at = ServerTime { epoch: 5, ms: 1_000 };
        let lookup = hit(&[0, 1_000, 0, 1, 3, 40], texts(2)).unwrap().answer;
        let (span, age) = (Span { first: 1, last: 3 }, Some(Duration::from_millis(40)));
        let entries = vec![Bytes::from_static(b"x"); 2];
        assert_eq!(lookup, WindowLookup::Hit { window: WindowSnapshot { at, span, age }, entries });
        let empty = hit(&[0, 1_000, 5, 1, 0, -1], texts(0)).unwrap().answer;
        let window = WindowSnapshot { at, span: Span { first: 1, last: 0 }, age: None };
        assert_eq!(empty, WindowLookup::Hit { window, entries: Vec::new() });
    }

    #[test]
    fn answer_in_another_form_is_not_believed() {
        let refused = |answer: ReplyResult<Timed<WindowLookup>>| assert_eq!(answer.unwrap_err(), MALFORMED);
        for entries in [1, 3] {
            refused(hit(&[0, 1_000, 0, 1, 3, 40], texts(entries)));
        }
        refused(hit(&[0, 1_000, 0, 1, 3, 40], Reply::Nothing));
        // A first number beyond the end or below 1, an end below 0, no time, unknown codes.
        for malformed in
            [[0, 1_000, 0, 5, 3, 40], [0, 1_000, 0, 0, 3, 40], [0, 1_000, 0, 1, -1, 40], [0, 0, 0, 1, 3, 40]]
        {
            refused(hit(&malformed, texts(2)));
        }
        for malformed in [&[4, 1_000, 0][..], &[1, 1_000, 6], &[1, 1_000], &[1], &[]] {
            refused(lookup(Reply::List(numbers(malformed)), 5, ASKED));
        }
        refused(lookup(Reply::Number(1), 5, ASKED));
        assert_eq!(fill_outcome(Reply::List(numbers(&[3, 1_000])), 5), Err(MALFORMED));
        assert_eq!(changed(Reply::List(Vec::new()), 5), Err(MALFORMED));
        assert_eq!(appended(Reply::List(numbers(&[1_000, 0])), 5), Err(MALFORMED));
        assert_eq!(head(Reply::List(numbers(&[2, 1_000])), 5), Err(MALFORMED));
    }
}
