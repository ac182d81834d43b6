//! Faults in the data that servers keep on their disks.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::resp::Value;
use tokio::time::{Instant, sleep};

use super::{disk::SmallDisk, site::Site};

/// How many bytes are cut off the end of Redis' log, another number each time: within an entry, and up to
/// what is written in a second.
const CUT_BYTES: [u64; 5] = [1, 40, 400, 4_000, 40_000];
/// How long Redis runs between two deaths: nodes have come to trust their memories again.
const ALIVE: Duration = Duration::from_secs(3);
/// The pause between two looks at a disk that must stay full.
const REFILL: Duration = Duration::from_millis(200);
/// How long MongoDB may take to need more room.
const NOTICED: Duration = Duration::from_secs(60);
/// The disk sizes: for Redis, and for MongoDB, which makes files with 100 MB in advance and wants 500 MB left
/// for an index.
const OF_REDIS: u64 = 64 << 20;
const OF_MONGODB: u64 = 1_500 << 20;

/// Kills Redis again and again, and starts it with a log whose end is cut off. Returns how often.
pub(super) async fn log_cut(site: &mut Site, lasts: Duration) -> Result<u64> {
    let until = Instant::now() + lasts;
    let mut deaths = 0;
    for bytes in CUT_BYTES.into_iter().cycle() {
        site.redis.kill();
        site.redis.cut_log(bytes)?;
        site.redis.restart(None).await?;
        let held = site.redis.ask(&["DBSIZE"]).await?;
        ensure!(held != Value::Number(0), "nothing came back from the log");
        deaths += 1;
        if Instant::now() + ALIVE >= until {
            break;
        }
        sleep(ALIVE).await;
    }
    Ok(deaths)
}

/// The disk that Redis logs to.
pub(super) async fn disk_of_redis(site: &Site) -> Result<SmallDisk> {
    let disk = SmallDisk::new(OF_REDIS).await?;
    site.redis.keep_log_in(disk.path()).await?;
    Ok(disk)
}

/// The disk that MongoDB has its data on.
pub(super) async fn disk_of_mongodb() -> Result<SmallDisk> {
    SmallDisk::new(OF_MONGODB).await
}

/// The disk is full for this long, even if data is removed from it meanwhile.
pub(super) async fn full(disk: &SmallDisk, lasts: Duration) -> Result<()> {
    let until = Instant::now() + lasts;
    while Instant::now() < until {
        disk.fill()?;
        sleep(REFILL).await;
    }
    Ok(())
}

/// Redis' disk is full for so long: writes are refused, and reads are answered.
pub(super) async fn redis_full(site: &Site, disk: &SmallDisk, lasts: Duration) -> Result<()> {
    full(disk, lasts).await?;
    let log = site.redis.info("aof_last_write_status").await?;
    ensure!(log == "err", "Redis does not notice that its disk is full");
    disk.free()
}

/// MongoDB's disk is full for so long. It ends by itself then, and is started again when there is room.
pub(super) async fn mongodb_full(site: &mut Site, lasts: Duration) -> Result<()> {
    let disk = site.disk.as_ref().context("MongoDB has a small disk")?;
    full(disk, lasts).await?;
    // MongoDB writes into existing files, as long as they last.
    let (give_up, mut lost) = (Instant::now() + NOTICED, site.mongod.has_lost_one()?);
    while !lost && Instant::now() < give_up {
        full(disk, REFILL).await?;
        lost = site.mongod.has_lost_one()?;
    }
    disk.free()?;
    ensure!(lost, "MongoDB does not notice that its disk is full");
    site.mongod.restart().await
}
