//! Measures what goes to MongoDB through the tier that nodes share.

use std::sync::Arc;

use anyhow::Result;
use kith_cache::{
    Version,
    remote::{Cell, Codec as _},
};
use kith_lab_servers::people;

use super::{
    raw::RawRedis,
    site::{BenchCluster, Site},
};
use crate::{
    claims::{MISS, Plan, WRITE_PUBLISHED},
    results::Results,
    rows::{
        mongodb::{Document, FilledDatabase, RawUsers},
        store::{ReadSizes, Reads, Tiered, Updates, compare_reads, compare_updates},
    },
};
use kith_service::write::record_codec::RecordCodec;

/// Cache-aside over bare Redis and MongoDB clients.
struct BareCacheAside {
    users: Arc<RawUsers>,
    redis: RawRedis,
    copy: Vec<u8>,
}

impl Reads for BareCacheAside {
    type Read = Vec<Document>;

    /// Redis has nothing: reads from MongoDB, and writes the answer to Redis.
    async fn read(&self, ids: &[i64]) -> Result<Self::Read> {
        for id in ids {
            self.redis.ask_for_nothing(*id).await?;
        }
        let read = self.users.read(ids).await?;
        for id in ids {
            self.redis.put(*id, self.copy.clone()).await?;
        }
        Ok(read)
    }
}

impl Updates for BareCacheAside {
    async fn rename(&self, id: i64, nick_name: String) -> Result<()> {
        self.users.rename(id, nick_name).await?;
        self.redis.publish(id, self.copy.clone()).await
    }
}

/// Runs the requested rows. Without MongoDB, no row runs.
pub(super) async fn rows(plan: &Plan, url: &str, results: &mut Results<'_>) -> Result<()> {
    let is_asked = plan.wants_any(&[&MISS, &WRITE_PUBLISHED]);
    let Some(uri) = plan.mongodb.as_ref().filter(|_| is_asked) else { return Ok(()) };
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
    let cluster = BenchCluster::new(url);
    let site: Site = cluster.site().await?;
    let tiered = Tiered::among(&database.stores.users, &site.cached);
    let copy = Cell::value(1, Version::new(1), RecordCodec::USER.encode(&people::user(1)?)).to_bytes();
    let redis = RawRedis::connect(url, &cluster.tag()).await?;
    let by_hand = Arc::new(BareCacheAside { users: Arc::clone(&database.raw), redis, copy });
    let (pieces, reads) = plan.size((20, 50), (1, 10));
    let misses = compare_reads(plan, &tiered, &by_hand, users, ReadSizes { batch: 1, pieces, reads });
    results.row(&MISS, misses).await?;
    results.row(&WRITE_PUBLISHED, compare_updates(plan, &tiered, &by_hand, users)).await
}
