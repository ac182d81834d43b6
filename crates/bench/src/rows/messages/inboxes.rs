//! Measures Redis' processor time for a fan-out to 500 inboxes, over as many plain XADD.

use anyhow::{Context as _, Result, ensure};
use fred::types::Value;
use kith_delivery::{FanOut, InboxKeeper as _, InboxLimits, RedisInboxes, SentMessages};
use kith_lab_servers::redis_server::RedisServer;
use kith_store::{ConversationId, GroupId, NodeName, Seq, Timestamp, UserId};

use crate::{
    claims::{FAN_OUT_500, FAN_OUT_COALESCED, Plan},
    ratio::{Pair, Side, interleave},
    results::Results,
    rows::{one_epoch::one_epoch, redis::RawRedis},
};

const USERS: i64 = 500;
/// Messages that came during one fan-out, and go out as one range.
const COALESCED: Seq = 4;

/// Runs the row if it is requested and there is a Redis.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&FAN_OUT_500, &FAN_OUT_COALESCED]) || plan.redis.is_none() {
        return Ok(());
    }
    // A separate Redis: calls by others would be counted.
    let redis = RedisServer::start(&[]).await?;
    let stage = InboxStage::start(&redis).await?;
    results.row(&FAN_OUT_500, stage.measure(plan, 1)).await?;
    results.row(&FAN_OUT_COALESCED, stage.measure(plan, COALESCED)).await
}

struct InboxStage<'a> {
    redis: &'a RedisServer,
    raw: RawRedis,
    keeper: RedisInboxes,
    log: ConversationId,
    users: Vec<UserId>,
}

impl<'a> InboxStage<'a> {
    /// Every user has a receiver on one node.
    async fn start(redis: &'a RedisServer) -> Result<Self> {
        let (runner, epoch) = one_epoch(redis).await?;
        let keeper = RedisInboxes::over(runner, epoch, InboxLimits::default());
        let users = (1..=USERS).map(UserId::new).collect::<Result<Vec<_>, _>>()?;
        let node: NodeName = "node".parse()?;
        for opened in keeper.open(&node, &users).await {
            opened?;
        }
        let raw = RawRedis::patient(&redis.uri(), "raw").await?;
        Ok(Self { redis, raw, keeper, log: ConversationId::Group(GroupId::new(1)?), users })
    }

    /// Microseconds that Redis takes for a message and inbox. `at_once`: messages in one fan-out.
    async fn measure(&self, plan: &Plan, at_once: Seq) -> Result<Vec<Pair<f64>>> {
        let messages: Seq = plan.size(400, 8);
        let mut last = 0;
        interleave(plan.rounds, async |side| {
            let before = self.taken().await?;
            for _ in 0..messages / at_once {
                match side {
                    Side::Baseline => {
                        for seq in last + 1..=last + at_once {
                            self.add(seq).await?;
                        }
                    }
                    Side::Kith => self.fan_out(last + at_once).await?,
                }
                last += at_once;
            }
            let entries = i32::try_from(messages * USERS)?;
            Ok((self.taken().await? - before) * 1e6 / f64::from(entries))
        })
        .await
    }

    async fn fan_out(&self, last: Seq) -> Result<()> {
        let sent = SentMessages { conversation: self.log, last, sent: Timestamp::now(), entries: Vec::new() };
        let fanned = self.keeper.fan_out(&FanOut { sent, users: &self.users }).await;
        ensure!(fanned.failed.is_none() && fanned.without_receiver.is_empty(), "an inbox has no entry");
        Ok(())
    }

    /// Adds the same entries, without marks.
    async fn add(&self, last: Seq) -> Result<()> {
        let add = |user: &UserId| {
            let (key, entry) = (format!("raw:inbox:{user}"), format!("m {} {last} {last}", self.log));
            let words = [key.as_str(), "MAXLEN", "~", "200", "*", "e", &entry];
            ("XADD", words.map(Value::from).to_vec())
        };
        self.raw.together(self.users.iter().map(add)).await
    }

    /// Seconds of processor time that Redis has taken so far.
    async fn taken(&self) -> Result<f64> {
        let mut taken = 0.0;
        for part in ["used_cpu_user", "used_cpu_sys"] {
            taken += self.redis.info(part).await?.parse::<f64>().context("the time is no number")?;
        }
        Ok(taken)
    }
}
