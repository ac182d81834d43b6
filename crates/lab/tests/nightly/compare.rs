//! The comparison works: the same faults are done to every scheme, and what is to be seen of them is seen.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use futures::future::join_all;
use kith_lab::{
    proxy::{Mode, Proxy},
    redis_server::RedisServer,
    resp,
    rivals::{Fault, Run, Scheme, Sizes, run},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const SEED: u64 = 1;
const SOON: Duration = Duration::from_secs(5);

async fn quick(scheme: Scheme, fault: Fault) -> Run {
    let run = run(scheme, fault, &Sizes::QUICK, SEED).await.unwrap();
    assert_eq!((run.ages.failed, run.refused), (0, 0), "{run:?}");
    assert!(run.ages.reads > 1_000 && run.writes > 50, "{run:?}");
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_fault_every_scheme_makes_the_same_writes_and_kith_ends_with_nothing_stale() {
    let runs = join_all(Scheme::ALL.map(|scheme| quick(scheme, Fault::Nothing))).await;
    for run in &runs {
        assert_eq!(run.writes, runs[0].writes, "{run:?}");
        assert!(run.scheme != Scheme::Kith || (run.stale_for_ever, run.ages.beyond) == (0, 0), "{run:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_a_write_overtook_stays_where_copies_are_deleted_and_published_and_not_in_kith() {
    let kith = quick(Scheme::Kith, Fault::Races).await;
    let other = quick(Scheme::DeleteAndPublish, Fault::Races).await;
    assert!(kith.loads > 50 && other.loads > 50, "nothing is raced: {kith:?}, {other:?}");
    assert_eq!((kith.stale_for_ever, kith.ages.beyond), (0, 0), "{kith:?}");
    assert!(other.stale_for_ever > 0 && other.ages.beyond > 0, "{other:?}");
}

/// Whether the connection answers.
async fn answers(stream: &mut TcpStream, words: &[&str]) -> bool {
    let asked = stream.write_all(&resp::command(words)).await;
    let read = timeout(SOON, stream.read(&mut [0; 256])).await.expect("an answer or an end");
    asked.is_ok() && read.is_ok_and(|length| length > 0)
}

#[tokio::test]
async fn a_link_that_refuses_subscriptions_resets_those_and_no_others() {
    let redis = RedisServer::start(&[]).await.unwrap();
    let link = Proxy::of_messages(redis.address(), SEED).await.unwrap();
    let connect = || TcpStream::connect(link.address());
    let (mut asks, mut hears) = (connect().await.unwrap(), connect().await.unwrap());
    assert!(answers(&mut asks, &["PING"]).await && answers(&mut hears, &["SUBSCRIBE", "news"]).await);
    link.set_subscriptions(Mode::Refuse);
    let heard = timeout(SOON, hears.read(&mut [0; 256])).await.unwrap();
    assert!(!heard.is_ok_and(|length| length > 0), "the subscription goes on");
    assert!(answers(&mut asks, &["PING"]).await);
    let mut anew = connect().await.unwrap();
    assert!(answers(&mut anew, &["PING"]).await);
    // Its word may come before its end.
    anew.write_all(&resp::command(&["SUBSCRIBE", "news"])).await.unwrap();
    let ended = async { while anew.read(&mut [0; 256]).await.is_ok_and(|length| length > 0) {} };
    timeout(SOON, ended).await.expect("the new subscription ends");
    link.set_subscriptions(Mode::Pass);
    assert!(answers(&mut connect().await.unwrap(), &["SUBSCRIBE", "news"]).await);
}
