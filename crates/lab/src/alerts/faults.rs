//! Faults that trigger alerts.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_lab_servers::proxy::Mode;
use kith_proto::{
    admin::v1::{SetLogFilterRequest, StartEpochRequest, admin_service_client::AdminServiceClient},
    presence::v1::{HeartbeatRequest, presence_service_client::PresenceServiceClient},
};
use tokio::time::{Instant, sleep};

use super::{
    callers::CallersFault,
    embedded::EmbeddedFault,
    load::{AlertCallers, AlertLoad},
};
use crate::faults::{Member, Site, forge};

/// Between two repetitions of a fault.
const REPEAT_EVERY: Duration = Duration::from_millis(2_500);
/// How long Redis does not answer in each repetition.
const FROZEN: Duration = Duration::from_secs(1);

/// The fault in a case.
#[derive(Clone, Copy, Debug)]
pub(super) enum AlertFault {
    Nothing,
    /// The nodes run, but they are not targets any more.
    TargetsRemoved,
    AllKilled,
    OneKilled,
    /// One node's links to Redis are refused.
    OneCut,
    /// One node's links to Redis stand still again and again.
    OneFlaps,
    /// One node is cut from Redis and MongoDB, and a new epoch begins without it.
    OneLeftBehind,
    RedisEmptied,
    /// It refuses writes for the first half.
    RedisFull,
    /// A gateway sends one heartbeat, and then none.
    GatewayDies,
    Forged,
    MongodbAway,
    /// A collection that these callers do not use is dropped again and again.
    CollectionsDropped,
    CassandraAway,
    /// Its answers come later by this time.
    MongodbSlow(Duration),
    /// Like `MongodbSlow`, and these callers call as well.
    Crowded(Duration, AlertLoad),
    /// These callers call, and the earlier callers do not.
    NextDay(AlertLoad),
    /// One node's log, at the most verbose level, is not read; and these callers call as well.
    LogUnread(AlertLoad),
    /// Without callers, all nodes are restarted in sequence with this in their environment. Then these
    /// callers call, and not the earlier callers.
    StartedWith((&'static str, &'static str), AlertLoad),
    /// The last node knows callers; those without a key go on to call all nodes.
    Callers(CallersFault),
    /// Like `Callers`, while no caller calls.
    CallersWithoutCalls(CallersFault),
    /// Without callers, all nodes get their own data files, with this fault.
    Embedded(EmbeddedFault),
}

impl AlertFault {
    /// Injects the fault, and returns after so long.
    pub(super) async fn inject(
        self,
        site: &mut Site,
        callers: &mut AlertCallers,
        lasts: Duration,
    ) -> Result<()> {
        let until = Instant::now() + lasts;
        match self {
            // The scraper does it.
            Self::Nothing | Self::TargetsRemoved => {}
            Self::AllKilled => site.members.iter_mut().for_each(|member| member.node.kill()),
            Self::OneKilled => last(site)?.node.kill(),
            Self::OneCut => last(site)?.to_redis.set(Mode::Refuse),
            Self::OneFlaps => flap(site, until).await,
            Self::OneLeftBehind => leave_behind(site).await?,
            Self::RedisEmptied => {
                repeat(until, async || site.redis.ask(&["FLUSHALL"]).await.map(drop)).await?;
            }
            Self::RedisFull => {
                site.redis.fill_up(true).await?;
                sleep(lasts / 2).await;
                site.redis.fill_up(false).await?;
            }
            Self::GatewayDies => send_one_heartbeat(site).await?,
            Self::Forged => repeat(until, async || forge(site).await).await?,
            Self::MongodbAway => site.mongodb_links(Mode::Refuse),
            Self::CollectionsDropped => {
                repeat(until, async || site.drop_collection("audiences").await).await?;
            }
            Self::CassandraAway => site.cassandra_links(Mode::Refuse),
            Self::MongodbSlow(by) => site.mongodb_links(Mode::Late(by, by)),
            Self::Crowded(by, load) => {
                site.mongodb_links(Mode::Late(by, by));
                callers.add(load);
            }
            Self::NextDay(load) => {
                callers.stop_all().await;
                callers.add(load);
            }
            Self::LogUnread(load) => {
                unread(site).await?;
                callers.add(load);
            }
            Self::StartedWith(variable, load) => {
                callers.stop_all().await;
                start_again(site, variable).await?;
                callers.add(load);
            }
            Self::Callers(fault) => fault.inject(site).await?,
            Self::CallersWithoutCalls(fault) => {
                callers.stop_all().await;
                fault.inject(site).await?;
            }
            Self::Embedded(fault) => {
                callers.stop_all().await;
                fault.inject(site).await?;
            }
        }
        tokio::time::sleep_until(until).await;
        self.ensure_alive(site)
    }

    /// # Errors
    /// When a node has ended that was not killed, with its last words.
    fn ensure_alive(self, site: &mut Site) -> Result<()> {
        let killed = match self {
            Self::AllKilled => site.members.len(),
            Self::OneKilled => 1,
            _ => 0,
        };
        let mut left = site.members.iter_mut().rev().skip(killed);
        left.try_for_each(|member| member.node.ensure_alive())
    }
}

fn last(site: &mut Site) -> Result<&mut Member> {
    site.members.last_mut().context("there is a node")
}

async fn repeat(until: Instant, act: impl AsyncFn() -> Result<()>) -> Result<()> {
    while Instant::now() + REPEAT_EVERY < until {
        act().await?;
        sleep(REPEAT_EVERY).await;
    }
    Ok(())
}

async fn flap(site: &mut Site, until: Instant) {
    let Some(member) = site.members.last() else { return };
    while Instant::now() + REPEAT_EVERY < until {
        member.to_redis.set(Mode::Freeze);
        sleep(FROZEN).await;
        member.to_redis.set(Mode::Pass);
        sleep(REPEAT_EVERY.saturating_sub(FROZEN)).await;
    }
}

async fn leave_behind(site: &mut Site) -> Result<()> {
    let one = last(site)?;
    one.to_redis.set(Mode::Refuse);
    one.to_mongodb.set(Mode::Refuse);
    let first = site.members.first().context("there is a node")?;
    AdminServiceClient::new(first.node.channel()).start_epoch(StartEpochRequest::default()).await?;
    Ok(())
}

async fn send_one_heartbeat(site: &Site) -> Result<()> {
    let first = site.members.first().context("there is a node")?;
    let request = HeartbeatRequest { gateway_id: "mortal".to_owned(), ..HeartbeatRequest::default() };
    PresenceServiceClient::new(first.node.channel()).heartbeat(request).await?;
    Ok(())
}

async fn unread(site: &mut Site) -> Result<()> {
    let node = &mut last(site)?.node;
    node.end().await?;
    node.run_unread()?;
    node.until_trusted().await?;
    let loud = SetLogFilterRequest { filter: "trace".to_owned(), lasts: None };
    AdminServiceClient::new(node.channel()).set_log_filter(loud).await?;
    Ok(())
}

async fn start_again(site: &mut Site, variable: (&str, &str)) -> Result<()> {
    for member in &mut site.members {
        // The node is no longer scraped at its former address.
        member.node.end().await?;
        member.node.run_with_variables(&[variable])?;
        member.node.until_trusted().await?;
    }
    Ok(())
}
