//! Counts a reader's read notices from its record in Redis, over a GET of the same bytes; and the common
//! script over bitmaps with a key for each notice.

use std::{hint::black_box, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use fred::interfaces::{KeysInterface as _, LuaInterface as _};
use kith_cache::Policy;
use kith_lab_servers::redis_server::RedisServer;
use kith_service::write::record_codec::RecordCodec;
use kith_store::{
    Audience, AudienceEntry, AudienceId, NoticeId, NoticeReader, NoticeTotals, ReadBits, ReaderId, ReaderKey,
    Slot, Text, Timestamp, Version,
};

use super::{filled::FilledRedis, raw::RawRedis};
use crate::{
    claims::{
        NOTICE_TOTALS_10, NOTICE_TOTALS_10_SCRIPT, NOTICE_TOTALS_100, NOTICE_TOTALS_100_SCRIPT,
        NOTICE_TOTALS_1000, NOTICE_TOTALS_1000_SCRIPT, Plan,
    },
    ratio::{Claim, Pair, Side},
    results::Results,
    rows::latency::compare_medians,
};

/// Readers for each notice; the script's bitmaps have their bits.
const READERS: u32 = 100_000;
/// How many other keys there are.
const OTHERS: usize = 1_000;
const READER: i64 = 7;
/// The published way: finds the keys for all notices, and looks at one reader's bit in each.
const SCRIPT: &str = "local keys = redis.call('KEYS', ARGV[1]) local read = 0 \
    for _, value in ipairs(redis.call('MGET', unpack(keys))) do \
      local byte = string.byte(value, math.floor(ARGV[2] / 8) + 1) or 0 \
      if bit.band(byte, bit.rshift(128, ARGV[2] % 8)) ~= 0 then read = read + 1 end \
    end return {#keys, read}";

/// Runs the requested rows. Without Redis, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let sizes: [(&Claim, &Claim, u32); 3] = [
        (&NOTICE_TOTALS_10, &NOTICE_TOTALS_10_SCRIPT, 10),
        (&NOTICE_TOTALS_100, &NOTICE_TOTALS_100_SCRIPT, 100),
        (&NOTICE_TOTALS_1000, &NOTICE_TOTALS_1000_SCRIPT, 1_000),
    ];
    for (totals, script, notices) in sizes {
        if plan.wants_any(&[totals, script]) {
            // A separate Redis: the script looks at all key names.
            let redis = RedisServer::start(&[]).await?;
            let stage = TotalsStage::start(plan, &redis, notices).await?;
            results.row(totals, stage.compare(plan, async |key| stage.get(key).await)).await?;
            results.row(script, stage.compare(plan, async |_| stage.run_script().await)).await?;
        }
    }
    Ok(())
}

/// All sides: an audience in memory, its readers and its notices' bitmaps in Redis.
struct TotalsStage {
    audience: Audience,
    readers: Arc<FilledRedis<NoticeReader>>,
    /// A client for the script, which may take longer than any other call.
    script: RawRedis,
    reads: i64,
}

impl TotalsStage {
    /// Starts with a reader that has read half of `notices` notices.
    async fn start(plan: &Plan, redis: &RedisServer, notices: u32) -> Result<Self> {
        let reads = plan.size(500, 20);
        // Each side in every round of both rows reads others.
        let records = 4 * i64::try_from(plan.rounds)? * reads;
        let url = redis.uri();
        let policy = Policy::new("notice_reader", NoticeReader::weight);
        let readers = FilledRedis::new(&url, records, policy, reader(notices)?, RecordCodec::READER).await?;
        let script = RawRedis::patient(&url, "raw").await?;
        let this = Self { audience: audience(notices)?, readers: Arc::new(readers), script, reads };
        for notice in 0..notices {
            this.set(this.notice_key(notice), &bitmap(notice)).await?;
        }
        for other in 0..OTHERS {
            this.set(format!("other:{other}"), b"x").await?;
        }
        Ok(this)
    }

    /// Microseconds for the totals, and for the bare side.
    async fn compare(&self, plan: &Plan, bare: impl AsyncFn(i64) -> Result<()>) -> Result<Vec<Pair<f64>>> {
        let mut keys = self.readers.take(2 * i64::try_from(plan.rounds)? * self.reads).into_iter();
        compare_medians(plan.rounds, usize::try_from(self.reads)?, async |side| {
            let key = keys.next().context("a key for each call")?;
            if side == Side::Kith { self.count(key).await } else { bare(key).await }
        })
        .await
    }

    async fn count(&self, key: i64) -> Result<()> {
        let reader = self.readers.hit(key).await?;
        let totals = NoticeTotals::of(&self.audience, reader.since, &reader.bits, Timestamp::now());
        ensure!(totals.read == totals.unread, "the reader has read half of them, and gets {totals:?}");
        Ok(())
    }

    async fn get(&self, key: i64) -> Result<()> {
        let bytes: Option<Bytes> = self.readers.raw.client.get(self.readers.key(key)).await?;
        black_box(bytes.context("a record is missing")?);
        Ok(())
    }

    async fn run_script(&self) -> Result<()> {
        let (none, words) = (Vec::<String>::new(), vec!["notice:*".to_owned(), READER.to_string()]);
        let found: (usize, usize) = self.script.client.eval(SCRIPT, none, words).await?;
        let notices = self.audience.entries.len();
        ensure!(found == (notices, notices / 2), "of {notices} notices the script finds {found:?}");
        Ok(())
    }

    async fn set(&self, key: String, bytes: &[u8]) -> Result<()> {
        let bytes = Bytes::copy_from_slice(bytes);
        Ok(self.readers.raw.client.set(key, bytes, None, None, false).await?)
    }

    fn notice_key(&self, notice: u32) -> String {
        format!("notice:{}:{notice}", self.audience.id)
    }
}

/// The bitmap for a notice that every second reader has read, the reader included if the number is even.
fn bitmap(notice: u32) -> Vec<u8> {
    let byte = if notice.is_multiple_of(2) { 0x55 } else { 0xAA };
    vec![byte; (READERS / 8) as usize]
}

fn reader(notices: u32) -> Result<NoticeReader> {
    let read: Vec<Slot> = (0..notices).step_by(2).collect();
    Ok(NoticeReader {
        key: ReaderKey { audience: AudienceId::new(1)?, reader: ReaderId::new(READER)? },
        version: Version::FIRST,
        ordinal: 6,
        since: Timestamp(0),
        bits: ReadBits::default().with(&read),
    })
}

fn audience(notices: u32) -> Result<Audience> {
    let entry = |slot: Slot| {
        Ok(AudienceEntry {
            notice: NoticeId::new(i64::from(slot) + 1)?,
            slot,
            confirm_slot: None,
            publish: Timestamp(1),
            expire: None,
            pinned: false,
            for_newcomers: false,
        })
    };
    Ok(Audience {
        id: AudienceId::new(1)?,
        version: Version::FIRST,
        name: Text::default(),
        of_users: false,
        created: Timestamp(0),
        next_slot: notices,
        entries: (0..notices).rev().map(entry).collect::<Result<_>>()?,
    })
}
