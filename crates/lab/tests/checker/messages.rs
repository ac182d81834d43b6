//! Each rule about messages is noticed when it is broken. The log is of three users; times are milliseconds.

use kith_lab::{
    checker::check,
    history::{
        DialogEnd, Draft, Event, LogCopy, Logged, MessageCall, MessageOutcome, MessageRequest, Pages,
        Received, ReceivedRun, SendOutcome,
    },
};

use crate::tale::{self, BOUNDS, MS};

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

fn logged(seq: u64, value: u64) -> Logged {
    Logged { seq, value: Some(value), sender: draft(value).sender, silent: false }
}

/// The log at the end, by number and value.
fn log(node: Option<u32>, messages: &[(u64, u64)]) -> Event {
    let messages = messages.iter().map(|(seq, value)| logged(*seq, *value)).collect();
    Event::Log(LogCopy { conversation: GROUP.to_owned(), node, messages })
}

fn reads(began: u64, pages: Pages, at_least: u64, messages: &[Logged], end: u64) -> Event {
    let request = MessageRequest::Read { user: 1, conversation: GROUP.to_owned(), pages, at_least };
    let (messages, range) = (messages.to_vec(), Some((1, end)));
    call(began, request, MessageOutcome::Read { messages, range, more: false })
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

/// Three messages are sent one after the other: values 11, 12 and 13.
fn sent() -> Vec<Event> {
    vec![sends(10, &[(11, 1)]), sends(20, &[(12, 2)]), sends(30, &[(13, 3)])]
}

fn with(more: impl IntoIterator<Item = Event>) -> Vec<&'static str> {
    let events: Vec<Event> = sent().into_iter().chain(more).collect();
    tale::broken(&check(&events, &BOUNDS))
}

const WHOLE: [(u64, u64); 3] = [(1, 11), (2, 12), (3, 13)];

#[test]
fn whole_log_passes() {
    assert_eq!(with([log(None, &WHOLE), log(Some(0), &WHOLE)]), [""; 0]);
}

#[test]
fn lost_message_is_caught() {
    assert_eq!(with([log(None, &WHOLE[..2])]), ["C9"]);
}

#[test]
fn message_at_another_number_is_caught() {
    assert_eq!(with([log(None, &[(1, 11), (2, 13), (3, 12)])]), ["C9"]);
}

#[test]
fn hole_is_caught() {
    let events = [sends(10, &[(11, 1)]), sends(20, &[(12, 3)]), log(None, &[(1, 11), (3, 12)])];
    assert_eq!(tale::broken(&check(&events, &BOUNDS)), ["C9"]);
}

#[test]
fn message_that_is_stored_twice_is_caught() {
    assert_eq!(with([log(None, &[(1, 11), (2, 12), (3, 13), (4, 12)])]), ["C9"]);
}

#[test]
fn message_that_was_not_sent_is_caught() {
    assert_eq!(with([log(None, &[(1, 11), (2, 12), (3, 13), (4, 14)])]), ["C9"]);
}

#[test]
fn message_of_another_sender_is_caught() {
    let mut copy = LogCopy { conversation: GROUP.to_owned(), node: None, messages: Vec::new() };
    copy.messages = WHOLE.iter().map(|(seq, value)| logged(*seq, *value)).collect();
    copy.messages[1].sender += 1;
    assert_eq!(with([Event::Log(copy)]), ["C9"]);
}

#[test]
fn event_of_the_service_is_no_message() {
    let mut copy = LogCopy { conversation: GROUP.to_owned(), node: None, messages: Vec::new() };
    copy.messages = WHOLE.iter().map(|(seq, value)| logged(*seq, *value)).collect();
    copy.messages.push(Logged { seq: 4, value: None, sender: 0, silent: true });
    assert_eq!(with([Event::Log(copy)]), [""; 0]);
}

#[test]
fn open_send_may_be_stored_or_not() {
    let fault = tale::Tale::default().fault("f", 1, 100);
    let with = |end: &[(u64, u64)]| {
        let more = [open(40, 14), log(None, end)];
        with(fault.events().iter().cloned().chain(more))
    };
    assert_eq!(with(&WHOLE), [""; 0]);
    assert_eq!(with(&[(1, 11), (2, 12), (3, 13), (4, 14)]), [""; 0]);
}

#[test]
fn send_before_an_acknowledged_one_is_caught() {
    let sent = [sends(10, &[(11, 2)]), sends(20, &[(12, 1)])];
    let late = |more: &[Event]| tale::broken(&check(&[&sent[..], more].concat(), &BOUNDS));
    assert_eq!(late(&[log(None, &[(1, 12), (2, 11)])]), ["C9"]);
    assert_eq!(late(&[]), ["C9"], "also of a log that is not known");
}

#[test]
fn open_send_before_acknowledged_one_is_caught() {
    let fault = tale::Tale::default().fault("f", 1, 100);
    let sent = [sends(10, &[(11, 2)]), open(20, 12), log(None, &[(1, 12), (2, 11)])];
    assert_eq!(tale::broken(&check(&[fault.events(), &sent].concat(), &BOUNDS)), ["C9"]);
}

#[test]
fn sends_at_one_time_may_be_in_any_order() {
    let sent = [sends(10, &[(11, 2)]), sends(14, &[(12, 1)]), log(None, &[(1, 12), (2, 11)])];
    assert_eq!(tale::broken(&check(&sent, &BOUNDS)), [""; 0]);
}

#[test]
fn resent_message_counts_from_its_first_send() {
    let fault = tale::Tale::default().fault("f", 1, 100);
    let sent = [open(8, 12), sends(10, &[(11, 2)]), sends(20, &[(12, 1)]), log(None, &[(1, 12), (2, 11)])];
    assert_eq!(tale::broken(&check(&[fault.events(), &sent].concat(), &BOUNDS)), [""; 0]);
}

#[test]
fn resent_message_with_two_numbers_is_caught() {
    let both = [sends(40, &[(12, 4)]), log(None, &WHOLE)];
    assert_eq!(with(both), ["C9"]);
}

#[test]
fn batch_out_of_order_is_caught() {
    let sent = [sends(10, &[(11, 2), (12, 1)]), log(None, &[(1, 12), (2, 11)])];
    assert_eq!(tale::broken(&check(&sent, &BOUNDS)), ["C9"]);
}

#[test]
fn read_of_what_the_log_has_passes() {
    let all = [logged(1, 11), logged(2, 12), logged(3, 13)];
    let back = [all[1], all[0]];
    let these = reads(60, Pages::These(vec![3, 1]), 0, &[all[0], all[2]], 3);
    let right = [reads(40, Pages::From(1), 3, &all, 3), reads(50, Pages::Before(3), 0, &back, 3), these];
    assert_eq!(with(right.into_iter().chain([log(None, &WHOLE)])), [""; 0]);
}

#[test]
fn read_of_another_message_is_caught() {
    let other = reads(40, Pages::From(3), 0, &[logged(3, 12)], 3);
    assert_eq!(with([other, log(None, &WHOLE)]), ["C9"]);
    let invented = reads(40, Pages::From(3), 0, &[logged(3, 99)], 3);
    assert_eq!(with([invented]), ["C9"], "also of a log that is not known");
}

#[test]
fn read_of_a_message_before_it_is_sent_is_caught() {
    let early = reads(10, Pages::From(3), 0, &[logged(3, 13)], 3);
    assert_eq!(with([early]), ["C9"]);
}

#[test]
fn read_that_leaves_a_message_out_is_caught() {
    let without = reads(40, Pages::From(1), 0, &[logged(1, 11), logged(3, 13)], 3);
    assert_eq!(with([without, log(None, &WHOLE)]), ["C9"]);
    let short = reads(40, Pages::From(1), 0, &[logged(1, 11), logged(2, 12)], 3);
    assert_eq!(with([short, log(None, &WHOLE)]), ["C9"]);
}

#[test]
fn read_that_hides_a_message_is_caught() {
    let seen = [logged(2, 12), logged(3, 13)];
    let request = || MessageRequest::Read {
        user: 1,
        conversation: GROUP.to_owned(),
        pages: Pages::From(1),
        at_least: 0,
    };
    let from = |min| MessageOutcome::Read { messages: seen.to_vec(), range: Some((min, 3)), more: false };
    assert_eq!(with([call(40, request(), from(2)), log(None, &WHOLE)]), ["C9"]);
}

#[test]
fn read_below_a_number_that_is_known_is_caught() {
    let seen = [logged(1, 11), logged(2, 12)];
    assert_eq!(with([reads(40, Pages::From(1), 3, &seen, 2)]), ["C9"]);
    assert_eq!(with([reads(40, Pages::From(1), 0, &seen, 2)]), [""; 0]);
}

#[test]
fn read_that_is_older_than_its_bound_is_caught() {
    let seen = [logged(1, 11), logged(2, 12)];
    assert_eq!(with([reads(134, Pages::From(1), 0, &seen, 2)]), [""; 0]);
    assert_eq!(with([reads(136, Pages::From(1), 0, &seen, 2)]), ["C3"]);
}

#[test]
fn node_with_another_log_at_the_end_is_caught() {
    assert_eq!(with([log(None, &WHOLE), log(Some(1), &WHOLE[..2])]), ["C9"]);
}

/// User 2 got these messages, by number and value, in contiguous runs.
fn received(runs: &[&[(u64, u64)]], missed: &[(u64, u64)], wrong: &[(u64, u64)]) -> Event {
    let run = |messages: &&[(u64, u64)]| {
        let mut run = ReceivedRun::before(messages[0].0);
        messages.iter().for_each(|(_, value)| run.add(Some(*value)));
        run
    };
    Event::Received(Received {
        receiver: 1,
        user: 2,
        conversation: GROUP.to_owned(),
        runs: runs.iter().map(run).collect(),
        missed: missed.to_vec(),
        wrong: wrong.to_vec(),
    })
}

#[test]
fn stream_to_the_end_of_the_log_passes() {
    let whole = || log(None, &WHOLE);
    assert_eq!(with([whole(), received(&[&WHOLE], &[], &[])]), [""; 0]);
    assert_eq!(with([whole(), received(&[&WHOLE[1..]], &[], &[])]), [""; 0], "opened later");
    assert_eq!(with([whole(), received(&[&WHOLE[..1], &WHOLE[2..]], &[(2, 2)], &[])]), [""; 0], "missed");
}

#[test]
fn stream_with_a_gap_is_caught() {
    let whole = || log(None, &WHOLE);
    assert_eq!(with([whole(), received(&[&WHOLE[..1], &WHOLE[2..]], &[], &[])]), ["C10"]);
    assert_eq!(with([whole(), received(&[&WHOLE[..2]], &[], &[])]), ["C10"], "at the end");
}

#[test]
fn message_that_comes_twice_or_late_is_caught() {
    assert_eq!(with([log(None, &WHOLE), received(&[&WHOLE], &[], &[(3, 2)])]), ["C10"]);
}

#[test]
fn message_with_other_content_is_caught() {
    assert_eq!(with([log(None, &WHOLE), received(&[&[(1, 11), (2, 13), (3, 12)]], &[], &[])]), ["C10"]);
}

#[test]
fn mark_that_rises_passes() {
    let marks = [marks(40, 1, 1), marks(50, 2, 2), marks(60, 1, 2), marks(70, 0, 2)];
    assert_eq!(with(marks.into_iter().chain([log(None, &WHOLE), dialog(2, 1)])), [""; 0]);
}

#[test]
fn mark_that_falls_is_caught() {
    assert_eq!(with([marks(40, 2, 2), marks(200, 1, 1)]), ["C15"]);
    assert_eq!(with([marks(40, 2, 2), marks(50, 0, 1)]), ["C15"]);
    assert_eq!(with([marks(40, 2, 2), marks(50, 1, 1)]), [""; 0], "as a cached read may be behind");
}

#[test]
fn mark_without_effect_is_caught() {
    assert_eq!(with([marks(40, 2, 1)]), ["C15"]);
}

#[test]
fn mark_that_is_lost_at_the_end_is_caught() {
    assert_eq!(with([marks(40, 2, 2), log(None, &WHOLE), dialog(1, 2)]), ["C15"]);
}

#[test]
fn mark_that_was_not_made_is_caught() {
    // User 1 has sent value 12, which has number 2.
    assert_eq!(with([marks(40, 1, 1), log(None, &WHOLE), dialog(2, 1)]), [""; 0]);
    assert_eq!(with([marks(40, 1, 1), log(None, &WHOLE), dialog(3, 0)]), ["C15"]);
}

#[test]
fn unread_count_that_differs_from_log_is_caught() {
    assert_eq!(with([log(None, &WHOLE), dialog(0, 2)]), [""; 0], "the own message does not count");
    for wrong in [1, 3] {
        assert_eq!(with([log(None, &WHOLE), dialog(0, wrong)]), ["C15"]);
    }
}

#[test]
fn code_of_no_disturbance_is_caught() {
    let refused = MessageOutcome::Refused("PERMISSION_DENIED".to_owned());
    assert_eq!(with([call(40, MessageRequest::Send(vec![draft(14)]), refused)]), ["C17"]);
    let in_a_batch =
        MessageOutcome::Sent(vec![SendOutcome::At(4), SendOutcome::Open("UNAVAILABLE".to_owned())]);
    let sent = call(40, MessageRequest::Send(vec![draft(14), draft(15)]), in_a_batch);
    assert_eq!(with([sent]), ["C17"], "while no fault was near");
}
