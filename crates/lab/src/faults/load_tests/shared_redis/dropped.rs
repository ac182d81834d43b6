//! The database is dropped while no node runs, and Redis keeps its data; then nodes over another database
//! start with the same prefix.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_lab_servers::imported::fill_up_to;
use tokio::time::{Instant, sleep};

use super::ages::{AgeReaders, ms};
use crate::faults::{
    Figure, Plan, Site,
    cassandra::keyspace,
    load_tests::Sizes,
    node::{Node, NodeConfig},
    site::NAME,
};

const USERS: i64 = 20;
const UPDATES: usize = 3;
/// The bound for a cached read.
const OLDEST: Duration = Duration::from_secs(3);
/// A node that is refused has ended by then.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Figures: answers from a database that is gone, how old answers were, and the effect on the other cluster.
pub(in crate::faults::load_tests) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: 2, ..plan.clone() };
    let mut site = Site::start(&plan).await?;
    create_users(&site).await?;
    let (mut served, mut oldest) = (0, update_all(&site).await?);
    for _ in 0..sizes.rounds.div_ceil(3) {
        served += restart_over_new_database(&mut site).await?;
        create_users(&site).await?;
        oldest = update_all(&site).await?.max(oldest);
    }
    let refused = second_is_refused(&plan, &site).await?;
    oldest = update_all(&site).await?.max(oldest);
    Ok(vec![
        Figure::none("answers of the dropped database", served),
        Figure::at_least_count("second database refused", u64::from(refused), 1),
        Figure::at_most("oldest answer", "ms", ms(oldest), ms(OLDEST)),
    ])
}

fn readers(site: &Site) -> AgeReaders {
    AgeReaders::new(site.channels())
}

/// Makes the users.
async fn create_users(site: &Site) -> Result<()> {
    fill_up_to(site.members[0].node.channel(), USERS).await
}

/// Updates each user, so that all have copies in memory and in Redis. Returns the oldest answer's age.
async fn update_all(site: &Site) -> Result<Duration> {
    let (readers, mut oldest) = (readers(site), Duration::ZERO);
    for id in 1..=USERS {
        for _ in 0..UPDATES {
            oldest = readers.oldest(id).await?.max(oldest);
        }
    }
    Ok(oldest)
}

/// Returns how many answers come from the dropped database.
async fn restart_over_new_database(site: &mut Site) -> Result<u64> {
    for member in &mut site.members {
        member.node.end().await?;
    }
    site.mongod.database(NAME).await?.drop().await?;
    for member in &mut site.members {
        member.node.run()?;
    }
    site.until_trusted().await?;
    let (readers, mut served) = (readers(site), 0);
    for id in 1..=USERS {
        served += readers.read(id).await?.iter().flatten().count();
    }
    Ok(u64::try_from(served)?)
}

/// Whether a node over another database ends by itself.
async fn second_is_refused(plan: &Plan, site: &Site) -> Result<bool> {
    let first = site.members.first().context("there is a node")?;
    let mut settings = plan.settings.clone();
    settings.push(format!("redis.prefix={NAME}"));
    let config = NodeConfig {
        kith: plan.kith.clone(),
        name: format!("{NAME}_other"),
        keyspace: keyspace(),
        settings,
        environment: plan.environment.clone(),
    };
    let mongodb = site.mongod.uri(first.to_mongodb.address(), site.members.len());
    let mut node = Node::start(&config, mongodb, first.to_redis.address(), None)?;
    let began = Instant::now();
    while began.elapsed() < REFUSED_WITHIN {
        if node.ended()? {
            return Ok(true);
        }
        sleep(LOOK).await;
    }
    Ok(false)
}
