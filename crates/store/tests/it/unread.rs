//! Tests unread counts against a list of messages from which uncounted messages are taken away.

use std::collections::BTreeMap;

use kith_store::{
    Message, MessageHeader, MessageKind, Recalled, RecalledBy, Seq, StoredHeader, Text, Timestamp, Unread,
    UnreadRange, UserId, count_unread,
};
use proptest::prelude::*;

const READER: i64 = 7;

fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

/// A message without its number.
#[derive(Clone, Debug)]
struct Sent {
    sender: Option<UserId>,
    is_silent: bool,
    is_recalled: bool,
    mentions: Vec<UserId>,
    mention_all: bool,
}

fn logs() -> impl Strategy<Value = Vec<Sent>> {
    let flag = || prop::bool::weighted(0.2);
    let mentions = prop::collection::vec((6..9_i64).prop_map(user), 0..3);
    let sent = (prop::option::of((6..9_i64).prop_map(user)), flag(), flag(), mentions, flag());
    let sent = sent.prop_map(|(sender, is_silent, is_recalled, mentions, mention_all)| Sent {
        sender,
        is_silent,
        is_recalled,
        mentions,
        mention_all,
    });
    prop::collection::vec(sent, 0..40)
}

fn headers(log: &[Sent]) -> Vec<MessageHeader<'_>> {
    let numbered = (1..).zip(log);
    let header = numbered.map(|(seq, sent)| MessageHeader {
        seq,
        sender: sent.sender,
        silent: sent.is_silent,
        recalled: sent.is_recalled,
        mentions: &sent.mentions,
        mention_all: sent.mention_all,
    });
    header.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn unread_equals_what_is_left_of_the_log(
        log in logs(),
        read_seq in 0..50_i64,
        min_seq in 0..50_i64,
        max_seq in prop::option::of(0..50_i64),
    ) {
        let mut left: BTreeMap<Seq, &Sent> = (1..).zip(&log).collect();
        left = left.split_off(&(read_seq.max(min_seq - 1) + 1));
        if let Some(max) = max_seq {
            drop(left.split_off(&(max + 1)));
        }
        left.retain(|_, sent| sent.sender != Some(user(READER)));
        left.retain(|_, sent| !sent.is_silent);
        left.retain(|_, sent| !sent.is_recalled);
        let count = u64::try_from(left.len()).unwrap();
        left.retain(|_, sent| sent.mention_all || sent.mentions.contains(&user(READER)));
        let expected = Unread { count, first_mention: left.keys().next().copied() };
        let range = UnreadRange { user: user(READER), read_seq, min_seq, max_seq };
        prop_assert_eq!(count_unread(range, headers(&log)), expected);
        let backwards = count_unread(range, headers(&log).into_iter().rev());
        prop_assert_eq!(backwards, expected, "the order does not matter");
    }

    #[test]
    fn counts_of_parts_add_up(log in logs(), at in 0..40_usize, read_seq in 0..50_i64) {
        let range = UnreadRange { user: user(READER), read_seq, min_seq: 0, max_seq: None };
        let all = headers(&log);
        let (older, newer) = all.split_at(at.min(all.len()));
        let [older, newer] = [older, newer].map(|part| count_unread(range, part.iter().copied()));
        let whole = count_unread(range, all.iter().copied());
        prop_assert_eq!(older.count + newer.count, whole.count);
        prop_assert_eq!(older.first_mention.or(newer.first_mention), whole.first_mention);
    }
}

fn message(seq: Seq, kind: MessageKind, silent: bool) -> Message {
    Message {
        seq,
        sender: Some(user(8)),
        sent: Timestamp(1),
        kind,
        content_type: Text::default(),
        body: Vec::new().into(),
        mentions: vec![user(READER)],
        mention_all: false,
        silent,
        reply_to: None,
        client_message_id: None,
        edited: None,
        recalled: None,
    }
}

#[test]
fn events_and_silent_messages_do_not_count() {
    let messages = [
        message(1, MessageKind::Event, false),
        message(2, MessageKind::Message, true),
        message(3, MessageKind::Message, false),
    ];
    let range = UnreadRange { user: user(READER), read_seq: 0, min_seq: 0, max_seq: None };
    let unread = count_unread(range, messages.iter().map(MessageHeader::from));
    assert_eq!(unread, Unread { count: 1, first_mention: Some(3) });
}

#[test]
fn recalled_message_does_not_count() {
    let recalled = Recalled { by: RecalledBy::Service, time: Timestamp(2) };
    let messages = [
        Message { recalled: Some(recalled), ..message(1, MessageKind::Message, false) },
        message(2, MessageKind::Message, false),
    ];
    let range = UnreadRange { user: user(READER), read_seq: 0, min_seq: 0, max_seq: None };
    let expected = Unread { count: 1, first_mention: Some(2) };
    assert_eq!(count_unread(range, messages.iter().map(MessageHeader::from)), expected);
    let headers: Vec<StoredHeader> = messages.iter().map(StoredHeader::of).collect();
    assert_eq!(count_unread(range, headers.iter().map(MessageHeader::from)), expected);
}
