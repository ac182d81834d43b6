//! Other programs write to a server that is not theirs: foreign values, keys and messages.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fred::{interfaces::PubsubInterface as _, prelude::*};
use futures::future::join_all;
use kith_cache::{
    Version,
    remote::{
        Acquired, Cell, CellKind, CellWrite, Cells as _, Confirmation, FillResult, Frame, Header, Heartbeat,
        Log as _, LogEntry, MessageMac, News, Registry as _, Retention,
        redis::{RedisOptions, RedisShared},
    },
};
use tokio::time::timeout;

use crate::{
    server::{command, operator},
    stage::{PATIENCE, SHORT, accepted, address, eventually, options},
};

/// Texts that were written to break out of what they are put into.
const HOSTILE: [&str; 16] = [
    "nil",
    "NaN",
    "1e400",
    "-0",
    "0x10",
    "",
    " ",
    "{x}",
    "}{",
    "a:b",
    "*?[a]",
    "\r\nFLUSHALL\r\n",
    "')\nreturn 1--",
    "\0",
    "ARGV[1]",
    "é\u{202e}",
];

const LEASED: Acquired = Acquired::Leased { floor: Version::UNVERSIONED };

async fn stage() -> (Arc<RedisShared>, Client, String) {
    let options = options(&address());
    let prefix = options.tag();
    (accepted(options).await, operator(&address()).await, prefix)
}

fn entry(nonce: u64, message: &[u8]) -> LogEntry<'_> {
    LogEntry { nonce, message, strict: true }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn foreign_value_counts_as_absent() {
    let (shared, operator, prefix) = stage().await;
    let good = Cell::value(1, Version::new(9), b"x".to_vec()).to_bytes();
    let older = [&good[..1], &[0], &good[2..]].concat();
    let newer = [&good[..1], &[2], &good[2..]].concat();
    let cut = good[..31].to_vec();
    let garbage = [Vec::new(), b"K".to_vec(), vec![b'x'; 10_000], vec![0xff; 1 << 20], older, newer, cut];
    for (at, garbage) in garbage.into_iter().enumerate() {
        let key = [format!("1:a:{at}")];
        let there = format!("{{{prefix}}}:{}", key[0]);
        let _: () = operator.set(&there, bytes::Bytes::from(garbage), None, None, false).await.unwrap();
        assert_reads_as_nothing(&shared, &key).await;
    }
    for (at, words) in [["RPUSH", "x"], ["SADD", "x"], ["PFADD", "x"]].into_iter().enumerate() {
        let key = [format!("1:a:type-{at}")];
        command(&operator, words[0], &[&format!("{{{prefix}}}:{}", key[0]), words[1]]).await;
        assert_reads_as_nothing(&shared, &key).await;
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn change_removes_a_copy_of_a_newer_format() {
    let (shared, operator, prefix) = stage().await;
    let cell = |version| Cell::value(1, Version::new(version), b"x".to_vec());
    let tomb = |version| Some(Cell::bare(CellKind::Tomb, Version::new(version), 0));
    for (at, write, left) in [
        (1, CellWrite::Put(cell(10)), tomb(10)),
        (2, CellWrite::Invalidate(Some(Version::new(10))), tomb(10)),
        (3, CellWrite::Invalidate(None), None),
    ] {
        let key = format!("1:a:{at}");
        let there = format!("{{{prefix}}}:{key}");
        let mut newer = cell(9).to_bytes();
        newer[1] += 1;
        let _: () = operator.set(&there, bytes::Bytes::from(newer), None, None, false).await.unwrap();
        shared.change(1, &[(key.clone(), write)], entry(at, b"message")).await.unwrap();
        assert_eq!(shared.read(&[key]).await.unwrap(), [left], "{at}");
        assert_eq!(operator.exists::<i64, _>(&there).await.unwrap(), i64::from(at < 3));
    }
}

async fn assert_reads_as_nothing(shared: &RedisShared, key: &[String; 1]) {
    let two = [key[0].clone(), "1:a:none".to_owned()];
    assert_eq!(shared.read(key).await.unwrap(), [None], "{key:?}");
    assert_eq!(shared.read(&two).await.unwrap(), [None, None], "{key:?}");
    assert_eq!(shared.heads(&two).await.unwrap(), [None, None], "{key:?}");
    assert_eq!(
        shared.fill(&[(key[0].clone(), Cell::value(1, Version::new(1), vec![]))]).await.unwrap(),
        [FillResult::Gone]
    );
    assert_eq!(shared.acquire_absent(key, 1).await.unwrap(), [LEASED]);
    shared.release(key, 1).await.unwrap();
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn whatever_a_key_or_a_message_says_it_is_data() {
    let (shared, operator, prefix) = stage().await;
    let bystander: String = format!("{prefix}-bystander");
    let _: () = operator.set(&bystander, "there", None, None, false).await.unwrap();
    let keys: Vec<String> = HOSTILE.iter().map(|text| format!("1:a:{text}")).collect();
    assert_eq!(shared.acquire(&keys, 1).await.unwrap(), vec![LEASED; keys.len()]);
    let value = |text: &str| {
        let mut cell = Cell::value(1, Version::new(4), text.as_bytes().to_vec());
        cell.header = Header { token: 1, written_ms: 0, ..cell.header };
        cell
    };
    let filling: Vec<_> = keys.iter().zip(HOSTILE).map(|(key, text)| (key.clone(), value(text))).collect();
    assert!(shared.fill(&filling).await.unwrap().iter().all(|filled| *filled == FillResult::Stored));
    let found = shared.read(&keys).await.unwrap();
    assert_eq!(found, HOSTILE.map(|text| Some(value(text))), "no two are the same key");
    for (at, text) in HOSTILE.into_iter().enumerate() {
        let about = Heartbeat { node: 1, applied: 0, about: text.to_owned() };
        shared.enter(1, &about).await.unwrap();
        let writes = [(keys[at].clone(), CellWrite::Invalidate(Some(Version::new(5))))];
        let changed = shared.change(1, &writes, entry(u64::MAX - at as u64, text.as_bytes())).await.unwrap();
        assert_eq!((changed.number, changed.peers[0].node), (at as u64 + 1, 1));
        assert_eq!(shared.peers(1).await.unwrap()[0].about, text);
        assert_eq!(shared.replay(1, changed.number, 1).await.unwrap()[0].message, text.as_bytes());
    }
    let tomb = Cell::bare(CellKind::Tomb, Version::new(5), 0);
    assert_eq!(shared.read(&keys).await.unwrap(), vec![Some(tomb); keys.len()]);
    let long = format!("1:a:{}", "x".repeat(1 << 20));
    assert_eq!(shared.acquire(&[long], 1).await.unwrap(), [LEASED]);
    assert_eq!(operator.get::<String, _>(&bystander).await.unwrap(), "there");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn forged_messages_are_skipped_and_counted() {
    let mac = MessageMac::new(&[7; 32]);
    let options = RedisOptions { mac: Some(mac.clone()), ..options(&address()) };
    let (prefix, outsider) = (options.tag(), operator(&address()).await);
    let shared = accepted(options).await;
    let mut frames = shared.subscribe(1, 2).await.unwrap();
    let (wakes, mine) = (format!("{{{prefix}}}:0:wakes"), format!("{{{prefix}}}:0:node:1:2"));
    let forged: Vec<u8> = [1_u64, 2, 3, 9].into_iter().flat_map(u64::to_be_bytes).collect();
    let signed_by_another = MessageMac::new(&[8; 32]).sign(9, &forged);
    for message in [Vec::new(), vec![0xff; 70_000], b"1:a:k".to_vec(), forged, signed_by_another] {
        for channel in [&wakes, &mine] {
            let receivers: i64 = outsider.publish(channel, Bytes::from(message.clone())).await.unwrap();
            assert_eq!(receivers, 1, "one subscriber of {channel}");
        }
    }
    shared.confirm(1, &[2], Confirmation { node: 3, number: 4 }).await.unwrap();
    let news = timeout(PATIENCE, frames.next()).await.unwrap();
    assert_eq!(news, Some(News::Confirmed(Confirmation { node: 3, number: 4 })), "the first that is valid");
    assert_eq!(shared.garbled(), 10);
    let entries = format!("{{{prefix}}}:0:log:1");
    let _: i64 = outsider.publish(&entries, "no entry").await.unwrap();
    let Some(News::Entry(bytes)) = timeout(PATIENCE, frames.next()).await.unwrap() else {
        panic!("an entry was expected")
    };
    assert_eq!(Frame::from_bytes(&bytes), None, "the follower of the log checks it");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn foreign_log_and_registry_entries_are_skipped() {
    let (shared, operator, prefix) = stage().await;
    let (log, nodes) = (format!("{{{prefix}}}:log:1"), format!("{{{prefix}}}:nodes:1"));
    shared.change(1, &[], entry(1, b"first")).await.unwrap();
    command(&operator, "XADD", &[&log, "1-*", "short", "x"]).await;
    command(&operator, "HSET", &[&nodes, "short", "x", "12345678", "too short as well"]).await;
    let third = shared.change(1, &[], entry(3, b"third")).await.unwrap();
    assert_eq!((third.number, third.peers), (3, Vec::new()));
    let log = shared.replay(1, 1, 10).await.unwrap();
    assert_eq!(
        log.iter().map(|frame| frame.number).collect::<Vec<_>>(),
        [1, 3],
        "what is none is missed as a gap"
    );
    assert_eq!(shared.peers(1).await.unwrap(), []);
    assert_eq!(shared.enter(1, &Heartbeat::default()).await.unwrap().number, 3);
    let _: () = operator.set(format!("{{{prefix}}}:epoch"), "x", None, None, false).await.unwrap();
    assert_eq!(shared.enter(1, &Heartbeat::default()).await.unwrap().epoch, 1);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn two_prefixes_on_one_server_never_meet() {
    let ((one, ..), (two, ..)) = (stage().await, stage().await);
    let keys = ["1:a:k".to_owned()];
    let (mut at_one, mut at_two) = (one.subscribe(1, 1).await.unwrap(), two.subscribe(1, 1).await.unwrap());
    one.acquire(&keys, 1).await.unwrap();
    assert_eq!(two.read(&keys).await.unwrap(), [None]);
    one.acquire(&keys, 2).await.unwrap();
    one.release(&keys, 1).await.unwrap();
    one.enter(9, &Heartbeat { node: 1, ..Heartbeat::default() }).await.unwrap();
    one.confirm(1, &[1], Confirmation { node: 2, number: 1 }).await.unwrap();
    assert_eq!(one.change(1, &[], entry(1, b"of one")).await.unwrap().epoch, 9);
    let changed = two.change(1, &[], entry(2, b"of two")).await.unwrap();
    assert_eq!((changed.number, changed.epoch, changed.peers), (1, 0, Vec::new()));
    let News::Entry(bytes) = at_two.next().await.unwrap() else {
        panic!("its own entry is the first that it receives")
    };
    assert_eq!(Frame::from_bytes(&bytes).unwrap().message, b"of two");
    for _ in 0..3 {
        let news = at_one.next().await.unwrap();
        assert!(
            !matches!(news, News::Entry(bytes) if Frame::from_bytes(&bytes).unwrap().message == b"of two")
        );
    }
    assert_eq!(two.peers(9).await.unwrap(), []);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn keys_of_a_left_epoch_expire() {
    let (shared, operator, prefix) = stage().await;
    let keys = |epoch: u64| ["log", "nodes", "about"].map(|name| format!("{{{prefix}}}:{name}:{epoch}"));
    let lasts = async |key: &str| operator.ttl::<i64, _>(key).await.unwrap();
    for epoch in [4, 5] {
        shared.enter(epoch, &Heartbeat::default()).await.unwrap();
        shared.change(epoch, &[], entry(1, b"message")).await.unwrap();
    }
    for key in keys(4) {
        assert!((1..=600).contains(&lasts(&key).await), "{key}");
    }
    for key in keys(5) {
        assert_eq!(lasts(&key).await, -1, "{key}");
    }
    shared.change(3, &[], entry(1, b"late")).await.unwrap();
    shared.enter(3, &Heartbeat::default()).await.unwrap();
    for key in keys(3) {
        assert!((1..=600).contains(&lasts(&key).await), "{key}");
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn expiry_of_copies_is_spread() {
    let (shared, operator, prefix) = stage().await;
    let keys: Vec<String> = (0..50).map(|key| format!("1:a:{key}")).collect();
    shared.acquire(&keys, 0).await.unwrap();
    let filling: Vec<_> =
        keys.iter().map(|key| (key.clone(), Cell::value(1, Version::new(4), Vec::new()))).collect();
    shared.fill(&filling).await.unwrap();
    let mut left = Vec::new();
    for key in &keys {
        left.push(operator.pttl::<i64, _>(format!("{{{prefix}}}:{key}")).await.unwrap() / 1_000);
    }
    left.sort_unstable();
    left.dedup();
    assert!(left.len() > 10 && left[0] >= 535 && left[left.len() - 1] <= 600, "{left:?}");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn a_slow_listener_knows_that_it_has_lost_some() {
    let (shared, ..) = stage().await;
    let mut frames = shared.subscribe(1, 1).await.unwrap();
    let writer = async |writer: u64| {
        for number in 0..1_500_u64 {
            let entry = LogEntry { strict: false, ..entry(writer << 32 | number, b"x") };
            shared.change(1, &[], entry).await.unwrap();
        }
    };
    join_all((0..8).map(writer)).await;
    // 12,000 were published, and none was read.
    let mut lost = false;
    eventually("the loss is reported", async || {
        lost = lost || frames.next().await.is_none();
        lost
    })
    .await;
    assert_eq!(frames.next().await, None);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn strict_write_reads_no_text_of_a_node() {
    let retention = Retention { silent: Duration::from_secs(1), ..SHORT };
    let options = RedisOptions { retention, ..options(&address()) };
    let (prefix, operator) = (options.tag(), operator(&address()).await);
    let shared = accepted(options).await;
    let (nodes, abouts) = (format!("{{{prefix}}}:nodes:1"), format!("{{{prefix}}}:about:1"));
    let heartbeat = |node| Heartbeat { node, applied: 0, about: "x".repeat(1_000) };
    for node in 1..=3 {
        shared.enter(1, &heartbeat(node)).await.unwrap();
    }
    let entries: Vec<Bytes> = command(&operator, "HVALS", &[&nodes]).await.convert().unwrap();
    assert_eq!(entries.iter().map(Bytes::len).collect::<Vec<_>>(), [21; 3], "a strict write returns these");
    let texts = async || command(&operator, "HLEN", &[&abouts]).await.as_i64().unwrap();
    assert_eq!(texts().await, 3);
    shared.leave(1, 1).await.unwrap();
    assert_eq!(texts().await, 2);
    eventually("the text of a forgotten node goes", async || {
        shared.probe(1, &heartbeat(2)).await.unwrap();
        texts().await == 1
    })
    .await;
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn text_of_an_earlier_version_is_in_its_entry() {
    let (shared, operator, prefix) = stage().await;
    shared.enter(1, &Heartbeat { node: 1, applied: 0, about: "new".to_owned() }).await.unwrap();
    let nodes = format!("{{{prefix}}}:nodes:1");
    let older = "local entry = redis.call('HVALS', KEYS[1])[1] \
                 return redis.call('HSET', KEYS[1], '\\0\\0\\0\\0\\0\\0\\0\\2', entry .. 'old')";
    command(&operator, "EVAL", &[older, "1", &nodes]).await;
    let peers = shared.peers(1).await.unwrap();
    let texts: Vec<_> = peers.iter().map(|peer| (peer.node, &*peer.about)).collect();
    assert_eq!(texts, [(1, "new"), (2, "old")]);
}
