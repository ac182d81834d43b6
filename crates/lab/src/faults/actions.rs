//! Cluster faults, and how they end.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::{
    proxy::{Mode, Tampering},
    redis_server::RedisServer,
    resp::Value,
};
use tokio::time::{Instant, sleep};

use super::{
    burst, disk::SmallDisk, figure::Figure, outside, persisted, primary, relations, site::Site, upgrade,
};

/// Pause between repetitions of a fault.
const REPEAT_EVERY: Duration = Duration::from_millis(1_500);
/// The ways in which Redis loses its data.
const LOSSES: [Action; 4] =
    [Action::RedisKilled, Action::RedisEmptied, Action::RedisOld, Action::RedisPromoted];
/// Pause between two checks whether a process has ended.
const LOOK: Duration = Duration::from_millis(5);
/// How many users a memory with room for 64 may hold; evicted users stay for a moment.
const FEW_MAX: i64 = 128;
/// How many channels a node has that other programs see.
const STRANGE: usize = 20;

/// The fault that a row injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// The nodes' settings cause this.
    MemoryTiny,
    RedisKilled,
    RedisLogCut,
    RedisFrozen,
    RedisSlow,
    RedisOld,
    RedisEmptied,
    RedisPromoted,
    RedisFull,
    /// Killed and started again, emptied, restored to an earlier state, and replaced by a replica that is
    /// behind.
    RedisByTurns,
    OneCut,
    OneSubscriptionsCut,
    /// One message in this many is lost.
    Lost(u32),
    Repeated,
    Reordered,
    Forged,
    /// Very many forged messages, and a node that does not read for a while.
    Flooded,
    NodeStopped,
    MongodbSlow,
    /// Answers come later by any time up to this.
    MongodbJittered(Duration),
    MongodbKilled,
    /// MongoDB is away before the nodes start.
    MongodbLate,
    /// The set has several members.
    PrimaryKilled,
    PrimarySteppedDown,
    PrimaryPartitioned,
    PrimaryPaused,
    BothDown,
    CassandraKilled,
    CassandraPaused,
    /// Its answers are lost.
    CassandraAnswersHeld,
    /// Two users follow and unfollow. The cluster has no fault.
    PairFlipped,
    RedisDiskFull,
    MongodbDiskFull,
    LinksReset,
    NodesEnded,
    NodesKilled,
    HalfNewer,
    /// The store accepts two users with one name, also after the fault.
    NamesShared,
    /// The store forgets answered requests at once.
    RequestsForgotten,
    /// The node dies between two steps in a write, at a fail point in a test build.
    NodeDies(&'static str),
}

/// The state between a fault's begin and its end.
#[derive(Debug, Default)]
pub(super) struct FaultState {
    dump: Option<Vec<u8>>,
    replica: Option<RedisServer>,
    disk: Option<SmallDisk>,
    /// The minimum number of deaths, however long they take.
    deaths_min: u64,
    /// Number of deaths, ends and replacements so far.
    pub(super) deaths: u64,
    /// Figures from the faults.
    pub(super) figures: Vec<Figure>,
}

impl FaultState {
    /// Requires at least this many deaths.
    pub(super) fn with_deaths(deaths_min: u64) -> Self {
        Self { deaths_min, ..Self::default() }
    }
}

impl Action {
    /// Whether it is a fault at all.
    pub(super) fn is_fault(self) -> bool {
        !matches!(self, Self::Nothing | Self::MemoryTiny | Self::PairFlipped)
    }

    /// Whether no other row can use its Cassandra.
    pub(super) const fn harms_cassandra(self) -> bool {
        matches!(self, Self::CassandraKilled | Self::CassandraPaused)
    }

    /// The store's disk, if it is to be filled up.
    pub(super) async fn disk(self) -> Result<Option<SmallDisk>> {
        Ok(if self == Self::MongodbDiskFull { Some(persisted::disk_of_mongodb().await?) } else { None })
    }

    /// Prepares the fault.
    pub(super) async fn prepare(self, site: &mut Site, kept: &mut FaultState) -> Result<()> {
        match self {
            Self::RedisLogCut => site.redis.keep_log().await?,
            Self::RedisDiskFull => kept.disk = Some(persisted::disk_of_redis(site).await?),
            Self::RedisOld => kept.dump = Some(site.redis.dump().await?),
            Self::RedisPromoted => {
                let replica = site.redis.replica().await?;
                // It receives nothing more, and still reports that it is a replica.
                replica.pause()?;
                kept.replica = Some(replica);
            }
            _ => {}
        }
        Ok(())
    }

    /// Runs the fault for this time, and ends it.
    pub(super) async fn inject(self, site: &mut Site, kept: &mut FaultState, lasts: Duration) -> Result<()> {
        match self {
            Self::NodesEnded | Self::NodesKilled => self.restart_nodes(site, kept, lasts).await?,
            Self::NodeDies(fail_point) => crash_at(site, kept, fail_point, lasts).await?,
            Self::HalfNewer => kept.deaths = upgrade::replace_half(site, lasts).await?,
            Self::RedisLogCut => kept.deaths = persisted::log_cut(site, lasts).await?,
            Self::RedisByTurns => redis_by_turns(site, kept, lasts).await?,
            Self::RedisDiskFull => {
                let disk = kept.disk.as_ref().context("Redis has a small disk")?;
                persisted::redis_full(site, disk, lasts).await?;
            }
            Self::MongodbDiskFull => persisted::mongodb_full(site, lasts).await?,
            Self::MemoryTiny => {
                sleep(lasts).await;
                ensure_evicted(site).await?;
            }
            Self::Flooded => kept.figures = burst::flood(site, lasts).await?,
            Self::PairFlipped => kept.figures = relations::flipped(site).await?,
            Self::CassandraKilled => relations::killed(site, lasts).await?,
            Self::CassandraPaused => relations::paused(site, lasts).await?,
            Self::CassandraAnswersHeld => relations::hold_answers(site, lasts).await?,
            Self::LinksReset | Self::Forged => self.repeat(site, lasts).await?,
            Self::MongodbLate => start_without_mongodb(site, lasts).await?,
            Self::PrimaryKilled => primary::killed(site, lasts).await?,
            Self::PrimarySteppedDown => primary::stepped_down(site, lasts).await?,
            Self::PrimaryPartitioned => primary::partitioned(site, lasts).await?,
            Self::PrimaryPaused => primary::paused(site, lasts).await?,
            Self::NamesShared => outside::share_names(site, lasts).await?,
            Self::RequestsForgotten => outside::forget_requests(site, lasts).await?,
            _ => {
                self.begin(site, kept).await?;
                sleep(lasts).await;
                self.end(site).await?;
            }
        }
        Ok(())
    }

    async fn begin(self, site: &mut Site, kept: &mut FaultState) -> Result<()> {
        let one = site.members.last().context("there is a node")?;
        match self {
            Self::RedisKilled => site.redis.kill(),
            Self::RedisFrozen => site.redis_links(Mode::Freeze),
            Self::RedisSlow => {
                site.redis_links(Mode::Late(Duration::from_millis(250), Duration::from_millis(350)));
            }
            Self::RedisOld => {
                site.redis.kill();
                site.redis.restart(kept.dump.as_deref()).await?;
            }
            Self::RedisEmptied => drop::<Value>(site.redis.ask(&["FLUSHALL"]).await?),
            Self::RedisPromoted => promote(site, kept).await?,
            Self::RedisFull => site.redis.fill_up(true).await?,
            Self::OneCut => one.to_redis.set(Mode::Refuse),
            Self::OneSubscriptionsCut => one.to_redis.set_subscriptions(Mode::Freeze),
            Self::Lost(one_in) => site.tamper(Tampering::Lose(one_in)),
            Self::Repeated => site.tamper(Tampering::Repeat(3)),
            Self::Reordered => site.tamper(Tampering::Reorder(5, Duration::from_secs(5))),
            Self::NodeStopped => one.node.signal("STOP")?,
            Self::MongodbSlow => {
                site.mongodb_links(Mode::Late(Duration::from_secs(1), Duration::from_millis(1_100)));
            }
            Self::MongodbJittered(most) => site.mongodb_links(Mode::Late(Duration::ZERO, most)),
            Self::MongodbKilled => site.mongod.kill(),
            Self::BothDown => {
                site.mongod.kill();
                site.redis.kill();
            }
            Self::Nothing
            | Self::MemoryTiny
            | Self::CassandraKilled
            | Self::CassandraPaused
            | Self::CassandraAnswersHeld
            | Self::PairFlipped
            | Self::RedisByTurns
            | Self::Forged
            | Self::Flooded
            | Self::LinksReset
            | Self::MongodbLate
            | Self::PrimaryKilled
            | Self::PrimarySteppedDown
            | Self::PrimaryPartitioned
            | Self::PrimaryPaused
            | Self::NodesEnded
            | Self::NodesKilled
            | Self::HalfNewer
            | Self::NamesShared
            | Self::RequestsForgotten
            | Self::RedisLogCut
            | Self::RedisDiskFull
            | Self::MongodbDiskFull
            | Self::NodeDies(_) => {}
        }
        Ok(())
    }

    async fn end(self, site: &mut Site) -> Result<()> {
        site.redis_links(Mode::Pass);
        site.mongodb_links(Mode::Pass);
        site.tamper(Tampering::Nothing);
        match self {
            Self::RedisKilled => site.redis.restart(None).await,
            Self::RedisFull => site.redis.fill_up(false).await,
            Self::MongodbKilled => site.mongod.restart().await,
            Self::BothDown => {
                site.redis.restart(None).await?;
                site.mongod.restart().await
            }
            Self::NodeStopped => site.members.last().context("there is a node")?.node.signal("CONT"),
            _ => Ok(()),
        }
    }

    /// Restarts the nodes in turn.
    async fn restart_nodes(self, site: &mut Site, kept: &mut FaultState, lasts: Duration) -> Result<()> {
        let until = Instant::now() + lasts;
        while Instant::now() < until || kept.deaths < kept.deaths_min {
            let at = usize::try_from(kept.deaths)? % site.members.len();
            let node = &mut site.members[at].node;
            if self == Self::NodesEnded {
                node.end().await?;
            } else {
                node.kill();
            }
            node.run()?;
            node.until_trusted().await?;
            kept.deaths += 1;
        }
        Ok(())
    }

    async fn repeat(self, site: &Site, lasts: Duration) -> Result<()> {
        let until = Instant::now() + lasts;
        while Instant::now() < until {
            if self == Self::Forged {
                forge(site).await?;
            } else if let Some(one) = site.members.last() {
                one.to_mongodb.cut();
                one.to_redis.cut();
            }
            sleep(REPEAT_EVERY).await;
        }
        Ok(())
    }
}

/// Each loss of Redis happens once, then they repeat until the time is over. Writes between two losses are
/// lost with the next loss.
async fn redis_by_turns(site: &mut Site, kept: &mut FaultState, lasts: Duration) -> Result<()> {
    let until = Instant::now() + lasts;
    loop {
        for loss in LOSSES {
            loss.prepare(site, kept).await?;
            sleep(REPEAT_EVERY).await;
            loss.begin(site, kept).await?;
            sleep(REPEAT_EVERY).await;
            loss.end(site).await?;
            kept.deaths += 1;
        }
        if Instant::now() >= until {
            return Ok(());
        }
    }
}

/// The last node dies at the fail point, repeatedly; at least once, if that takes no longer than three times
/// as long.
async fn crash_at(site: &mut Site, kept: &mut FaultState, fail_point: &str, lasts: Duration) -> Result<()> {
    let node = &mut site.members.last_mut().context("there is a node")?.node;
    let began = Instant::now();
    let goes_on = |deaths| began.elapsed() < if deaths > 0 { lasts } else { lasts * 3 };
    while goes_on(kept.deaths) {
        node.kill();
        node.run_with_variables(&[("KITH_FAILPOINT", fail_point)])?;
        while !node.ended()? && goes_on(kept.deaths) {
            sleep(LOOK).await;
        }
        kept.deaths += u64::from(node.died()?);
    }
    node.kill();
    node.run()?;
    ensure!(kept.deaths > 0, "the program is no build with fail points: nothing died");
    node.until_trusted().await
}

/// All nodes start without MongoDB, stay alive, and report that they do not serve. MongoDB starts at the end.
async fn start_without_mongodb(site: &mut Site, lasts: Duration) -> Result<()> {
    for member in &mut site.members {
        member.node.end().await?;
    }
    site.mongod.kill();
    for member in &mut site.members {
        member.node.run()?;
    }
    sleep(lasts).await;
    for member in &mut site.members {
        member.node.ensure_alive()?;
        let serves = member.node.serves().await;
        ensure!(serves == Some(false), "without a store a node says of serving: {serves:?}");
    }
    site.mongod.restart().await
}

/// Every memory holds few users, and evicts others all the time.
async fn ensure_evicted(site: &Site) -> Result<()> {
    for member in &site.members {
        let (entries, evictions) = member.node.evicted("user").await?;
        ensure!(entries <= FEW_MAX, "memory holds {entries} users");
        ensure!(evictions > 0, "memory, with {entries} users, has given up none");
    }
    Ok(())
}

/// All nodes are redirected to the replica, and the primary is gone.
async fn promote(site: &mut Site, kept: &mut FaultState) -> Result<()> {
    let replica = kept.replica.take().context("a replica was prepared")?;
    site.redis.kill();
    replica.resume()?;
    replica.promote().await?;
    for member in &site.members {
        member.to_redis.aim(replica.address());
        member.to_redis.cut();
    }
    site.redis = replica;
    Ok(())
}

/// Publishes messages that no node has sent on every channel with subscribers.
pub(crate) async fn forge(site: &Site) -> Result<()> {
    let channels = site.redis.ask(&["PUBSUB", "CHANNELS"]).await?;
    for channel in channels.texts().into_iter().take(STRANGE) {
        for forged in [&b"nonsense"[..], &[0; 40], &[255; 200]] {
            site.redis.ask(&[&b"PUBLISH"[..], channel.as_bytes(), forged]).await?;
        }
    }
    Ok(())
}
