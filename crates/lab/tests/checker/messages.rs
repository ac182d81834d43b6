//! Each broken rule about messages is noticed. The log has three users; times are milliseconds.

use kith_lab::history::{
    DialogEnd, Draft, Event, LogCopy, LoggedMessage, MessageCall, MessageOutcome, MessageRequest, Pages,
    ReceivedMessages, ReceivedRun, SendOutcome,
};

use crate::builder::{Case, HistoryBuilder, MS, SOUND, assert_judged};

const GROUP: &str = "g1";

fn call(began: u64, request: MessageRequest, outcome: MessageOutcome) -> Event {
    let (began, ended) = (began * MS, (began + 5) * MS);
    Event::Message(MessageCall { client: 1, node: 0, began, ended, request, outcome })
}

fn draft(value: u64) -> Draft {
    let sender = i64::try_from(value % 3).unwrap() + 1;
    Draft { conversation: GROUP.to_owned(), sender, value, silent: false }
}

/// Messages with these values are sent by one call, and get these numbers.
fn sends(began: u64, messages: &[(u64, u64)]) -> Event {
    let drafts = messages.iter().map(|(value, _)| draft(*value)).collect();
    let sent = messages.iter().map(|(_, seq)| SendOutcome::At(*seq)).collect();
    call(began, MessageRequest::Send(drafts), MessageOutcome::Sent(sent))
}

fn open(began: u64, value: u64) -> Event {
    let outcome = MessageOutcome::Open("UNAVAILABLE".to_owned());
    call(began, MessageRequest::Send(vec![draft(value)]), outcome)
}

fn logged(seq: u64, value: u64) -> LoggedMessage {
    LoggedMessage { seq, value: Some(value), sender: draft(value).sender, silent: false }
}

fn copy(node: Option<u32>, messages: Vec<LoggedMessage>) -> Event {
    Event::Log(LogCopy { conversation: GROUP.to_owned(), node, messages })
}

/// The log at the end in the store, by number and value.
fn log(messages: &[(u64, u64)]) -> Event {
    copy(None, messages.iter().map(|(seq, value)| logged(*seq, *value)).collect())
}

/// A read with these numbers and values, by a user who may read up to `end` and knows `at_least` to exist.
fn reads(began: u64, pages: Pages, at_least: u64, messages: &[(u64, u64)], end: u64) -> Event {
    let request = MessageRequest::Read { user: 1, conversation: GROUP.to_owned(), pages, at_least };
    let messages = messages.iter().map(|(seq, value)| logged(*seq, *value)).collect();
    call(began, request, MessageOutcome::Read { messages, range: Some((1, end)), more: false })
}

fn marks(began: u64, up_to: u64, mark: u64) -> Event {
    let request = MessageRequest::Mark { user: 1, conversation: GROUP.to_owned(), up_to };
    call(began, request, MessageOutcome::Marked(mark))
}

fn dialog(read_seq: u64, unread: u64) -> Event {
    let (conversation, unread) = (GROUP.to_owned(), (unread, false));
    Event::Dialog(DialogEnd {
        user: 1,
        conversation,
        node: 0,
        read_seq,
        min: 1,
        max: 3,
        unread,
        counted: unread,
    })
}

/// User 2 got these messages, by number and value, in contiguous runs.
fn received(runs: &[&[(u64, u64)]], missed: &[(u64, u64)], wrong: &[(u64, u64)]) -> Event {
    let run = |messages: &&[(u64, u64)]| {
        let mut run = ReceivedRun::before(messages[0].0);
        messages.iter().for_each(|(_, value)| run.add(Some(*value)));
        run
    };
    Event::Received(ReceivedMessages {
        receiver: 1,
        user: 2,
        conversation: GROUP.to_owned(),
        runs: runs.iter().map(run).collect(),
        missed: missed.to_vec(),
        wrong: wrong.to_vec(),
    })
}

/// Three messages are sent in sequence: values 11, 12 and 13.
fn sent() -> Vec<Event> {
    vec![sends(10, &[(11, 1)]), sends(20, &[(12, 2)]), sends(30, &[(13, 3)])]
}

fn fault() -> Vec<Event> {
    HistoryBuilder::default().fault("f", 1, 100).events().to_vec()
}

const WHOLE: [(u64, u64); 3] = [(1, 11), (2, 12), (3, 13)];
const C9: &[&str] = &["C9"];
const C10: &[&str] = &["C10"];
const C15: &[&str] = &["C15"];

/// Asserts the checks that fail after the three messages were sent.
fn assert_judged_after_sends<const CASES: usize>(cases: [Case<Vec<Event>>; CASES]) {
    assert_judged(cases.map(|(name, broken, events)| (name, broken, [sent(), events].concat())));
}

#[test]
fn log_at_the_end_has_what_was_acknowledged() {
    let whole = || WHOLE.map(|(seq, value)| logged(seq, value)).to_vec();
    let mut other_sender = whole();
    other_sender[1].sender += 1;
    let event = LoggedMessage { seq: 4, value: None, sender: 0, silent: true };
    let node = |messages: &[LoggedMessage]| copy(Some(1), messages.to_vec());
    assert_judged_after_sends([
        ("all messages", SOUND, vec![log(&WHOLE), node(&whole())]),
        ("an event of the service", SOUND, vec![copy(None, [whole(), vec![event]].concat())]),
        ("a message is missing", C9, vec![log(&WHOLE[..2])]),
        ("two messages at other numbers", C9, vec![log(&[(1, 11), (2, 13), (3, 12)])]),
        ("a message is there twice", C9, vec![log(&[(1, 11), (2, 12), (3, 13), (4, 12)])]),
        ("a message that was not sent", C9, vec![log(&[(1, 11), (2, 12), (3, 13), (4, 14)])]),
        ("a message of another sender", C9, vec![copy(None, other_sender)]),
        ("a node with another log", C9, vec![log(&WHOLE), node(&whole()[..2])]),
        ("a message with two numbers", C9, vec![sends(40, &[(12, 4)]), log(&WHOLE)]),
        ("the number of another message", C9, vec![sends(40, &[(14, 3)]), log(&WHOLE)]),
    ]);
    let hole = vec![sends(10, &[(11, 1)]), sends(20, &[(12, 3)]), log(&[(1, 11), (3, 12)])];
    assert_judged([("a number is missing", C9, hole)]);
}

#[test]
fn open_send_may_be_stored_or_not() {
    let with = |end: &[(u64, u64)]| [fault(), vec![open(40, 14), log(end)]].concat();
    assert_judged_after_sends([
        ("not stored", SOUND, with(&WHOLE)),
        ("stored", SOUND, with(&[(1, 11), (2, 12), (3, 13), (4, 14)])),
    ]);
}

#[test]
fn numbers_follow_the_order_of_sends() {
    let swapped = || log(&[(1, 12), (2, 11)]);
    let late = || vec![sends(10, &[(11, 2)]), sends(20, &[(12, 1)])];
    let open_late = vec![sends(10, &[(11, 2)]), open(20, 12), swapped()];
    let resent = vec![open(8, 12), sends(10, &[(11, 2)]), sends(20, &[(12, 1)]), swapped()];
    assert_judged([
        ("sent after the acknowledgement of another", C9, [late(), vec![swapped()]].concat()),
        ("the same of a log that is not known", C9, late()),
        ("the same of an open send", C9, [fault(), open_late].concat()),
        ("sent at one time", SOUND, vec![sends(10, &[(11, 2)]), sends(14, &[(12, 1)]), swapped()]),
        ("sent again, and first before the other", SOUND, [fault(), resent].concat()),
        ("of one batch", C9, vec![sends(10, &[(11, 2), (12, 1)]), swapped()]),
    ]);
}

#[test]
fn reads_return_what_the_log_has() {
    let from = |first, messages: &[(u64, u64)]| reads(40, Pages::From(first), 0, messages, 3);
    let back = reads(50, Pages::Before(3), 0, &[(2, 12), (1, 11)], 3);
    let these = reads(60, Pages::These(vec![3, 1]), 0, &[(1, 11), (3, 13)], 3);
    let right = vec![reads(40, Pages::From(1), 3, &WHOLE, 3), back, these, log(&WHOLE)];
    let seen = || WHOLE[1..].iter().map(|(seq, value)| logged(*seq, *value)).collect();
    let hides = MessageOutcome::Read { messages: seen(), range: Some((2, 3)), more: false };
    let (user, conversation, pages) = (1, GROUP.to_owned(), Pages::From(1));
    let hides = call(40, MessageRequest::Read { user, conversation, pages, at_least: 0 }, hides);
    let early = reads(10, Pages::From(3), 0, &[(3, 13)], 3);
    assert_judged_after_sends([
        ("all pages", SOUND, right),
        ("another message", C9, vec![from(3, &[(3, 12)]), log(&WHOLE)]),
        ("one that was not sent, of a log that is not known", C9, vec![from(3, &[(3, 99)])]),
        ("a message before it is sent", C9, vec![early]),
        ("a page without a message", C9, vec![from(1, &[(1, 11), (3, 13)]), log(&WHOLE)]),
        ("a page without its end", C9, vec![from(1, &[(1, 11), (2, 12)]), log(&WHOLE)]),
        ("a range without a message", C9, vec![hides, log(&WHOLE)]),
        ("an end below a known number", C9, vec![reads(40, Pages::From(1), 3, &WHOLE[..2], 2)]),
        ("an old end", SOUND, vec![reads(40, Pages::From(1), 0, &WHOLE[..2], 2)]),
        ("an end as old as its bound", SOUND, vec![reads(134, Pages::From(1), 0, &WHOLE[..2], 2)]),
        ("an end older than its bound", &["C3"], vec![reads(136, Pages::From(1), 0, &WHOLE[..2], 2)]),
    ]);
}

#[test]
fn streams_bring_every_message_once() {
    let apart = || [&WHOLE[..1], &WHOLE[2..]];
    let other: [(u64, u64); 3] = [(1, 11), (2, 13), (3, 12)];
    assert_judged_after_sends([
        ("all messages", SOUND, vec![log(&WHOLE), received(&[&WHOLE], &[], &[])]),
        ("opened later", SOUND, vec![log(&WHOLE), received(&[&WHOLE[1..]], &[], &[])]),
        ("a missed number", SOUND, vec![log(&WHOLE), received(&apart(), &[(2, 2)], &[])]),
        ("a gap", C10, vec![log(&WHOLE), received(&apart(), &[], &[])]),
        ("a gap at the end", C10, vec![log(&WHOLE), received(&[&WHOLE[..2]], &[], &[])]),
        ("a message twice or late", C10, vec![log(&WHOLE), received(&[&WHOLE], &[], &[(3, 2)])]),
        ("other content", C10, vec![log(&WHOLE), received(&[&other], &[], &[])]),
    ]);
}

#[test]
fn marks_rise_and_are_kept() {
    let rising = vec![marks(40, 1, 1), marks(50, 2, 2), marks(60, 1, 2), marks(70, 0, 2)];
    assert_judged_after_sends([
        ("rising", SOUND, [rising, vec![log(&WHOLE), dialog(2, 1)]].concat()),
        ("falling", C15, vec![marks(40, 2, 2), marks(200, 1, 1)]),
        ("falling for the store", C15, vec![marks(40, 2, 2), marks(50, 0, 1)]),
        ("behind as a cached read may be", SOUND, vec![marks(40, 2, 2), marks(50, 1, 1)]),
        ("without effect", C15, vec![marks(40, 2, 1)]),
        ("lost at the end", C15, vec![marks(40, 2, 2), log(&WHOLE), dialog(1, 2)]),
        // User 1 has sent value 12, which has number 2.
        ("up to the own message", SOUND, vec![marks(40, 1, 1), log(&WHOLE), dialog(2, 1)]),
        ("beyond all marks", C15, vec![marks(40, 1, 1), log(&WHOLE), dialog(3, 0)]),
        ("own messages are not unread", SOUND, vec![log(&WHOLE), dialog(0, 2)]),
        ("too few unread", C15, vec![log(&WHOLE), dialog(0, 1)]),
        ("too many unread", C15, vec![log(&WHOLE), dialog(0, 3)]),
    ]);
}

#[test]
fn code_of_no_disturbance_is_caught() {
    let refused = MessageOutcome::Refused("PERMISSION_DENIED".to_owned());
    let unavailable = SendOutcome::Open("UNAVAILABLE".to_owned());
    let in_a_batch = MessageOutcome::Sent(vec![SendOutcome::At(4), unavailable]);
    let sent = |values: &[u64], outcome| {
        call(40, MessageRequest::Send(values.iter().map(|value| draft(*value)).collect()), outcome)
    };
    assert_judged_after_sends([
        ("refused", &["C17"], vec![sent(&[14], refused)]),
        ("unavailable while no fault was near", &["C17"], vec![sent(&[14, 15], in_a_batch)]),
    ]);
}
