//! Rules of the keeper that random histories hardly ever need.

use std::time::Duration;

use kith_delivery::{
    Confirm, Fill, FillOutcome, HoldToken, LeaseToken, ServerTime, Span, WindowKeeper as _, WindowLimits,
    WindowLookup, entry,
};

use crate::stage::{Stage, log_of, message};

const ASKED: Span = Span { first: 1, last: 3 };
const TOKEN: LeaseToken = LeaseToken(1);

/// A log with three messages but no window, and when a lookup got the lease.
async fn leased() -> (Stage, ServerTime) {
    let stage = Stage::new(WindowLimits::default()).await;
    stage.logs.append(log_of(9), 3, 0);
    match stage.keeper.look_up(log_of(9), ASKED, TOKEN).await.unwrap() {
        WindowLookup::Miss { at } => (stage, at),
        lookup => panic!("{lookup:?}"),
    }
}

fn fill(at: ServerTime) -> Fill {
    let entries = (1..=3).map(|seq| entry::encode(&message(seq, 0)).unwrap()).collect();
    Fill { conversation: log_of(9), token: TOKEN, at, span: ASKED, entries, has_headers: false }
}

fn earlier(at: ServerTime, seconds: i64) -> ServerTime {
    ServerTime { ms: at.ms - 1_000 * seconds, ..at }
}

async fn age(stage: &Stage) -> Duration {
    match stage.keeper.look_up(log_of(9), ASKED, TOKEN).await.unwrap() {
        WindowLookup::Hit { window, .. } => window.age.unwrap(),
        lookup => panic!("{lookup:?}"),
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn lease_ends_with_a_hold() {
    let (stage, at) = leased().await;
    let hold = HoldToken(2);
    stage.keeper.hold(log_of(9), hold, Duration::from_secs(15)).await.unwrap();
    stage.keeper.release(log_of(9), hold).await.unwrap();
    assert_eq!(
        stage.keeper.fill(&[fill(at)]).await,
        [Ok(FillOutcome::Lost)],
        "it was read before the change"
    );
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn proof_counts_from_the_look_before_its_read() {
    let (stage, at) = leased().await;
    assert_eq!(stage.keeper.fill(&[fill(earlier(at, 60))]).await, [Ok(FillOutcome::Stored)]);
    assert!(age(&stage).await >= Duration::from_secs(60), "of a fill");
    let known = Confirm { conversation: log_of(9), at: earlier(at, 30), end: 3 };
    stage.keeper.confirm(&[known]).await.remove(0).unwrap();
    let age = age(&stage).await;
    assert!((30..60).contains(&age.as_secs()), "of a comparison: {age:?}");
}
