//! Pages of long lists: deep ones over the first one, both from the store.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use kith_store::{FollowList, FollowStore, Place, UserId};

use super::{
    graph::{import, star},
    sqlite::DataFile,
};
use crate::{
    bench::{FANS_DEEP_SQLITE, Plan},
    ratio::{Pair, Pieces, Row, Side, interleave},
};

/// Who has all the fans.
const CELEBRITY: i64 = 1;
/// Entries of a page.
const PAGE: usize = 50;
/// Entries that are passed over in one go on the way down.
const STRIDE: usize = 5_000;

/// Runs what is asked for.
pub(super) async fn rows(plan: &Plan) -> Result<Vec<Row>> {
    if !plan.wants(&FANS_DEEP_SQLITE) {
        return Ok(Vec::new());
    }
    let file = DataFile::open().await?;
    let pairs = deep(plan, &file.stores.follows).await?;
    file.close().await;
    Ok(vec![Row::new(&FANS_DEEP_SQLITE, &pairs)?])
}

/// Fills a list of fans and times its pages: the first ones, and the last ones.
pub(super) async fn deep(plan: &Plan, store: &Arc<dyn FollowStore>) -> Result<Vec<Pair<f64>>> {
    let fans: i64 = plan.size(1_000_000, 2_000);
    import(store, &star(CELEBRITY, 2..2 + fans)?).await?;
    let bottom = bottom(store, usize::try_from(fans)?).await?;
    let (pieces, reads) = plan.size((20, 20), (1, 5));
    interleave(plan.rounds, async |side| {
        let after = match side {
            Side::Baseline => None,
            Side::Kith => Some(bottom),
        };
        let mut taken = Pieces::begin();
        for _ in 0..pieces {
            for _ in 0..reads {
                let page = store.follow_list(UserId::new(CELEBRITY)?, FollowList::Fans, after, PAGE).await?;
                ensure!(page.len() == PAGE, "a page is short: {}", page.len());
            }
            taken.end_piece(reads);
        }
        Ok(taken.nanos_an_operation() / 1e3)
    })
    .await
}

/// The place after which the last page begins.
async fn bottom(store: &Arc<dyn FollowStore>, fans: usize) -> Result<Place> {
    let (mut after, mut passed) = (None, 0);
    while passed + PAGE < fans {
        let stride = STRIDE.min(fans - PAGE - passed);
        let page = store.follow_list(UserId::new(CELEBRITY)?, FollowList::Fans, after, stride).await?;
        ensure!(page.len() == stride, "the list ends too early, at {passed}");
        passed += stride;
        after = page.last().map(kith_store::Follow::place_among_fans);
    }
    after.context("the list is too short")
}
