//! Fan-out notes over a real Redis.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use kith_cache::remote::SharedError;
use kith_delivery::{FanOutNotes as _, InboxLimits, RedisFanOutNotes};
use kith_store::{DueNote, Epoch, FanOutNote};
use tokio::time::sleep;

use crate::{
    inbox_stage::{InboxStage, node},
    model::TestRedis,
    redis_cluster::{OneRedis, RedisCluster},
    stage::Epochs,
};

/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stage's epochs, and notes that follow them.
async fn stage() -> (InboxStage, RedisFanOutNotes) {
    stage_over(TestRedis::connect().await)
}

fn stage_over(redis: TestRedis) -> (InboxStage, RedisFanOutNotes) {
    let stage = InboxStage::over(redis, InboxLimits::default());
    let epochs = Arc::<Epochs>::clone(&stage.epochs);
    let notes = RedisFanOutNotes::over(Arc::clone(&stage.redis.runner), epochs);
    (stage, notes)
}

fn note(conversation: &str, of: &str, step: u64) -> FanOutNote {
    FanOutNote { conversation: conversation.parse().unwrap(), node: node(of), step }
}

/// Notes with any age.
async fn all(notes: &RedisFanOutNotes) -> HashSet<FanOutNote> {
    let due = notes.due(Duration::ZERO, 100).await.unwrap();
    due.into_iter().map(|DueNote { note, .. }| note).collect()
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn note_is_there_until_its_step_ends() {
    let (_stage, notes) = stage().await;
    let begun = [note("g9", "a", 1), note("g9", "a", 2), note("g9", "b", 1), note("d7-8", "a", 1)];
    notes.begin(&begun).await.unwrap();
    notes.begin(&begun[1..]).await.unwrap();
    assert_eq!(all(&notes).await, begun.clone().into());
    for _ in 0..2 {
        notes.end(&[begun[0].clone(), begun[3].clone(), note("g8", "a", 1)]).await.unwrap();
        assert_eq!(all(&notes).await, begun[1..3].iter().cloned().collect());
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn note_is_due_after_its_time() {
    let (_stage, notes) = stage().await;
    notes.begin(&[note("g9", "a", 1)]).await.unwrap();
    assert_eq!(notes.due(Duration::from_secs(60), 100).await.unwrap(), []);
    let (begun, age) = (Instant::now(), Duration::from_millis(100));
    loop {
        if let Some(due) = notes.due(age, 100).await.unwrap().pop() {
            assert!(due.age >= age, "{due:?}");
            break;
        }
        assert!(begun.elapsed() < PATIENCE);
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn notes_of_each_part_are_bounded() {
    let (_stage, notes) = stage().await;
    for conversation in ["g1", "g2"] {
        for step in 1..=5 {
            notes.begin(&[note(conversation, "a", step)]).await.unwrap();
        }
    }
    let due = notes.due(Duration::ZERO, 3).await.unwrap();
    let count = |conversation: &str| {
        due.iter().filter(|due| due.note.conversation.to_string() == conversation).count()
    };
    assert_eq!((count("g1"), count("g2")), (3, 3));
}

/// The node that left a note may have died with its epoch.
#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn note_outlives_its_epoch() {
    let (stage, notes) = stage().await;
    notes.begin(&[note("g9", "a", 1)]).await.unwrap();
    stage.follow(6);
    assert_eq!(all(&notes).await, [note("g9", "a", 1)].into());
    notes.end(&[note("g9", "a", 1)]).await.unwrap();
    assert_eq!(all(&notes).await, HashSet::new());
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn only_the_server_of_the_epoch_has_notes() {
    let (stage, notes) = stage().await;
    for followed in [None, Some(Epoch { number: 5, server: "another".to_owned() })] {
        *stage.epochs.followed.lock() = followed;
        assert_eq!(notes.begin(&[note("g9", "a", 1)]).await, Err(SharedError::Unavailable));
        assert_eq!(notes.end(&[note("g9", "a", 1)]).await, Err(SharedError::Unavailable));
        assert_eq!(notes.due(Duration::ZERO, 100).await, Err(SharedError::Unavailable));
    }
}

/// Steps in conversations from all parts.
fn of_all_parts() -> Vec<FanOutNote> {
    (1..=100).map(|id| note(&format!("g{id}"), "a", 1)).collect()
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn notes_of_one_server_are_one_script() {
    let redis = OneRedis::start(false).await;
    let (_stage, notes) = stage_over(TestRedis::connect_to(redis.url()).await);
    let begun = of_all_parts();
    // The server does not know the scripts yet.
    notes.begin(&begun[..1]).await.unwrap();
    notes.end(&begun[..1]).await.unwrap();
    assert_eq!(all(&notes).await, HashSet::new());
    let before = redis.scripts();
    notes.begin(&begun).await.unwrap();
    assert_eq!(redis.scripts() - before, 1);
    assert_eq!(all(&notes).await, begun.iter().cloned().collect());
    assert_eq!(redis.scripts() - before, 2);
    notes.end(&begun[1..]).await.unwrap();
    assert_eq!(redis.scripts() - before, 3);
    assert_eq!(all(&notes).await, [begun[0].clone()].into());
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn notes_are_kept_in_a_redis_cluster() {
    let cluster = RedisCluster::start().await;
    let (_stage, notes) = stage_over(TestRedis::connect_to(cluster.url()).await);
    let begun = of_all_parts();
    notes.begin(&begun).await.unwrap();
    assert_eq!(all(&notes).await, begun.iter().cloned().collect());
    assert!(cluster.keys().into_iter().all(|keys| keys > 0), "each node has some");
    notes.end(&begun[1..]).await.unwrap();
    assert_eq!(all(&notes).await, [begun[0].clone()].into());
}
