//! Inboxes over a real Redis: what is not the same in memory.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kith_cache::remote::{SharedError, redis::Reply};
use kith_delivery::{
    Entry, InboxKeeper as _, InboxLimits, Mark, MarkOutcome, NodeWake, Note, ReadOutcome, RedisInboxes, Wake,
    WakeEvent, conformance::Subject,
};
use kith_store::Epoch;
use tokio::time::{sleep, timeout};

use crate::{
    inbox_stage::{InboxStage, fan, node, user},
    model::TestRedis,
    redis_cluster::{OneRedis, RedisCluster},
    redis_link::RedisLink,
};

/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

async fn open() -> Subject {
    stage().await.subject()
}

async fn stage() -> InboxStage {
    InboxStage::new(InboxLimits::default()).await
}

kith_delivery::conformance!(open, #[ignore = "needs Redis: run cargo xtask test"]);

/// Waits until it is so.
async fn until(mut is: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is().await {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn node_that_does_not_renew_is_not_woken() {
    let receiver_kept = Duration::from_millis(200);
    let stage = InboxStage::new(InboxLimits { receiver_kept, ..InboxLimits::default() }).await;
    let (log, mut last) = ("g10".parse().unwrap(), 0);
    stage.begin("a", 8, 0).await;
    stage.keeper.register(&node("a"), &[log]).await.unwrap();
    until(async || {
        last += 1;
        stage.fan(last, &[8]).await.without_receiver == [user(8)]
    })
    .await;
    until(async || stage.keeper.registered(log).await.unwrap().is_empty()).await;
    // A node that renews stays, and nodes that do not are forgotten.
    stage.begin("b", 8, 0).await;
    stage.begin("b", 8, 0).await;
    let nodes = stage.on_inbox(8, "return redis.call('HGET', KEYS[1], '@')", "").await;
    let Reply::Text(nodes) = nodes else { panic!("{nodes:?}") };
    let words: Vec<_> = std::str::from_utf8(&nodes).unwrap().split(' ').collect();
    assert_eq!((words.len(), words[1]), (2, "b"));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn both_keys_expire_together() {
    let stage = stage().await;
    stage.begin("a", 8, 0).await;
    // Both expire at the same moment, this long from now.
    let expire_in = async |kept: Duration| {
        let script = "local moment = redis.call('PEXPIRETIME', KEYS[1])
            return { moment, redis.call('PEXPIRETIME', KEYS[2]), redis.call('PTTL', KEYS[1]) }";
        let Reply::List(times) = stage.on_inbox(8, script, "").await else { panic!() };
        assert_eq!(times[0], times[1]);
        let kept = i64::try_from(kept.as_millis()).unwrap();
        assert!(matches!(times[2], Reply::Number(ms) if (kept - 60_000..=kept).contains(&ms)), "{times:?}");
    };
    let (week, hour) = (InboxLimits::default().kept, Duration::from_secs(3_600));
    stage.fan(1, &[8]).await;
    expire_in(week).await;
    // The inbox loses its stream, and a while passes.
    let later = "redis.call('DEL', KEYS[2]) return redis.call('PEXPIRE', KEYS[1], ARGV[1])";
    stage.on_inbox(8, later, &hour.as_millis().to_string()).await;
    stage.fan(2, &[8]).await;
    expire_in(hour).await;
    stage.open("a", 8).await;
    expire_in(week).await;
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn stream_that_is_ahead_ends_the_inbox() {
    let stage = stage().await;
    let generation = stage.begin("a", 8, 0).await;
    stage.fan(1, &[8]).await;
    // Puts back an earlier state of the hash.
    stage.on_inbox(8, "return redis.call('HSET', KEYS[1], 'p', 0)", "").await;
    let fanned = stage.fan(2, &[8, 24]).await;
    let [NodeWake { wake: Wake::Messages { woken, lost, .. }, .. }] = &fanned.wakes[..] else { panic!() };
    assert!(woken.is_empty() && lost[..] == [user(8)] && fanned.without_receiver == [user(24)]);
    assert_eq!(stage.read(8, generation, 0).await, ReadOutcome::Reset);
    let again = stage.open("a", 8).await;
    assert!(again.generation != generation && !again.complete);
    // A note and marks show the same.
    stage.keeper.note(user(8), Note::ContactAdded { user: user(7) }).await.unwrap();
    stage.on_inbox(8, "return redis.call('HSET', KEYS[1], 'p', 0)", "").await;
    let wakes = stage.keeper.note(user(8), Note::ContactAdded { user: user(7) }).await.unwrap();
    assert_eq!(wakes, [NodeWake { node: node("a"), wake: Wake::Lost { user: user(8) } }]);
    let generation = stage.begin("a", 8, 1).await;
    stage.fan(2, &[8]).await;
    stage.on_inbox(8, "return redis.call('HSET', KEYS[1], 'p', 0)", "").await;
    let mark = Mark { conversation: "g9".parse().unwrap(), end: 3 };
    assert_eq!(stage.keeper.mark(user(8), generation, &[mark], true).await, Ok(MarkOutcome::Reset));
    assert_eq!(stage.on_inbox(8, "return redis.call('EXISTS', unpack(KEYS))", "").await, Reply::Number(0));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn missing_or_damaged_entry_is_reset() {
    let stage = stage().await;
    let generation = stage.begin("a", 8, 0).await;
    for last in 1..=3 {
        stage.fan(last, &[8]).await;
    }
    let delete = "return redis.call('XDEL', KEYS[2], redis.call('HGET', KEYS[1], 'g') .. '-2')";
    assert_eq!(stage.on_inbox(8, delete, "").await, Reply::Number(1));
    assert_eq!(stage.read(8, generation, 0).await, ReadOutcome::Reset, "the one between");
    assert_eq!(stage.read(8, generation, 1).await, ReadOutcome::Reset, "the next one");
    assert!(
        matches!(stage.read(8, generation, 2).await, ReadOutcome::Entries(entries) if entries.len() == 1)
    );
    let add = "redis.call('XADD', KEYS[2], redis.call('HGET', KEYS[1], 'g') .. '-4', 'e', ARGV[1])
        return redis.call('HSET', KEYS[1], 'p', 4)";
    stage.on_inbox(8, add, "m g9 9 4").await;
    assert_eq!(stage.read(8, generation, 3).await, ReadOutcome::Reset);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn entry_of_a_later_program_is_skipped() {
    let stage = stage().await;
    let generation = stage.begin("a", 8, 0).await;
    let add = "redis.call('XADD', KEYS[2], redis.call('HGET', KEYS[1], 'g') .. '-1', 'e', ARGV[1])
        return redis.call('HSET', KEYS[1], 'p', 1)";
    stage.on_inbox(8, add, "later g9").await;
    stage.fan(1, &[8]).await;
    let ReadOutcome::Entries(entries) = stage.read(8, generation, 0).await else { panic!() };
    assert_eq!(entries[0], (1, Entry::Unknown));
    assert!(matches!(entries[1], (2, Entry::Range { first: Some(1), last: 1, .. })));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn full_server_ends_no_inbox() {
    let stage = stage().await;
    let generation = stage.begin("a", 8, 0).await;
    stage.fan(1, &[8]).await;
    let full: RedisInboxes = stage.edited(|text| {
        let text = text.replace("redis.pcall('XADD', ", "redis.pcall('NO', ").replace(
            "redis.call('XADD', stream, id",
            "error('OOM command not allowed') redis.call('XADD', stream, id",
        );
        Box::leak(text.into_boxed_str())
    });
    assert!(fan(&full, 2, &[8]).await.failed.is_some());
    assert!(full.note(user(8), Note::ContactAdded { user: user(7) }).await.is_err());
    assert!(
        matches!(stage.read(8, generation, 0).await, ReadOutcome::Entries(entries) if entries.len() == 1)
    );
    stage.fan(2, &[8]).await;
    assert!(
        matches!(stage.read(8, generation, 1).await, ReadOutcome::Entries(entries) if entries.len() == 1)
    );
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn only_the_server_of_the_epoch_is_asked() {
    let stage = stage().await;
    let generation = stage.begin("a", 8, 0).await;
    for followed in [None, Some(Epoch { number: 5, server: "another".to_owned() })] {
        *stage.epochs.followed.lock() = followed;
        let fanned = stage.fan(1, &[8]).await;
        assert_eq!(fanned.failed, Some(SharedError::Unavailable));
        assert!(fanned.wakes.is_empty() && fanned.without_receiver.is_empty(), "nothing is known of them");
        assert_eq!(stage.keeper.open(&node("a"), &[user(8)]).await, [Err(SharedError::Unavailable)]);
        let mark = Mark { conversation: "g9".parse().unwrap(), end: 3 };
        let marked = stage.keeper.mark(user(8), generation, &[mark], true).await;
        assert_eq!(marked, Err(SharedError::Unavailable));
        let wake = Wake::Lost { user: user(8) };
        let published = stage.keeper.publish(&[NodeWake { node: node("a"), wake }]).await;
        assert_eq!(published, Err(SharedError::Unavailable));
    }
    stage.follow(5);
    assert_eq!(stage.read(8, generation, 0).await, ReadOutcome::Entries(Vec::new()), "none was made");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn epoch_ends_every_inbox() {
    let stage = stage().await;
    let generation = stage.begin("a", 8, 0).await;
    stage.fan(1, &[8]).await;
    stage.follow(6);
    assert_eq!(stage.read(8, generation, 0).await, ReadOutcome::Reset);
    let mark = Mark { conversation: "g9".parse().unwrap(), end: 3 };
    assert_eq!(stage.keeper.mark(user(8), generation, &[mark], true).await, Ok(MarkOutcome::Reset));
    let opened = stage.open("a", 8).await;
    assert_eq!((opened.generation.epoch, opened.position, opened.complete), (6, 0, false));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn inbox_opens_after_writes_to_earlier_epochs() {
    let follows_within = Duration::from_millis(100);
    let stage = InboxStage::new(InboxLimits { follows_within, ..InboxLimits::default() }).await;
    for settled in [None, Some(6)] {
        *stage.epochs.settled.lock() = settled;
        assert_eq!(stage.keeper.open(&node("a"), &[user(8)]).await, [Err(SharedError::Unavailable)]);
    }
    *stage.epochs.settled.lock() = Some(5);
    stage.open("a", 8).await;
    // It is asked once an epoch: the store may be away afterwards.
    *stage.epochs.settled.lock() = None;
    stage.open("a", 8).await;
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn interrupted_subscription_says_so() {
    let stage = stage().await;
    let link = RedisLink::to_redis().await;
    let over_link = link.runner(&stage.redis.runner.tag()).await;
    let epochs = std::sync::Arc::clone(&stage.epochs);
    let keeper = RedisInboxes::over(over_link, epochs, InboxLimits::default());
    let mut wakes = keeper.subscribe(&node("a"));
    let mut next = async || tokio::time::timeout(PATIENCE, wakes.next()).await.unwrap();
    assert_eq!(next().await, WakeEvent::Interrupted);
    for number in 0..3_u8 {
        let wake = Wake::Signal { user: user(8), signal: Bytes::from(vec![number]) };
        stage.keeper.publish(&[NodeWake { node: node("a"), wake: wake.clone() }]).await.unwrap();
        assert_eq!(next().await, WakeEvent::Wake(wake));
        link.cut();
        assert_eq!(next().await, WakeEvent::Interrupted, "it is subscribed again");
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn cancelled_wait_loses_no_wake() {
    let stage = stage().await;
    let mut wakes = stage.keeper.subscribe(&node("a"));
    let begun = Instant::now();
    // Each wait is given up before the subscription can be made.
    while tokio::time::timeout(Duration::from_millis(1), wakes.next()).await.is_err() {
        assert!(begun.elapsed() < PATIENCE, "it begins again each time");
    }
    let wake = Wake::Lost { user: user(8) };
    stage.keeper.publish(&[NodeWake { node: node("a"), wake: wake.clone() }]).await.unwrap();
    let event = loop {
        if let Ok(event) = tokio::time::timeout(Duration::from_micros(100), wakes.next()).await {
            break event;
        }
        assert!(begun.elapsed() < PATIENCE, "it is lost");
    };
    assert_eq!(event, WakeEvent::Wake(wake));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn generation_lost_by_its_hash_leaves_no_stream() {
    let stage = stage().await;
    stage.begin("a", 8, 0).await;
    stage.fan(1, &[8]).await;
    stage.on_inbox(8, "return redis.call('DEL', KEYS[1])", "").await;
    let opened = stage.open("a", 8).await;
    assert_eq!(opened.position, 0);
    assert_eq!(stage.on_inbox(8, "return redis.call('EXISTS', KEYS[2])", "").await, Reply::Number(0));
    assert_eq!(stage.read(8, opened.generation, 0).await, ReadOutcome::Entries(Vec::new()));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn inbox_opens_once_its_node_follows_the_epoch() {
    let stage = stage().await;
    let open = async || stage.keeper.open(&node("a"), &[user(8)]).await.remove(0);
    // Another node has begun two epochs, and this node has yet to follow.
    *stage.epochs.settled.lock() = Some(7);
    let follows = async {
        sleep(Duration::from_millis(100)).await;
        *stage.epochs.followed.lock() = None;
        sleep(Duration::from_millis(100)).await;
        stage.follow(7);
    };
    let (opened, ()) = tokio::join!(open(), follows);
    assert_eq!(opened.unwrap().generation.epoch, 7);
}

/// Inboxes in the test's own Redis.
async fn stage_at(url: String) -> InboxStage {
    InboxStage::over(TestRedis::connect_to(url).await, InboxLimits::default())
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn fan_out_to_one_server_is_one_script() {
    let redis = OneRedis::start(false).await;
    let stage = stage_at(redis.url()).await;
    let ids: Vec<i64> = (1..=500).collect();
    let scripts_of = async |last, ids: &[i64]| {
        let before = redis.scripts();
        assert_eq!(stage.fan(last, ids).await.failed, None);
        redis.scripts() - before
    };
    // The server does not know the script yet.
    scripts_of(1, &ids[..1]).await;
    assert_eq!(scripts_of(2, &ids).await, 1, "no user has an inbox");
    for id in 101..=132 {
        stage.begin("a", id, 2).await;
    }
    assert_eq!(scripts_of(3, &ids).await, 1, "32 of 500 users have one");
    stage.begin("a", 499, 2).await;
    assert_eq!(scripts_of(4, &ids).await, 2, "one more has one");
    for id in (133..=500).filter(|id| *id != 499) {
        stage.begin("a", id, 2).await;
    }
    // The first script enters 32 inboxes, and twelve others the rest out of 400.
    assert_eq!(scripts_of(5, &ids).await, 13, "400 have one");
    assert_eq!(scripts_of(6, &[]).await, 0);
}

/// An earlier plan had this fault: on a Redis Cluster no script may have inboxes for users in several slots.
#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn fan_out_runs_on_redis_cluster() {
    let (cluster, one) = (RedisCluster::start().await, OneRedis::start(true).await);
    // The second server's address does not say that it is a cluster.
    for url in [cluster.url(), one.url()] {
        let stage = stage_at(url.clone()).await;
        let ids: Vec<i64> = (1..=100).collect();
        let mut generations = Vec::new();
        for id in 1..=50 {
            generations.push((id, stage.begin("a", id, 0).await));
        }
        let fanned = stage.fan(1, &ids).await;
        assert_eq!((fanned.failed, fanned.without_receiver.len()), (None, 50), "{url}");
        for (id, generation) in generations {
            let ReadOutcome::Entries(entries) = stage.read(id, generation, 0).await else { panic!("{url}") };
            assert_eq!(entries.len(), 1, "{url}");
        }
    }
    assert!(cluster.keys().into_iter().all(|keys| keys > 0), "each node has inboxes");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn wakes_of_each_slot_arrive_over_redis_cluster() {
    let cluster = RedisCluster::start().await;
    let stage = stage_at(cluster.url()).await;
    let mut wakes = stage.keeper.subscribe(&node("a"));
    assert_eq!(wakes.next().await, WakeEvent::Interrupted);
    let lost = |id| NodeWake { node: node("a"), wake: Wake::Lost { user: user(id) } };
    let sent: Vec<NodeWake> = (1..=32).map(lost).collect();
    stage.keeper.publish(&sent).await.unwrap();
    let mut left: Vec<Wake> = sent.into_iter().map(|sent| sent.wake).collect();
    while !left.is_empty() {
        let WakeEvent::Wake(wake) = timeout(PATIENCE, wakes.next()).await.unwrap() else {
            panic!("nothing was lost")
        };
        let at = left.iter().position(|sent| *sent == wake).expect("each comes once");
        left.remove(at);
    }
}
