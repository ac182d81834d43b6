//! Reader bitmaps in Redis: sizes, times, epochs.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kith_cache::remote::{SharedError, redis::Reply};
use kith_delivery::{BitmapFill, FillTicket, ReaderBitmaps, ReaderSection, RedisBitmaps, SectionBits};
use kith_store::{AudienceId, ReaderOrdinal, Slot};

use crate::{model::TestRedis, redis_cluster::RedisCluster, stage::Epochs};

const HOUR: Duration = Duration::from_secs(3_600);

/// Bitmaps in the tests' Redis, under their own prefix.
struct Redis {
    bitmaps: RedisBitmaps,
    epochs: Arc<Epochs>,
    redis: TestRedis,
}

impl Redis {
    async fn connect() -> Self {
        Self::over(TestRedis::connect().await)
    }

    fn over(redis: TestRedis) -> Self {
        let epochs = Epochs::of(&redis, 5);
        let bitmaps = RedisBitmaps::over(Arc::clone(&redis.runner), Arc::<Epochs>::clone(&epochs));
        Self { bitmaps, epochs, redis }
    }

    /// Runs a command on a section's key.
    async fn ask(&self, script: &'static str, section: ReaderSection, part: &str) -> i64 {
        let key = format!("{{{}:notice:7:{}}}:5:{part}", self.redis.runner.tag(), section.number);
        match self.redis.eval(script, vec![key], []).await {
            Reply::Number(number) => number,
            other => panic!("{other:?}"),
        }
    }

    /// Fills a bitmap with readers.
    async fn fill(
        &self,
        section: ReaderSection,
        slot: Slot,
        readers: impl Iterator<Item = u32>,
    ) -> BitmapFill {
        let ticket = self.bitmaps.begin_fill(section).await.unwrap();
        let filled = self.bitmaps.fill(section, &ticket, vec![(slot, bits(readers))], HOUR).await;
        filled.unwrap()[0]
    }

    async fn count(&self, slots: &[Slot]) -> Vec<Option<u64>> {
        self.bitmaps.count(&[section(0)], slots).await.unwrap().remove(0)
    }

    async fn mark(&self, reader: ReaderOrdinal, slots: &[Slot]) {
        let section = ReaderSection::of(section(0).audience, reader);
        self.bitmaps.mark(reader, section, slots).await.unwrap();
    }
}

fn section(number: u32) -> ReaderSection {
    ReaderSection { audience: AudienceId::new(7).unwrap(), number }
}

fn bits(readers: impl Iterator<Item = u32>) -> SectionBits {
    let mut bits = SectionBits::default();
    readers.for_each(|reader| bits.set(reader));
    bits
}

/// Published schemes have this fault: a script whose keys are on several nodes, or are not declared, runs on
/// no cluster.
#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn scripts_run_on_redis_cluster() {
    let cluster = RedisCluster::start().await;
    let redis = Redis::over(TestRedis::connect_to(cluster.url()).await);
    let before = cluster.keys();
    let sections: Vec<ReaderSection> = (0..60).map(section).collect();
    let slots: Vec<Slot> = (0..120).collect();
    for section in &sections {
        let ticket = redis.bitmaps.begin_fill(*section).await.unwrap();
        let first = section.ordinals().start;
        redis.bitmaps.mark(first, *section, &slots).await.unwrap();
        let bitmaps = slots.iter().map(|slot| (*slot, bits([first + 1].into_iter()))).collect();
        let filled = redis.bitmaps.fill(*section, &ticket, bitmaps, HOUR).await.unwrap();
        assert_eq!(filled, vec![BitmapFill::Filled(2); slots.len()]);
    }
    let after = cluster.keys();
    assert!(
        after.iter().zip(&before).all(|(after, before)| after > before),
        "bitmaps are on each node: {after:?}"
    );
    let counts = redis.bitmaps.count(&sections, &slots).await.unwrap();
    assert!(counts.iter().flatten().all(|count| *count == Some(2)), "in one call for all nodes");
    let ticket = redis.bitmaps.begin_fill(sections[7]).await.unwrap();
    redis.bitmaps.invalidate(sections[7], &slots).await.unwrap();
    let filled = redis.bitmaps.fill(sections[7], &ticket, vec![(1, SectionBits::default())], HOUR).await;
    assert_eq!(filled.unwrap(), [BitmapFill::Changed]);
    let counts = redis.bitmaps.count(&sections[7..9], &slots).await.unwrap();
    assert!(counts[0].iter().all(Option::is_none) && counts[1].iter().all(|count| *count == Some(2)));
}

/// A slot that was just given out: no reader has it in the store, and marks are made before its zeros arrive.
#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn zeros_of_new_slot_keep_marks() {
    let redis = Redis::connect().await;
    let zeros = || vec![(1, SectionBits::default())];
    let ticket = redis.bitmaps.begin_fill(section(0)).await.unwrap();
    redis.mark(4, &[1]).await;
    assert_eq!(redis.bitmaps.fill(section(0), &ticket, zeros(), HOUR).await, Ok(vec![BitmapFill::Filled(1)]));
    let ticket = redis.bitmaps.begin_fill(section(0)).await.unwrap();
    redis.mark(4, &[2]).await;
    redis.mark(5, &[2]).await;
    redis.bitmaps.invalidate(section(0), &[2]).await.unwrap();
    let zeros = vec![(2, SectionBits::default())];
    assert_eq!(redis.bitmaps.fill(section(0), &ticket, zeros, HOUR).await, Ok(vec![BitmapFill::Changed]));
    assert_eq!(redis.count(&[1, 2]).await, [Some(1), None]);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn hundred_thousand_readers_take_12502_bytes() {
    let redis = Redis::connect().await;
    let mut bytes = 0;
    for section in ReaderSection::below(section(0).audience, 100_000) {
        let end = section.ordinals().end.min(100_000);
        let readers = section.ordinals().start..end;
        let expected = u64::from(readers.end - readers.start);
        assert_eq!(redis.fill(section, 3, readers).await, BitmapFill::Filled(expected));
        bytes += redis.ask("return redis.call('STRLEN', KEYS[1])", section, "of:3").await;
    }
    assert_eq!(bytes, 12_502);
    let sections: Vec<_> = ReaderSection::below(section(0).audience, 100_000).collect();
    let counts = redis.bitmaps.count(&sections, &[3]).await.unwrap();
    assert_eq!(counts, [[Some(64_000)], [Some(36_000)]]);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn flag_bit_is_not_counted() {
    let redis = Redis::connect().await;
    assert_eq!(redis.fill(section(0), 1, std::iter::empty()).await, BitmapFill::Filled(0));
    assert_eq!(redis.count(&[1, 2]).await, [Some(0), None]);
    redis.mark(0, &[1]).await;
    assert_eq!(redis.count(&[1]).await, [Some(1)]);
}

/// Published schemes have this fault: a mark after the removal makes the key again, and it stays.
#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn incomplete_bitmap_is_not_counted_and_expires() {
    let redis = Redis::connect().await;
    redis.mark(4, &[1]).await;
    assert_eq!(redis.count(&[1]).await, [None]);
    let lasts = redis.ask("return redis.call('PTTL', KEYS[1])", section(0), "of:1").await;
    assert!((1..=30_000).contains(&lasts), "{lasts}");
    redis.fill(section(0), 1, [9].into_iter()).await;
    assert_eq!(redis.count(&[1]).await, [Some(2)], "the mark was kept for the fill");
    let lasts = redis.ask("return redis.call('PTTL', KEYS[1])", section(0), "of:1").await;
    assert!((3_500_000..=3_600_000).contains(&lasts), "{lasts}");
    redis.mark(5, &[1]).await;
    let later = redis.ask("return redis.call('PTTL', KEYS[1])", section(0), "of:1").await;
    assert!(later <= lasts, "a mark does not keep a complete bitmap longer");
    let scratch = redis.ask("return redis.call('EXISTS', KEYS[1])", section(0), "scratch").await;
    assert_eq!(scratch, 0);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn late_fill_is_refused() {
    let redis = Redis::connect().await;
    let mut ticket = redis.bitmaps.begin_fill(section(0)).await.unwrap();
    let filled = async |ticket: &FillTicket| {
        let bitmaps = vec![(1, bits([2].into_iter()))];
        redis.bitmaps.fill(section(0), ticket, bitmaps, HOUR).await.unwrap()
    };
    ticket.began_ms -= 20_001;
    assert_eq!(filled(&ticket).await, [BitmapFill::Late]);
    assert_eq!(redis.count(&[1]).await, [None]);
    ticket.began_ms += 10_000;
    assert_eq!(filled(&ticket).await, [BitmapFill::Filled(1)]);
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn invalidation_drops_bitmaps_and_open_fills() {
    let redis = Redis::connect().await;
    redis.fill(section(0), 1, [2].into_iter()).await;
    redis.fill(section(0), 2, [2].into_iter()).await;
    let ticket = redis.bitmaps.begin_fill(section(0)).await.unwrap();
    redis.bitmaps.invalidate(section(0), &[1]).await.unwrap();
    assert_eq!(redis.count(&[1, 2]).await, [None, Some(1)]);
    let bitmaps = vec![(1, bits([2].into_iter()))];
    let filled = redis.bitmaps.fill(section(0), &ticket, bitmaps, HOUR).await.unwrap();
    assert_eq!((filled, redis.count(&[1]).await), (vec![BitmapFill::Changed], vec![None]));
    assert_eq!(redis.fill(section(0), 1, [3].into_iter()).await, BitmapFill::Filled(1));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn bitmaps_of_another_epoch_are_not_counted() {
    let redis = Redis::connect().await;
    redis.fill(section(0), 1, [2].into_iter()).await;
    let ticket = redis.bitmaps.begin_fill(section(0)).await.unwrap();
    redis.epochs.follow(&redis.redis, 6);
    assert_eq!(redis.count(&[1]).await, [None]);
    let bitmaps = vec![(1, bits([2].into_iter()))];
    let filled = redis.bitmaps.fill(section(0), &ticket, bitmaps, HOUR).await.unwrap();
    assert_eq!(filled, [BitmapFill::Changed]);
    *redis.epochs.followed.lock() = None;
    assert_eq!(redis.bitmaps.count(&[section(0)], &[1]).await, Err(SharedError::Unavailable));
    assert_eq!(redis.bitmaps.mark(1, section(0), &[1]).await, Err(SharedError::Unavailable));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn many_slots_are_marked_and_counted_in_one_call() {
    let redis = Redis::connect().await;
    let slots: Vec<Slot> = (0..250).collect();
    let ticket = redis.bitmaps.begin_fill(section(0)).await.unwrap();
    let none = slots.iter().map(|slot| (*slot, SectionBits::default())).collect();
    redis.bitmaps.fill(section(0), &ticket, none, HOUR).await.unwrap();
    let marked: BTreeSet<Slot> = (0..250).step_by(3).collect();
    redis.mark(11, &marked.iter().copied().collect::<Vec<_>>()).await;
    let expected: Vec<Option<u64>> = slots.iter().map(|slot| Some(marked.contains(slot).into())).collect();
    assert_eq!(redis.count(&slots).await, expected);
    redis.bitmaps.invalidate(section(0), &slots).await.unwrap();
    assert!(redis.count(&slots).await.iter().all(Option::is_none));
}
