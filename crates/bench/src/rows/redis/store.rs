//! What goes to MongoDB through the tier that nodes share.

use std::sync::Arc;

use anyhow::Result;
use kith_cache::{
    Version,
    remote::{Cell, Codec as _},
};
use kith_lab_servers::people;

use super::{
    raw::RawRedis,
    site::{Place, Site},
};
use crate::{
    claims::{MISS, Plan, WRITE_TOLD},
    ratio::{Pair, Side, interleave},
    results::Results,
    rows::{
        mongodb::{Document, FilledDatabase, RawUsers},
        store::{Reads, Tiered, Updates, time_one, time_updates},
    },
};
use kith_service::write::record_codec::RecordCodec;

/// The same by hand.
struct ByHand {
    users: Arc<RawUsers>,
    redis: RawRedis,
    copy: Vec<u8>,
}

impl Reads for ByHand {
    type Read = Vec<Document>;

    /// Redis has nothing; MongoDB is asked, and Redis is given what it said.
    async fn one(&self, id: i64) -> Result<Self::Read> {
        self.redis.ask_for_nothing(id).await?;
        let read = self.users.one(id).await?;
        self.redis.put(id, self.copy.clone()).await?;
        Ok(read)
    }

    async fn many(&self, ids: &[i64]) -> Result<Self::Read> {
        self.users.many(ids).await
    }
}

impl Updates for ByHand {
    async fn rename(&self, id: i64, nick_name: String) -> Result<()> {
        self.users.rename(id, nick_name).await?;
        self.redis.tell(id, self.copy.clone()).await
    }
}

/// Runs what is asked for; nothing where there is no MongoDB.
pub(super) async fn rows(plan: &Plan, url: &str, results: &mut Results<'_>) -> Result<()> {
    let asked = plan.wants(&MISS) || plan.wants(&WRITE_TOLD);
    let Some(uri) = plan.mongodb.as_ref().filter(|_| asked) else { return Ok(()) };
    let users = plan.size(10_000, 400);
    let database = FilledDatabase::with(uri, users).await?;
    let measured = measure(plan, url, &database, users, results).await;
    database.remove().await?;
    measured
}

async fn measure(
    plan: &Plan,
    url: &str,
    database: &FilledDatabase,
    users: i64,
    results: &mut Results<'_>,
) -> Result<()> {
    let place = Place::new(url);
    let site: Site = place.site().await?;
    let tiered = Tiered::among(&database.store, &site);
    let copy = Cell::value(1, Version::new(1), RecordCodec::USER.encode(&people::user(1)?)).to_bytes();
    let redis = RawRedis::connect(url, &place.tag()).await?;
    let by_hand = Arc::new(ByHand { users: Arc::clone(&database.raw), redis, copy });
    if plan.wants(&MISS) {
        results.add(&MISS, &misses(plan, &tiered, &by_hand, users).await?)?;
    }
    if plan.wants(&WRITE_TOLD) {
        let (pieces, writes) = plan.size((20, 25), (1, 5));
        let pairs = interleave(plan.rounds, async |side| {
            let ids = people::shuffled(users, 1);
            match side {
                Side::Baseline => time_updates(Arc::clone(&by_hand), ids, pieces, writes).await,
                Side::Kith => time_updates(Arc::clone(&tiered), ids, pieces, writes).await,
            }
        });
        results.add(&WRITE_TOLD, &pairs.await?)?;
    }
    Ok(())
}

async fn misses(
    plan: &Plan,
    tiered: &Arc<Tiered>,
    by_hand: &Arc<ByHand>,
    users: i64,
) -> Result<Vec<Pair<f64>>> {
    let (pieces, reads) = plan.size((20, 50), (1, 10));
    let mut seed = 0;
    interleave(plan.rounds, async |side| {
        seed += 1;
        let ids = people::shuffled(users, seed);
        match side {
            Side::Baseline => time_one(Arc::clone(by_hand), ids, pieces, reads).await,
            Side::Kith => {
                tiered.forget(&ids).await?;
                time_one(Arc::clone(tiered), ids, pieces, reads).await
            }
        }
    })
    .await
}
