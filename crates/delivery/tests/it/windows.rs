//! Windows over a real Redis: what they have, what they cost, and when the store answers instead.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::future::join_all;
use kith_cache::remote::{
    SharedError,
    redis::{RedisScript, Reply},
};
use kith_delivery::{
    HeadOf, InboxKeeper as _, InboxLimits, RedisInboxes, RequestedMessages, Span, WindowLimits, Windows,
};
use kith_store::{Epoch, Seq, StoreError};

use crate::{
    inbox_stage::node,
    stage::{Epochs, Logs, Stage, log_of, rising, stage},
};

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn window_answers_after_its_fill() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 20, 0);
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await, ((1, 20), rising(1, 20)));
    assert_eq!(stage.logs.reads(), [0, 0, 1]);
    stage.append(log_of(9), 2, 0).await;
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await, ((1, 22), rising(1, 22)));
    assert_eq!(stage.read(log_of(9), 5, 7).await, ((1, 22), rising(5, 7)));
    assert_eq!(stage.read(log_of(9), 22, 22).await, ((1, 22), vec![22]));
    assert_eq!(stage.read(log_of(9), 23, 40).await, ((1, 22), vec![]));
    let all = stage.windows.read(log_of(9), Span { first: 1, last: Seq::MAX }, 22).await.unwrap().messages;
    assert_eq!(all[20..], stage.logs_from(21), "each message is whole");
    assert_eq!(stage.logs.reads(), [0, 0, 1], "the store was read for the fill alone");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn empty_log_has_a_window() {
    let stage = stage().await;
    for _ in 0..2 {
        assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await, ((1, 0), vec![]));
    }
    assert_eq!(stage.logs.reads(), [0, 0, 1]);
    stage.append(log_of(9), 1, 0).await;
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await, ((1, 1), vec![1]));
    assert_eq!(stage.logs.reads(), [0, 0, 1]);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn window_keeps_the_last_100_messages() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 250, 0);
    assert_eq!(stage.read(log_of(9), 160, 170).await.1, rising(160, 170));
    assert_eq!(stage.read(log_of(9), 1, 155).await, ((151, 250), rising(151, 155)));
    stage.append(log_of(9), 3, 0).await;
    assert_eq!(stage.read(log_of(9), 1, 155).await, ((154, 253), rising(154, 155)));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn window_keeps_at_most_its_bytes() {
    let stage = Stage::new(WindowLimits { bytes: 10_000, ..WindowLimits::default() }).await;
    stage.logs.append(log_of(9), 20, 1_000);
    stage.read(log_of(9), 1, 1).await;
    // An entry is some bytes longer than its body.
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await, ((12, 20), rising(12, 20)));
    stage.append(log_of(9), 2, 4_000).await;
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await, ((20, 22), rising(20, 22)));
    // A lookup that has no room leaves the end alone.
    stage.append(log_of(9), 1, 20_000).await;
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await, ((24, 23), vec![]));
    stage.append(log_of(9), 1, 1_000).await;
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await, ((24, 24), vec![24]));
    assert_eq!(stage.logs.reads(), [0, 0, 1]);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn crowd_without_a_window_fills_it_once() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 120, 0);
    let crowd = join_all((0..30).map(|_| stage.read(log_of(9), 40, Seq::MAX))).await;
    assert!(crowd.iter().all(|(span, found)| span.1 == 120 && *found.last().unwrap() == 120));
    // A reader may see the lease before the reader that holds it has begun to fill: it looks the window up
    // again, at most twice.
    let [ends, _, fills] = stage.logs.reads();
    assert!(fills == 1 && ends < 10, "{fills} fills, {ends} ends");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn crowd_shares_comparisons_of_an_old_window() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 3, 0);
    stage.read(log_of(9), 1, 1).await;
    stage.windows.require_check(log_of(9)).await.unwrap();
    let crowd = join_all((0..30).map(|_| stage.read(log_of(9), 1, Seq::MAX))).await;
    assert!(crowd.iter().all(|(_, found)| *found == rising(1, 3)));
    // Readers that came after a read of the end had begun wait for one more.
    let [ends, pages, fills] = stage.logs.reads();
    assert!((1..10).contains(&ends) && (pages, fills) == (0, 1), "{ends} ends");
    stage.read(log_of(9), 1, 1).await;
    assert_eq!(stage.logs.reads(), [ends, 0, 1], "it was confirmed");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn old_window_that_is_behind_is_filled_again() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 3, 0);
    stage.read(log_of(9), 1, 1).await;
    // Their writer died.
    stage.logs.append(log_of(9), 2, 0);
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await.1, rising(1, 3), "within the time");
    let recent = stage.windows.read(log_of(9), Span { first: 1, last: Seq::MAX }, 5).await.unwrap();
    assert_eq!(recent.span.last, 5, "a caller that knows of it sees it at once");
    assert_eq!(stage.logs.reads(), [1, 0, 2]);
    stage.logs.append(log_of(9), 1, 0);
    stage.windows.require_check(log_of(9)).await.unwrap();
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await.1, rising(1, 6));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn missing_number_costs_one_comparison() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 3, 0);
    stage.read(log_of(9), 1, 1).await;
    let recent = stage.windows.read(log_of(9), Span { first: 1, last: Seq::MAX }, 99).await.unwrap();
    assert_eq!((recent.span.last, stage.logs.reads()), (3, [1, 0, 1]));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn held_window_is_not_used_and_not_filled() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 250, 0);
    stage.read(log_of(9), 1, 1).await;
    let hold = stage.windows.hold(log_of(9)).await.unwrap();
    let other = stage.windows.hold(log_of(9)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(stage.read(log_of(9), 199, 202).await, ((151, 250), rising(199, 202)));
    }
    assert_eq!(stage.logs.reads(), [2, 4, 1], "ends and the parts of two documents, each time");
    stage.logs.change(log_of(9), 200);
    stage.windows.release(hold).await.unwrap();
    stage.read(log_of(9), 1, 1).await;
    assert_eq!(stage.logs.reads(), [3, 4, 1], "the other hold goes on");
    stage.windows.release(other).await.unwrap();
    let recent = stage.windows.read(log_of(9), Span { first: 200, last: 200 }, 0).await.unwrap();
    assert_eq!(recent.messages[0].body, "changed");
    assert_eq!(stage.logs.reads(), [3, 4, 2], "and then it is filled");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn forgotten_window_is_filled_again() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 20, 0);
    stage.read(log_of(9), 1, 1).await;
    stage.logs.change(log_of(9), 7);
    stage.windows.forget(log_of(9)).await.unwrap();
    let body = async || {
        let seven = Span { first: 7, last: 7 };
        stage.windows.read(log_of(9), seven, 0).await.unwrap().messages.remove(0).body
    };
    assert_eq!(body().await, "changed");
    assert_eq!(stage.logs.reads(), [0, 0, 2]);
    assert_eq!(body().await, "changed");
    assert_eq!(stage.logs.reads(), [0, 0, 2], "there is no hold");
    *stage.epochs.settled.lock() = Some(6);
    assert_eq!(
        stage.windows.forget(log_of(9)).await,
        Err(SharedError::Unavailable),
        "of another epoch nothing is known"
    );
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn hold_ends_by_itself() {
    let stage = Stage::new(WindowLimits { hold: Duration::from_millis(1), ..WindowLimits::default() }).await;
    stage.logs.append(log_of(9), 3, 0);
    let _died = stage.windows.hold(log_of(9)).await.unwrap();
    let patience = tokio::time::Instant::now() + Duration::from_secs(10);
    while stage.logs.reads()[2] == 0 {
        stage.read(log_of(9), 1, 1).await;
        assert!(tokio::time::Instant::now() < patience, "it is held for ever");
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn release_waits_for_the_present_epoch() {
    let stage = stage().await;
    for settled in [None, Some(6)] {
        let hold = stage.windows.hold(log_of(9)).await.unwrap();
        *stage.epochs.settled.lock() = settled;
        assert_eq!(stage.windows.release(hold).await, Err(SharedError::Unavailable), "{settled:?}");
    }
    let hold = stage.windows.hold(log_of(9)).await.unwrap();
    *stage.epochs.settled.lock() = Some(5);
    stage.windows.release(hold).await.unwrap();
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn only_the_server_of_the_epoch_answers() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 120, 0);
    stage.read(log_of(9), 1, 1).await;
    let another = Epoch { number: 5, server: "another".to_owned() };
    for (followed, reads) in [(Some(another), [1, 2, 1]), (None, [2, 4, 1])] {
        *stage.epochs.followed.lock() = followed;
        assert_eq!(stage.read(log_of(9), 100, 102).await, ((21, 120), rising(100, 102)));
        assert_eq!(stage.logs.reads(), reads);
        assert_eq!(stage.windows.hold(log_of(9)).await.unwrap_err(), SharedError::Unavailable);
        let messages = stage.logs_from(120);
        assert_eq!(
            stage.windows.append(log_of(9), &messages, false, None).await,
            Err(SharedError::Unavailable)
        );
        assert_eq!(stage.windows.require_check(log_of(9)).await, Err(SharedError::Unavailable));
        let asked = HeadOf { conversation: log_of(9), after: 0, at_least: 0 };
        assert_eq!(stage.windows.heads(&[asked]).await.unwrap()[0].headers.len(), 100, "the store answers");
    }
    stage.epochs.follow(&stage.redis, 6);
    stage.read(log_of(9), 1, 1).await;
    assert_eq!(stage.logs.reads(), [2, 4, 2], "a new epoch begins without windows");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn entry_of_a_newer_program_is_left_alone() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 3, 0);
    stage.read(log_of(9), 1, 1).await;
    let replace = RedisScript::new("return redis.call('LSET', KEYS[2], 1, ARGV[1])");
    stage.on_window(log_of(9), &replace, b"\xffnewer").await;
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await, ((1, 3), rising(1, 3)));
    assert_eq!(stage.logs.reads(), [1, 1, 1]);
    let asked = HeadOf { conversation: log_of(9), after: 0, at_least: 0 };
    assert_eq!(stage.windows.heads(&[asked]).await.unwrap()[0].headers.len(), 3);
    assert_eq!(stage.logs.heads.load(Ordering::Acquire), 1, "the store answers");
    assert_eq!(stage.read(log_of(9), 3, 3).await.1, [3], "the others are read");
    let length = RedisScript::new("return redis.call('LLEN', KEYS[2])");
    assert_eq!(stage.on_window(log_of(9), &length, b"").await, Reply::Number(3));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn window_expires_after_its_last_use() {
    let stage = stage().await;
    stage.append(log_of(9), 3, 0).await;
    stage.read(log_of(9), 1, 1).await;
    let left = RedisScript::new("return { redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2]) }");
    let Reply::List(left) = stage.on_window(log_of(9), &left, b"").await else { panic!() };
    let lasts = |left: &Reply| matches!(left, Reply::Number(ms) if (500_000..=600_000).contains(ms));
    assert!(left.iter().all(lasts), "{left:?}");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn failing_store_fails_the_read_that_needs_it() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 3, 0);
    stage.read(log_of(9), 1, 1).await;
    stage.logs.is_unavailable.store(true, Ordering::Release);
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await.1, rising(1, 3), "the window has it");
    stage.windows.require_check(log_of(9)).await.unwrap();
    let failed = stage.windows.read(log_of(9), Span { first: 1, last: Seq::MAX }, 0).await;
    assert!(matches!(failed, Err(StoreError::Unavailable { .. })));
    let failed = stage.windows.read(log_of(8), Span { first: 1, last: Seq::MAX }, 0).await;
    assert!(matches!(failed, Err(StoreError::Unavailable { .. })));
    stage.logs.is_unavailable.store(false, Ordering::Release);
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await.1, rising(1, 3));
}

fn without_windows(limits: WindowLimits) -> (Windows, std::sync::Arc<Logs>) {
    let logs = Logs::new();
    let store = std::sync::Arc::<Logs>::clone(&logs);
    (Windows::none(store, std::sync::Arc::new(kith_cache::SystemClock::new()), limits), logs)
}

#[tokio::test]
async fn without_redis_the_store_answers() {
    let (windows, logs) = without_windows(WindowLimits::default());
    let messages = logs.append(log_of(9), 120, 0);
    windows.append(log_of(9), &messages, false, Some(windows.now())).await.unwrap();
    windows.require_check(log_of(9)).await.unwrap();
    let hold = windows.hold(log_of(9)).await.unwrap();
    windows.release(hold).await.unwrap();
    let recent = windows.read(log_of(9), Span { first: 99, last: 102 }, 0).await.unwrap();
    assert_eq!((recent.span.first, recent.span.last), (21, 120));
    assert_eq!(recent.messages, messages[98..102]);
    assert_eq!(logs.reads(), [1, 2, 0]);
    let asked = HeadOf { conversation: log_of(9), after: 0, at_least: 0 };
    assert_eq!(windows.heads(&[asked]).await.unwrap()[0].headers.len(), 100);
}

/// A page with the last few messages reads no more, however large messages are.
#[tokio::test]
async fn last_messages_are_read_alone() {
    let (windows, logs) = without_windows(WindowLimits::default());
    let messages = logs.append(log_of(9), 120, 0);
    for (span, most, first) in [((1, Seq::MAX), 3, 117), ((118, Seq::MAX), 9, 117), ((1, 110), 2, 108)] {
        let wanted = RequestedMessages { span: Span { first: span.0, last: span.1 }, most };
        let recent = windows.read(log_of(9), wanted, 0).await.unwrap();
        let last = usize::try_from(span.1.min(120)).unwrap();
        assert_eq!(recent.messages, messages[first..last]);
    }
    assert_eq!(logs.reads(), [3, 3, 0], "a part of one document each time");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn last_messages_are_the_same_of_a_window() {
    let stage = stage().await;
    stage.logs.append(log_of(9), 120, 0);
    for _ in ["filled", "read"] {
        let wanted = RequestedMessages { span: Span { first: 1, last: Seq::MAX }, most: 3 };
        let recent = stage.windows.read(log_of(9), wanted, 0).await.unwrap();
        assert_eq!(recent.messages, stage.logs_from(118));
    }
}

#[tokio::test]
async fn reads_of_the_store_are_bounded() {
    let limits = WindowLimits { loads: 1, load_wait: Duration::ZERO, ..WindowLimits::default() };
    let (windows, logs) = without_windows(limits);
    logs.append(log_of(9), 3, 0);
    logs.gate.forget_permits(tokio::sync::Semaphore::MAX_PERMITS);
    let first = windows.read(log_of(9), Span { first: 1, last: 3 }, 0);
    tokio::pin!(first);
    assert!(futures::poll!(&mut first).is_pending(), "it is with the store");
    assert!(matches!(
        windows.read(log_of(8), Span { first: 1, last: 3 }, 0).await,
        Err(StoreError::Overloaded)
    ));
    logs.gate.add_permits(10);
    assert_eq!(first.await.unwrap().messages.len(), 3);
    assert!(windows.read(log_of(8), Span { first: 1, last: 3 }, 0).await.is_ok());
}

/// Nodes that read a large group are woken, and not looked up by another script.
#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn append_names_the_registered_nodes() {
    let stage = stage().await;
    let source = Arc::<Epochs>::clone(&stage.epochs);
    let inboxes = RedisInboxes::over(Arc::clone(&stage.redis.runner), source, InboxLimits::default());
    let append = async || {
        let began = stage.windows.now();
        let messages = stage.logs.append(log_of(9), 1, 0);
        stage.windows.append(log_of(9), &messages, false, Some(began)).await.unwrap().unwrap()
    };
    assert_eq!(append().await, []);
    for name in ["a", "b", "a"] {
        inboxes.register(&node(name), &[log_of(9), log_of(8)]).await.unwrap();
    }
    assert_eq!(append().await, [node("b"), node("a")]);
    assert_eq!(stage.read(log_of(9), 1, Seq::MAX).await, ((1, 2), rising(1, 2)));
    assert_eq!(append().await, inboxes.registered(log_of(9)).await.unwrap(), "also with a window");
}
