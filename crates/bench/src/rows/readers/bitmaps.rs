//! How many readers have read a notice, by its bitmaps, over two BITCOUNT; and what these bitmaps take.

use std::{hint::black_box, time::Duration};

use anyhow::{Result, bail, ensure};
use fred::types::Value;
use kith_delivery::{BitmapFill, ReaderBitmaps as _, ReaderSection, RedisBitmaps, SectionBits};
use kith_lab_servers::{redis_server::RedisServer, resp};
use kith_store::{AudienceId, ReaderOrdinal, Slot};

use crate::{
    claims::{NOTICE_BYTES, NOTICE_READERS, Plan},
    ratio::{Pair, Side},
    results::Results,
    rows::{latency::compare_medians, one_epoch::one_epoch, redis::RawRedis},
};

/// The number of readers in the audience; every second reader has read the notice.
const READERS: ReaderOrdinal = 100_000;
const SLOT: Slot = 70;
/// Longer than any run.
const KEPT: Duration = Duration::from_hours(1);

/// Runs the requested rows. Without Redis, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&NOTICE_READERS, &NOTICE_BYTES]) || plan.redis.is_none() {
        return Ok(());
    }
    // A separate Redis, which has no other keys.
    let redis = RedisServer::start(&[]).await?;
    let stage = BitmapStage::start(&redis).await?;
    results.row(&NOTICE_READERS, stage.counts(plan)).await?;
    let bytes = Pair { baseline: f64::from(READERS) / 8.0, kith: stage.bytes().await? };
    results.add(&NOTICE_BYTES, &vec![bytes; plan.rounds])
}

struct BitmapStage<'a> {
    redis: &'a RedisServer,
    raw: RawRedis,
    bitmaps: RedisBitmaps,
    sections: Vec<ReaderSection>,
}

impl<'a> BitmapStage<'a> {
    async fn start(redis: &'a RedisServer) -> Result<Self> {
        let (runner, epoch) = one_epoch(redis).await?;
        let bitmaps = RedisBitmaps::over(runner, epoch);
        let sections: Vec<_> = ReaderSection::below(AudienceId::new(1)?, READERS).collect();
        for section in &sections {
            let ticket = bitmaps.begin_fill(*section).await?;
            let mut bits = SectionBits::default();
            let ordinals = section.ordinals();
            // The last reader is among them, so that no bitmap is shorter than it has to be.
            (ordinals.start..ordinals.end.min(READERS))
                .filter(|reader| reader % 2 == 1)
                .for_each(|reader| bits.set(reader));
            let filled = bitmaps.fill(*section, &ticket, vec![(SLOT, bits)], KEPT).await?;
            ensure!(matches!(filled[..], [BitmapFill::Filled(_)]), "a bitmap is not filled: {filled:?}");
        }
        let raw = RawRedis::patient(&redis.uri(), "raw").await?;
        Ok(Self { redis, raw, bitmaps, sections })
    }

    /// Microseconds that the median count takes.
    async fn counts(&self, plan: &Plan) -> Result<Vec<Pair<f64>>> {
        let (calls, keys) = (plan.size(2_000, 20), self.keys().await?);
        compare_medians(plan.rounds, calls, async |side| match side {
            Side::Baseline => self.count_bits(&keys).await,
            Side::Kith => self.count().await,
        })
        .await
    }

    async fn count(&self) -> Result<()> {
        let counts = self.bitmaps.count(&self.sections, &[SLOT]).await?;
        let read: u64 = counts.iter().flatten().copied().map(Option::unwrap_or_default).sum();
        ensure!(read == u64::from(READERS) / 2, "{read} have read the notice");
        Ok(())
    }

    async fn count_bits(&self, keys: &[String]) -> Result<()> {
        let count = |key: &String| ("BITCOUNT", vec![Value::from(key.as_str())]);
        black_box(self.raw.together(keys.iter().map(count)).await)
    }

    /// Bytes in the bitmaps.
    async fn bytes(&self) -> Result<f64> {
        let mut bytes = 0.0;
        for key in self.keys().await? {
            let resp::Value::Number(length) = self.redis.ask(&["STRLEN", &key]).await? else {
                bail!("Redis does not say how long a bitmap is")
            };
            bytes += f64::from(i32::try_from(length)?);
        }
        Ok(bytes)
    }

    async fn keys(&self) -> Result<Vec<String>> {
        let keys = self.redis.ask(&["KEYS", "*:of:*"]).await?.texts();
        ensure!(keys.len() == self.sections.len(), "there are {} bitmaps", keys.len());
        Ok(keys)
    }
}
