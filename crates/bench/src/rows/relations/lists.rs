//! Pages in long lists: deep pages over the first page, both from the store.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kith_store::{FollowList, FollowStore, ImportedFollow, ListPosition, Timestamp, UserId};
use tokio::time::{Instant, sleep};

use super::{
    cql::{Keyspace, over_keyspace},
    graph::{CHUNK, import, star},
    sqlite::DataFile,
};
use crate::{
    claims::{FANS_DEEP_CQL, FANS_DEEP_SQLITE, FRIENDS_COLD_CQL, Plan},
    ratio::{Pair, Side, compare_micros, interleave, median, nanos},
    results::Results,
};

/// The user who has all the fans.
const CELEBRITY: i64 = 1;
/// Entries on a page.
const PAGE: usize = 50;
/// The most rows in a list part.
const PART_MAX: i64 = 100_000;
/// The pause between the moments of two imports.
const APART: Duration = Duration::from_millis(2);
/// This long after an import, all its parts but the last are closed: then pages look into one or two parts.
pub(super) const CLOSES_WITHIN: Duration = Duration::from_secs(8 * 60);

/// Runs the requested rows.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    results.row(&FANS_DEEP_SQLITE, deep_in_sqlite(plan)).await?;
    let deep = async |keyspace: &Keyspace| deep_in_cql(plan, keyspace).await;
    over_keyspace(plan, results, &FANS_DEEP_CQL, deep).await?;
    over_keyspace(plan, results, &FRIENDS_COLD_CQL, async |keyspace| friends(plan, keyspace).await).await
}

async fn deep_in_sqlite(plan: &Plan) -> Result<Vec<Pair<f64>>> {
    let file = DataFile::open().await?;
    let bottom = fill(plan, &file.stores.follows).await?;
    let pairs = deep(plan, &file.stores.follows, bottom).await?;
    file.close().await;
    Ok(pairs)
}

async fn deep_in_cql(plan: &Plan, keyspace: &Keyspace) -> Result<Vec<Pair<f64>>> {
    let bottom = fill(plan, &keyspace.stores.follows).await?;
    if !plan.quick {
        keyspace.raw.closes_parts(CELEBRITY, FollowList::Fans, CLOSES_WITHIN).await?;
    }
    let pairs = deep(plan, &keyspace.stores.follows, bottom).await?;
    let largest = keyspace.raw.largest_part(CELEBRITY).await?;
    println!("fans_deep_cql: the largest part has {largest} rows");
    ensure!(largest <= PART_MAX, "a part of the list has {largest} rows");
    Ok(pairs)
}

/// Milliseconds to read all friends of a user whose fans are exactly the users it follows, by a node with
/// empty memory, over both lists read by the driver.
async fn friends(plan: &Plan, keyspace: &Keyspace) -> Result<Vec<Pair<f64>>> {
    let of_each: i64 = plan.size(2_000, 100);
    let fans = star(CELEBRITY, 2..2 + of_each)?;
    let following = fans.iter().map(|fan| ImportedFollow { edge: fan.edge.reversed(), ..*fan });
    import(&keyspace.stores.follows, &following.chain(fans.iter().copied()).collect::<Vec<_>>()).await?;
    let node = keyspace.served(plan, None).await?;
    let expected = usize::try_from(of_each)?;
    let reads = plan.size(10, 2);
    interleave(plan.rounds, async |side| {
        let mut taken = Vec::with_capacity(reads);
        for _ in 0..reads {
            if side == Side::Kith {
                node.forget().await?;
            }
            let begun = Instant::now();
            match side {
                Side::Baseline => {
                    let read = keyspace.raw.both_lists(CELEBRITY).await?;
                    ensure!(read == 2 * expected, "only {read} entries were read");
                }
                Side::Kith => {
                    let found = node.friends(CELEBRITY).await?;
                    ensure!(found == expected, "only {found} friends were found");
                }
            }
            taken.push(nanos(begun.elapsed()) / 1e6);
        }
        Ok(median(taken))
    })
    .await
}

/// Fills a list of fans; returns the place after which the last page begins.
async fn fill(plan: &Plan, store: &Arc<dyn FollowStore>) -> Result<ListPosition> {
    let fans = star(CELEBRITY, 2..2 + plan.size(1_000_000, 2_000))?;
    let (first, others) = fans.split_at(CHUNK);
    // This chunk is imported first, so that its users are last in the list.
    let at = Timestamp::now();
    store.import_follows(first, at).await?;
    sleep(APART).await;
    import(store, others).await?;
    let last = first.get(PAGE).context("there are too few")?;
    Ok(ListPosition { at, user: last.edge.from })
}

/// Times pages in a list of fans: the first pages, and the last pages.
async fn deep(plan: &Plan, store: &Arc<dyn FollowStore>, bottom: ListPosition) -> Result<Vec<Pair<f64>>> {
    let (pieces, reads) = plan.size((20, 20), (1, 5));
    compare_micros(plan.rounds, pieces, reads, async |side| {
        let after = side.of(None, Some(bottom));
        let page = store.follow_list(UserId::new(CELEBRITY)?, FollowList::Fans, after, PAGE).await?;
        ensure!(page.len() == PAGE, "a page is short: {}", page.len());
        Ok(())
    })
    .await
}
