//! Follows in CQL: one over its bare statements, and a celebrity's over those of many users.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Edge, Timestamp, UserId, Write};
use tokio::time::{Instant, sleep};

use super::cql::Keyspace;
use crate::{
    claims::{CELEBRITY_CQL, FOLLOW_CQL, FOLLOW_TWO_ROWS_CQL, Plan},
    ratio::{Pair, Pieces, Side, count, interleave},
    results::Results,
};

/// How long a follow that is taken back keeps its place.
const KEPT: Duration = Duration::from_secs(3600);
/// Callers that follow at the same time.
const CALLERS: usize = 64;
/// Users over whom the same follows are spread.
const SPREAD: i64 = 1_000;
/// How long counts may take to be exact.
const QUIET: Duration = Duration::from_secs(60);

/// Runs what is asked for; nothing where there is no CQL.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    for claim in [&FOLLOW_CQL, &FOLLOW_TWO_ROWS_CQL] {
        let Some(keyspace) = wanted(plan, claim).await? else { continue };
        let two_rows = claim.name == FOLLOW_TWO_ROWS_CQL.name;
        results.add(claim, &one_by_one(plan, &keyspace, two_rows).await?)?;
        keyspace.remove(plan).await?;
    }
    if let Some(keyspace) = wanted(plan, &CELEBRITY_CQL).await? {
        results.add(&CELEBRITY_CQL, &celebrity(plan, &keyspace).await?)?;
        keyspace.remove(plan).await?;
    }
    Ok(())
}

async fn wanted(plan: &Plan, claim: &crate::ratio::Claim) -> Result<Option<Keyspace>> {
    if plan.wants(claim) { Keyspace::open(plan, claim.name).await } else { Ok(None) }
}

/// Microseconds of a follow, one after the other, each of new users.
async fn one_by_one(plan: &Plan, keyspace: &Keyspace, two_rows: bool) -> Result<Vec<Pair<f64>>> {
    let (pieces, follows) = plan.size((20, 50), (1, 5));
    let mut next = 1;
    interleave(plan.rounds, async |side| {
        let mut taken = Pieces::begin();
        for _ in 0..pieces {
            for _ in 0..follows {
                next += 2;
                let edge = Edge::new(UserId::new(next)?, UserId::new(next + 1)?)?;
                let stamp = Timestamp::now().0 * 1000;
                match side {
                    Side::Baseline if two_rows => keyspace.raw.two_rows(edge, stamp).await?,
                    Side::Baseline => keyspace.raw.follow(edge, stamp).await?,
                    Side::Kith => {
                        keyspace.stores.follows.follow(edge, KEPT, Write::at(Timestamp::now())).await?;
                    }
                }
            }
            taken.end_piece(follows);
        }
        Ok(taken.nanos_an_operation() / 1e3)
    })
    .await
}

/// Follows a second: of a thousand users, and of one. Counts must be exact after quiet.
async fn celebrity(plan: &Plan, keyspace: &Keyspace) -> Result<Vec<Pair<f64>>> {
    let follows: i64 = plan.size(10_000, 100);
    let (mut next, mut of_one) = (10_000_000, 0);
    let pairs = interleave(plan.rounds, async |side| {
        let fans = next..next + follows;
        next += follows;
        of_one += if side == Side::Kith { follows } else { 0 };
        let target = |fan: i64| if side == Side::Kith { 1 } else { 2 + fan % SPREAD };
        let begun = Instant::now();
        let calls = stream::iter(fans).map(async |fan| {
            let edge = Edge::new(UserId::new(fan)?, UserId::new(target(fan))?)?;
            keyspace.stores.follows.follow(edge, KEPT, Write::at(Timestamp::now())).await?;
            anyhow::Ok(())
        });
        calls.buffer_unordered(CALLERS).try_collect::<()>().await?;
        Ok(count(usize::try_from(follows)?) / begun.elapsed().as_secs_f64())
    })
    .await?;
    let until = Instant::now() + QUIET;
    loop {
        let fans = keyspace.stores.follows.follow_counts(&[UserId::new(1)?]).await?[0].fans;
        if fans == u64::try_from(of_one)? {
            return Ok(pairs);
        }
        ensure!(Instant::now() < until, "{fans} fans are counted of {of_one}");
        sleep(Duration::from_millis(100)).await;
    }
}
