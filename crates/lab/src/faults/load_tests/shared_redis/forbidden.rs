//! The Redis user loses its channels while nodes run, for a moment or for long, and gets them back.

use std::time::Duration;

use anyhow::{Result, ensure};
use kith_lab_servers::{imported::fill_up_to, resp::Value};
use tokio::time::{Instant, sleep};

use super::ages::{AgeReaders, ms};
use crate::{
    faults::{Figure, Plan, Site, load_tests::Sizes},
    scrape,
};

const USER: i64 = 1;
/// How long the rights are lost: for a moment, so that some subscriptions are refused, and long enough that
/// each node reports it.
const MOMENT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(6);
/// The bounds for a cached read meanwhile and afterwards, and for the subscriptions.
const OLDEST: Duration = Duration::from_secs(3);
const OLDEST_AFTER: Duration = Duration::from_secs(1);
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(1);
/// How long the subscriptions are awaited.
const LOOKED_FOR: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);
/// Updates afterwards, through each node in turn.
const UPDATES: usize = 6;

/// The measured effects.
#[derive(Debug, Default)]
struct ForbiddenSeen {
    oldest_during: Duration,
    oldest_after: Duration,
    subscribed: Duration,
    /// Nodes that were not subscribed again in the end.
    unsubscribed: u64,
    /// Nodes that did not report it.
    silent: u64,
}

/// Figures: ages on every node, and how soon each was subscribed again.
pub(in crate::faults::load_tests) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: 3, ..plan.clone() };
    let site = Site::start(&plan).await?;
    fill_up_to(site.members[0].node.channel(), USER).await?;
    let readers = AgeReaders::new(site.channels());
    let mut seen = ForbiddenSeen::default();
    for _ in 0..sizes.rounds {
        seen.revoke_channels(&site, &readers, MOMENT).await?;
    }
    seen.revoke_channels(&site, &readers, LONG).await?;
    Ok(vec![
        Figure::none("nodes that were not subscribed again", seen.unsubscribed),
        Figure::none("nodes that did not report it", seen.silent),
        Figure::at_most("subscribed again after", "ms", ms(seen.subscribed), ms(SUBSCRIBED_WITHIN)),
        Figure::at_most("oldest answer meanwhile", "ms", ms(seen.oldest_during), ms(OLDEST)),
        Figure::at_most("oldest answer afterwards", "ms", ms(seen.oldest_after), ms(OLDEST_AFTER)),
    ])
}

impl ForbiddenSeen {
    /// Revokes the channels for this long, and writes one value meanwhile.
    async fn revoke_channels(&mut self, site: &Site, readers: &AgeReaders, lasts: Duration) -> Result<()> {
        let (began, channel) = (Instant::now(), channel(site).await?);
        allow(site, "resetchannels").await?;
        self.oldest_during = readers.oldest(USER).await?.max(self.oldest_during);
        sleep(lasts.saturating_sub(began.elapsed())).await;
        if lasts == LONG {
            self.silent += silent(site).await?;
        }
        allow(site, "allchannels").await?;
        let (allowed, all) = (Instant::now(), u64::try_from(site.members.len())?);
        let mut subscribed = subscribed(site, &channel).await?;
        while subscribed < all && allowed.elapsed() < LOOKED_FOR {
            sleep(LOOK).await;
            subscribed = self::subscribed(site, &channel).await?;
        }
        self.unsubscribed += all.saturating_sub(subscribed);
        self.subscribed = allowed.elapsed().max(self.subscribed);
        for _ in 0..UPDATES {
            self.oldest_after = readers.oldest(USER).await?.max(self.oldest_after);
        }
        Ok(())
    }
}

async fn allow(site: &Site, rights: &str) -> Result<()> {
    site.redis.ask(&["ACL", "SETUSER", "default", rights]).await.map(drop)
}

/// The channel for changes, to which all nodes are subscribed.
async fn channel(site: &Site) -> Result<String> {
    let all = site.redis.ask(&["PUBSUB", "CHANNELS"]).await?.texts();
    let found = all.into_iter().find(|name| name.ends_with(":wakes"));
    found.ok_or_else(|| anyhow::anyhow!("no node listens"))
}

/// How many connections are subscribed to it.
async fn subscribed(site: &Site, channel: &str) -> Result<u64> {
    let answer = site.redis.ask(&["PUBSUB", "NUMSUB", channel]).await?;
    let Value::List(parts) = &answer else { anyhow::bail!("PUBSUB answers {answer:?}") };
    let count =
        parts.iter().find_map(|part| if let Value::Number(count) = part { Some(*count) } else { None });
    Ok(u64::try_from(count.unwrap_or_default())?)
}

/// How many nodes do not say in `/readyz` that Redis refuses.
async fn silent(site: &Site) -> Result<u64> {
    let mut silent = 0;
    for member in &site.members {
        let ready = scrape::answer(member.node.operations(), "/readyz").await?;
        ensure!(ready.contains("\"ready\":true"), "a node does not serve: {ready}");
        silent += u64::from(!ready.contains("redis_refused"));
    }
    Ok(silent)
}
