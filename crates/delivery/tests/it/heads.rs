//! Heads for lists: windows answer, and where there is none, a window of headers is made.

use std::sync::atomic::Ordering;

use kith_cache::remote::redis::{RedisScript, Reply};
use kith_delivery::{HeadLookup, HeadOf, LeaseToken, WindowKeeper as _, WindowLimits};
use kith_store::{LogHead, Seq, StoreError};

use crate::stage::{Stage, log_of, rising, stage};

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn heads_are_read_without_the_store() {
    let stage = stage().await;
    for group in 1..=3 {
        stage.logs.append(log_of(group), 120, 0);
        stage.read(log_of(group), 1, 1).await;
    }
    stage.read(log_of(5), 1, 1).await;
    let head = |group, after, at_least| HeadOf { conversation: log_of(group), after, at_least };
    let asked = [head(1, 117, 0), head(2, 0, 0), head(3, 500, 0), head(5, 0, 0)];
    let heads = stage.windows.heads(&asked).await.unwrap();
    assert_eq!(seen(&heads[0]), (Some(120), rising(118, 120)));
    assert_eq!(seen(&heads[1]), (Some(120), rising(21, 120)));
    assert_eq!(seen(&heads[2]), (Some(120), vec![]));
    assert_eq!(seen(&heads[3]), (None, vec![]));
    let header = &heads[0].headers[1];
    assert_eq!((header.sender.map(|user| user.get()), header.silent), (Some(7), false));
    assert_eq!(header.mentions[0].get(), 119);
    assert_eq!(stage.logs.reads(), [0, 0, 4], "the fills alone");
    assert_eq!(stage.logs.heads.load(Ordering::Acquire), 0);
}

fn seen(head: &LogHead) -> (Option<Seq>, Vec<Seq>) {
    (head.last.as_ref().map(|last| last.seq), head.headers.iter().map(|header| header.seq).collect())
}

async fn head_of(stage: &Stage, group: i64, after: Seq) -> LogHead {
    let asked = HeadOf { conversation: log_of(group), after, at_least: 0 };
    stage.windows.heads(&[asked]).await.unwrap().remove(0)
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn lists_make_windows_of_headers() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 120, 0);
    assert_eq!(seen(&head_of(&stage, 9, 117).await), (Some(120), rising(118, 120)));
    assert_eq!(
        seen(&head_of(&stage, 9, 0).await),
        (Some(120), rising(21, 120)),
        "for readers that read less"
    );
    stage.append(log_of(9), 3, 0).await;
    let head = head_of(&stage, 9, 119).await;
    assert_eq!(seen(&head), (Some(123), rising(120, 123)));
    assert_eq!(head.last, stage.logs_from(123).pop());
    assert_eq!(head.headers[3].mentions[0].get(), 123);
    assert_eq!(stage.logs.heads.load(Ordering::Acquire), 1);
    assert_eq!(stage.read(log_of(9), 121, Seq::MAX).await, ((1, 123), rising(121, 123)));
    assert_eq!(stage.logs.reads(), [0, 0, 1], "a reader of messages makes a window of messages");
    assert_eq!(seen(&head_of(&stage, 9, 122).await), (Some(123), vec![123]));
    assert_eq!(stage.logs.heads.load(Ordering::Acquire), 1);
}

/// An earlier version kept an entry for each header.
#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn earlier_windows_of_headers_are_dropped() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 3, 0);
    head_of(&stage, 9, 0).await;
    let earlier = RedisScript::new(
        "local headers = redis.call('LPOP', KEYS[2])
        redis.call('LPUSH', KEYS[2], string.sub(headers, 20), string.sub(headers, 1, 19))
        return redis.call('LLEN', KEYS[2])",
    );
    assert_eq!(stage.on_window(log_of(9), &earlier, b"").await, Reply::Number(3));
    for _ in ["filled", "read"] {
        assert_eq!(seen(&head_of(&stage, 9, 1).await), (Some(3), vec![2, 3]));
    }
    assert_eq!(stage.logs.heads.load(Ordering::Acquire), 2);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn headers_keep_to_the_limits() {
    let limits = WindowLimits { messages: 4, bytes: 600, ..WindowLimits::default() };
    let stage = Stage::new(limits).await;
    stage.logs.append(log_of(9), 2, 0);
    head_of(&stage, 9, 0).await;
    for count in [1, 5, 2] {
        stage.append(log_of(9), count, 0).await;
        let end = Seq::try_from(stage.logs_from(1).len()).unwrap();
        assert_eq!(seen(&head_of(&stage, 9, end - 2).await), (Some(end), vec![end - 1, end]));
    }
    let length = RedisScript::new("return #redis.call('LINDEX', KEYS[2], 0)");
    assert_eq!(stage.on_window(log_of(9), &length, b"").await, Reply::Number(3 * 19));
    assert_eq!(stage.logs.heads.load(Ordering::Acquire), 1);
    stage.append(log_of(9), 1, 600).await;
    assert_eq!(seen(&head_of(&stage, 9, 9).await), (Some(11), vec![10, 11]));
    assert_eq!(stage.logs.heads.load(Ordering::Acquire), 2, "a large message leaves no window");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn heads_of_many_windows_are_in_order() {
    let stage = stage().await;
    let ends = (1..=70).map(|group| (group, 1 + group % 3)).collect::<Vec<_>>();
    for (group, end) in &ends {
        stage.logs.append(log_of(*group), (*end).try_into().unwrap(), 0);
    }
    let asked =
        ends.iter().map(|(group, end)| HeadOf { conversation: log_of(*group), after: end - 1, at_least: 0 });
    let asked: Vec<_> = asked.collect();
    for _ in ["filled", "read"] {
        let heads = stage.windows.heads(&asked).await.unwrap();
        let found = heads.iter().map(seen).collect::<Vec<_>>();
        assert_eq!(found, ends.iter().map(|(_, end)| (Some(*end), vec![*end])).collect::<Vec<_>>());
        assert_eq!(stage.logs.heads.load(Ordering::Acquire), 1);
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn failed_window_fails_no_other() {
    let stage = stage().await;
    for group in 1..=3 {
        stage.logs.append(log_of(group), 3, 0);
        head_of(&stage, group, 0).await;
    }
    let damage = RedisScript::new("redis.call('DEL', KEYS[1]) return redis.call('APPEND', KEYS[1], 'x')");
    stage.on_window(log_of(2), &damage, b"").await;
    let asked: Vec<_> = (1..=3).map(|group| (log_of(group), 0)).collect();
    let heads = stage.keeper.heads(&asked, LeaseToken(7)).await;
    let is_hit = |head: &Result<HeadLookup, _>| matches!(head, Ok(HeadLookup::Hit { .. }));
    assert_eq!(heads.iter().map(is_hit).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(seen(&head_of(&stage, 2, 1).await), (Some(3), vec![2, 3]), "the store answers");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn empty_log_has_a_window_of_headers() {
    let stage = stage().await;
    for _ in ["filled", "read"] {
        assert_eq!(seen(&head_of(&stage, 9, 0).await), (None, vec![]));
    }
    stage.append(log_of(9), 2, 0).await;
    assert_eq!(seen(&head_of(&stage, 9, 0).await), (Some(2), vec![1, 2]));
    assert_eq!(stage.logs.heads.load(Ordering::Acquire), 1);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn changes_and_gaps_drop_headers() {
    let stage = stage().await;
    let messages = stage.logs.append(log_of(9), 9, 0);
    let reads = async |reads: usize| {
        let end = Some(stage.logs_from(1).len().try_into().unwrap());
        assert_eq!(seen(&head_of(&stage, 9, Seq::MAX).await), (end, vec![]));
        assert_eq!(stage.logs.heads.load(Ordering::Acquire), reads);
    };
    reads(1).await;
    reads(1).await;
    let hold = stage.windows.hold(log_of(9)).await.unwrap();
    reads(2).await;
    stage.windows.release(hold).await.unwrap();
    reads(3).await;
    stage.windows.append(log_of(9), &messages[8..], true, None).await.unwrap();
    reads(4).await;
    stage.logs.append(log_of(9), 1, 0);
    stage.append(log_of(9), 1, 0).await;
    reads(5).await;
    reads(5).await;
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn old_heads_are_compared_together() {
    let stage = stage().await;
    for group in 1..=4 {
        stage.logs.append(log_of(group), 3, 0);
        stage.read(log_of(group), 1, 1).await;
    }
    for group in 1..=3 {
        stage.windows.require_check(log_of(group)).await.unwrap();
    }
    stage.logs.append(log_of(2), 1, 0);
    stage.logs.append(log_of(4), 1, 0);
    let at_least = |group| if group == 4 { 4 } else { 0 };
    let asked = |group| HeadOf { conversation: log_of(group), after: 0, at_least: at_least(group) };
    let asked: Vec<_> = (1..=4).map(asked).collect();
    for _ in ["compared", "confirmed"] {
        let heads = stage.windows.heads(&asked).await.unwrap();
        assert_eq!(heads.iter().map(|head| seen(head).0).collect::<Vec<_>>(), [3, 4, 3, 4].map(Some));
        assert_eq!(stage.logs.reads(), [1, 0, 4]);
    }
    assert_eq!(
        stage.logs.heads.load(Ordering::Acquire),
        2,
        "those that were dropped have a window of headers"
    );
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn more_than_500_heads_are_refused() {
    let stage = stage().await;
    let asked: Vec<_> =
        (1..=501).map(|group| HeadOf { conversation: log_of(group), after: 0, at_least: 0 }).collect();
    assert!(matches!(stage.windows.heads(&asked).await, Err(StoreError::Overloaded)));
    assert_eq!(stage.windows.heads(&asked[..500]).await.unwrap().len(), 500);
}
