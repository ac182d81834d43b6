//! Message store cases: reads.

use super::{
    message_sample::{append, assert_overloaded, at, batch, end, fill, log_of, message, page, stored_from},
    sample::user_id,
};
use crate::{BATCH_MAX, ConversationId, DocumentKey, LogEnd, NewMessage, Seq, Stores, Timestamp};

pub async fn document_is_read_whole(stores: Stores) {
    let messages = by_time(150);
    fill(&stores, log_of(9), &messages).await;
    let all = stored_from(1, &messages);
    for (document, messages, is_full) in [(0, &all[..100], true), (1, &all[100..], false)] {
        let key = DocumentKey { conversation: log_of(9), document };
        let found = stores.messages.document(key).await.unwrap().unwrap();
        assert_eq!((found.key, found.is_full()), (key, is_full));
        assert_eq!(found.messages, messages);
        assert!(found.version.get() > 0);
    }
    for key in ["g9/2", "g8/0"] {
        assert_eq!(stores.messages.document(key.parse().unwrap()).await.unwrap(), None);
    }
}

/// Messages that were sent ten milliseconds apart, the first at 10.
fn by_time(count: i64) -> Vec<NewMessage> {
    (1..=count).map(|number| NewMessage { sent: at(10 * number), ..message(&format!("m{number}")) }).collect()
}

pub async fn pages_forward_and_back(stores: Stores) {
    let messages = by_time(250);
    fill(&stores, log_of(9), &messages).await;
    let all = stored_from(1, &messages);
    for size in [1, 7, 20, 100] {
        let mut forward = Vec::new();
        for first in (1..=100).step_by(size) {
            let last = (first + size - 1).min(100);
            let of = |number: usize| Seq::try_from(100 + number).unwrap();
            forward.extend(page(&stores, log_of(9), of(first), of(last)).await);
        }
        assert!(forward == all[100..200], "pages of {size}");
    }
    // The last message in each document, then the messages before it.
    for (first, last) in [(241, 250), (201, 240), (181, 200), (101, 180), (91, 100), (1, 90)] {
        let expected = all.iter().filter(|message| (first..=last).contains(&message.seq)).cloned();
        assert_eq!(page(&stores, log_of(9), first, last).await, expected.collect::<Vec<_>>());
    }
}

pub async fn page_beyond_the_end_is_cut(stores: Stores) {
    let messages = by_time(105);
    fill(&stores, log_of(9), &messages).await;
    assert_eq!(page(&stores, log_of(9), 104, 120).await, stored_from(104, &messages[103..]));
    assert_eq!(page(&stores, log_of(9), 106, 110).await, []);
    assert_eq!(page(&stores, log_of(9), 301, 400).await, []);
    assert_eq!(page(&stores, log_of(8), 1, 100).await, []);
}

pub async fn page_across_documents_is_refused(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 200)).await;
    for (first, last) in [(100, 101), (1, 200), (1, 101), (200, 201), (99, 301)] {
        assert_overloaded(stores.messages.messages(log_of(9), first, last).await);
    }
    assert_eq!(page(&stores, log_of(9), 101, 200).await.len(), 100);
}

pub async fn last_documents_are_read_whole(stores: Stores) {
    let messages = by_time(301);
    fill(&stores, log_of(8), &by_time(3)).await;
    let mut before = 0;
    for (count, first) in [(1, 1), (99, 1), (100, 1), (101, 1), (200, 1), (201, 101), (300, 101), (301, 201)]
    {
        fill(&stores, log_of(9), &messages[before..count]).await;
        let found = stores.messages.last_documents(log_of(9)).await.unwrap();
        let expected = stored_from(Seq::try_from(first).unwrap(), &messages[first - 1..count]);
        assert!(found == expected, "{count} messages");
        before = count;
    }
}

pub async fn last_documents_of_an_empty_log(stores: Stores) {
    fill(&stores, log_of(8), &by_time(3)).await;
    assert_eq!(stores.messages.last_documents(log_of(9)).await.unwrap(), []);
}

async fn ends(stores: &Stores, conversations: &[ConversationId]) -> Vec<LogEnd> {
    stores.messages.ends(conversations).await.unwrap()
}

/// Where a log with the messages from [`by_time`] ends.
fn end_of(count: i64) -> LogEnd {
    LogEnd { seq: count, sent: Some(at(10 * count)) }
}

pub async fn ends_equal_tails(stores: Stores) {
    let messages = by_time(201);
    assert_eq!(ends(&stores, &[log_of(9)]).await, [LogEnd::default()]);
    let mut before = 0;
    for count in [1, 2, 99, 100, 101, 200, 201] {
        fill(&stores, log_of(9), &messages[before..count]).await;
        let expected = end_of(i64::try_from(count).unwrap());
        assert_eq!(ends(&stores, &[log_of(9)]).await, [expected]);
        before = count;
    }
    // A message that is sent again leaves the end where it was.
    append(&stores, log_of(9), &messages[..1]).await;
    assert_eq!(ends(&stores, &[log_of(9)]).await, [end_of(201)]);
}

pub async fn ends_are_in_the_order_asked(stores: Stores) {
    let direct = ConversationId::direct(user_id(7), user_id(8));
    let logs = [(log_of(3), 101), (log_of(1), 0), (direct, 100), (log_of(30), 7), (log_of(2), 0)];
    for (conversation, count) in logs {
        fill(&stores, conversation, &by_time(count)).await;
    }
    let expected = |count| if count == 0 { LogEnd::default() } else { end_of(count) };
    for turned in 0..logs.len() {
        let mut asked = logs.to_vec();
        asked.rotate_left(turned);
        let (conversations, counts): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let found = ends(&stores, &conversations).await;
        assert_eq!(found, counts.into_iter().map(expected).collect::<Vec<_>>());
    }
    let twice = [direct, log_of(1), direct];
    assert_eq!(ends(&stores, &twice).await, [end_of(100), LogEnd::default(), end_of(100)]);
    assert_eq!(ends(&stores, &[]).await, []);
}

pub async fn ends_of_501_logs_are_refused(stores: Stores) {
    let many = i64::try_from(BATCH_MAX).unwrap();
    fill(&stores, log_of(1), &by_time(1)).await;
    fill(&stores, log_of(many), &by_time(2)).await;
    let mut asked: Vec<_> = (1..=many).map(log_of).collect();
    let found = ends(&stores, &asked).await;
    assert_eq!((found.len(), found[0], found[BATCH_MAX - 1]), (BATCH_MAX, end_of(1), end_of(2)));
    assert!(found[1..BATCH_MAX - 1].iter().all(|end| *end == LogEnd::default()));
    asked.push(log_of(many + 1));
    assert_overloaded(stores.messages.ends(&asked).await);
}

pub async fn strong_end_equals_end(stores: Stores) {
    assert_eq!(stores.messages.strong_end(log_of(9)).await.unwrap(), 0);
    let messages = by_time(101);
    let mut before = 0;
    for count in [1, 99, 100, 101] {
        fill(&stores, log_of(9), &messages[before..count]).await;
        assert_eq!(stores.messages.strong_end(log_of(9)).await.unwrap(), Seq::try_from(count).unwrap());
        before = count;
    }
    assert_eq!(end(&stores, log_of(9)).await, 101);
    assert_eq!(stores.messages.strong_end(log_of(8)).await.unwrap(), 0);
}

async fn assert_seq_at(stores: &Stores, expected: impl IntoIterator<Item = (Timestamp, Seq)>) {
    for (time, seq) in expected {
        assert_eq!(stores.messages.seq_at(log_of(9), time).await.unwrap(), seq, "{time:?}");
    }
}

pub async fn seq_by_time(stores: Stores) {
    fill(&stores, log_of(8), &by_time(120)).await;
    fill(&stores, log_of(9), &by_time(250)).await;
    assert_seq_at(&stores, [(Timestamp(0), 1), (at(-1), 1), (at(2_501), 251), (Timestamp(i64::MAX), 251)])
        .await;
    for seq in [1, 2, 50, 99, 100, 101, 102, 200, 201, 250] {
        let sent = 10 * seq;
        assert_seq_at(&stores, [(at(sent - 9), seq), (at(sent), seq), (at(sent + 1), seq + 1)]).await;
    }
}

pub async fn seq_by_time_of_equal_times(stores: Stores) {
    let mut messages = by_time(320);
    // Within a document, across a border, and a whole document with its borders.
    for (equal, sent) in [(10..=20, 100), (99..=102, 990), (200..=301, 2_000)] {
        for seq in equal {
            messages[seq - 1].sent = at(sent);
        }
    }
    fill(&stores, log_of(9), &messages).await;
    assert_seq_at(&stores, [(at(100), 10), (at(101), 21), (at(990), 99), (at(991), 103)]).await;
    assert_seq_at(&stores, [(at(1_991), 200), (at(2_000), 200), (at(2_001), 302), (at(3_020), 302)]).await;
}

/// Node clocks and imports give times that fall.
pub async fn seq_by_time_of_falling_times(stores: Stores) {
    let mut messages = by_time(450);
    let times = [(1..=20, 5_000), (90..=110, 10), (150..=250, 70_000), (251..=260, 1), (330..=420, 60_000)];
    for (seqs, sent) in times {
        for seq in seqs {
            messages[seq - 1].sent = at(sent);
        }
    }
    fill(&stores, log_of(9), &messages).await;
    for time in (0..=75_000).step_by(977).chain([1, 10, 5_000, 5_001, 60_000, 70_000, 70_001]) {
        let first = (1..).zip(&messages).find(|(_, message)| message.sent >= at(time));
        assert_seq_at(&stores, [(at(time), first.map_or(451, |(seq, _)| seq))]).await;
    }
}

pub async fn seq_by_time_of_an_empty_log(stores: Stores) {
    fill(&stores, log_of(8), &by_time(3)).await;
    assert_seq_at(&stores, [(Timestamp(0), 1), (at(0), 1), (Timestamp(i64::MAX), 1)]).await;
}
