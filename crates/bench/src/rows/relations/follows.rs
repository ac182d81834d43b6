//! Follows in CQL: one follow over its bare statements, and a celebrity's follows over those by many users.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Edge, Timestamp, UserId, Write};

use super::cql::{Keyspace, over_keyspace};
use crate::{
    claims::{CELEBRITY_CQL, FOLLOW_CQL, Plan},
    ratio::{Pair, Side, compare_micros, interleave, per_second},
    results::Results,
    rows::until_done::retry,
};

/// How long a follow that is taken back keeps its place.
const KEPT: Duration = Duration::from_secs(3600);
/// Callers that follow at the same time.
const CALLERS: usize = 64;
/// How many users the same follows are spread over.
const SPREAD: i64 = 1_000;
/// How long counts may take to be exact.
const QUIET: Duration = Duration::from_secs(60);

/// Runs the requested rows. Without CQL, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    over_keyspace(plan, results, &FOLLOW_CQL, async |keyspace| one_by_one(plan, keyspace).await).await?;
    over_keyspace(plan, results, &CELEBRITY_CQL, async |keyspace| celebrity(plan, keyspace).await).await
}

/// Microseconds for a follow. The follows are sequential, each between new users.
async fn one_by_one(plan: &Plan, keyspace: &Keyspace) -> Result<Vec<Pair<f64>>> {
    let (pieces, follows) = plan.size((20, 50), (1, 5));
    let mut next = 1;
    compare_micros(plan.rounds, pieces, follows, async |side| {
        next += 2;
        let edge = Edge::new(UserId::new(next)?, UserId::new(next + 1)?)?;
        let stamp = Timestamp::now().0 * 1000;
        match side {
            Side::Baseline => keyspace.raw.follow(edge, stamp).await?,
            Side::Kith => {
                keyspace.stores.follows.follow(edge, KEPT, Write::at(Timestamp::now())).await?;
            }
        }
        Ok(())
    })
    .await
}

/// Follows a second by a thousand users, and by one user. Counts must be exact after quiet.
async fn celebrity(plan: &Plan, keyspace: &Keyspace) -> Result<Vec<Pair<f64>>> {
    let follows: i64 = plan.size(10_000, 100);
    let (mut next, mut of_one) = (10_000_000, 0);
    let pairs = interleave(plan.rounds, async |side| {
        let fans = next..next + follows;
        next += follows;
        of_one += if side == Side::Kith { follows } else { 0 };
        let target = |fan: i64| side.of(2 + fan % SPREAD, 1);
        let calls = stream::iter(fans).map(async |fan| {
            let edge = Edge::new(UserId::new(fan)?, UserId::new(target(fan))?)?;
            keyspace.stores.follows.follow(edge, KEPT, Write::at(Timestamp::now())).await?;
            anyhow::Ok(())
        });
        let calls = calls.buffer_unordered(CALLERS).try_collect::<()>();
        per_second(usize::try_from(follows)?, calls).await
    })
    .await?;
    retry(QUIET, Duration::from_millis(100), async || {
        let fans = keyspace.stores.follows.follow_counts(&[UserId::new(1)?]).await?[0].fans;
        ensure!(fans == u64::try_from(of_one)?, "{fans} fans are counted of {of_one}");
        Ok(())
    })
    .await?;
    Ok(pairs)
}
