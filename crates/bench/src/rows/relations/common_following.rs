//! Finds whom two users follow, if one follows few users and the other very many: the cost for a node, and
//! for Redis.

use anyhow::{Context as _, Result, ensure};
use fred::types::Value;
use kith_lab_servers::usage;
use kith_proto::relation::v1::{
    ListCommonFollowingRequest, ListFollowingRequest, relation_service_client::RelationServiceClient,
};
use kith_store::{FollowList, ImportedFollow};

use super::{
    cql::{Keyspace, NodeProcess, all_pages},
    graph::{import, star},
    lists::CLOSES_WITHIN,
};
use crate::{
    claims::{COMMON_MEMORY, COMMON_REDIS, Plan},
    ratio::{Side, each, interleave},
    results::Results,
    rows::redis::RawRedis,
};

/// The user who follows few.
const FEW: i64 = 1;
/// The user who follows many, including all whom the other user follows.
const MANY: i64 = 2;
/// The most entries that a page may hold.
const PAGE: i32 = 1_000;

/// Runs the requested rows. No row runs unless there is a CQL and a Redis.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let Some(redis) = plan.redis.as_deref() else { return Ok(()) };
    if !plan.wants_any(&[&COMMON_MEMORY, &COMMON_REDIS]) {
        return Ok(());
    }
    let Some(keyspace) = Keyspace::open(plan, "common").await? else { return Ok(()) };
    let (few, many): (i64, i64) = plan.size((10_000, 1_000_000), (100, 2_000));
    for (user, follows) in [(FEW, few), (MANY, many)] {
        let fans = star(user, 3..3 + follows)?;
        let following: Vec<_> =
            fans.iter().map(|fan| ImportedFollow { edge: fan.edge.reversed(), ..*fan }).collect();
        import(&keyspace.stores.follows, &following).await?;
    }
    if !plan.quick {
        // Otherwise nodes would meanwhile read the notes about the import, and count.
        keyspace.raw.closes_parts(MANY, FollowList::Following, CLOSES_WITHIN).await?;
    }
    let commands = Commands::connect(redis).await?;
    let taken = interleave(plan.rounds, async |side| {
        let node = keyspace.served(plan, Some(redis)).await?;
        taken(&node, &commands, side, usize::try_from(few)?).await
    })
    .await?;
    keyspace.remove(plan).await?;
    results.add(&COMMON_MEMORY, &each(&taken, |taken| taken.memory))?;
    results.add(&COMMON_REDIS, &each(&taken, |taken| taken.command))
}

/// The cost in a node and in Redis.
#[derive(Clone, Copy, Debug)]
struct CommonCost {
    /// The node's peak memory, in MiB.
    memory: f64,
    /// The longest Redis command, in milliseconds.
    command: f64,
}

async fn taken(node: &NodeProcess, commands: &Commands, side: Side, few: usize) -> Result<CommonCost> {
    // What the very first call costs must not count.
    following(node).await?;
    node.forget().await?;
    usage::forget_peak(node.served.id())?;
    commands.forget().await?;
    let found = match side {
        Side::Baseline => following(node).await?,
        Side::Kith => common(node).await?,
    };
    ensure!(found == few, "only {found} of {few} were found");
    Ok(CommonCost { memory: usage::peak_mib(node.served.id())?, command: commands.longest().await? })
}

/// Reads all followed users of the user who follows few; returns how many there are.
async fn following(node: &NodeProcess) -> Result<usize> {
    let client = RelationServiceClient::new(node.channel.clone());
    all_pages(async |page_token| {
        let request = ListFollowingRequest { user_id: FEW, page_size: PAGE, page_token, consistency: None };
        let page = client.clone().list_following(request).await?.into_inner();
        Ok((page.follows.len(), page.next_page_token))
    })
    .await
}

/// Reads all users whom both follow. Returns how many there are.
async fn common(node: &NodeProcess) -> Result<usize> {
    let client = RelationServiceClient::new(node.channel.clone());
    all_pages(async |page_token| {
        let (user_id, other_id) = (FEW, MANY);
        let request =
            ListCommonFollowingRequest { user_id, other_id, page_size: PAGE, page_token, consistency: None };
        let page = client.clone().list_common_following(request).await?.into_inner();
        Ok((page.user_ids.len(), page.next_page_token))
    })
    .await
}

/// How long Redis commands take, by its slow log, which is made to record all commands.
struct Commands(RawRedis);

impl Commands {
    async fn connect(redis: &str) -> Result<Self> {
        let commands = Self(RawRedis::patient(redis, "common").await?);
        for (name, value) in [("slowlog-log-slower-than", "0"), ("slowlog-max-len", "1000000")] {
            commands.run("CONFIG", &["SET", name, value]).await?;
        }
        Ok(commands)
    }

    async fn forget(&self) -> Result<()> {
        self.run("SLOWLOG", &["RESET"]).await.map(drop)
    }

    /// The longest one since [`Self::forget`], in milliseconds.
    async fn longest(&self) -> Result<f64> {
        let entries = self.run("SLOWLOG", &["GET", "-1"]).await?.into_array();
        // An entry is its number, its time, the microseconds that it took, and its words.
        let took = entries.into_iter().filter_map(|entry| entry.into_array().into_iter().nth(2)?.as_f64());
        let longest = took.fold(0.0, f64::max);
        ensure!(longest > 0.0, "Redis logs no command");
        Ok(longest / 1e3)
    }

    async fn run(&self, name: &'static str, words: &[&'static str]) -> Result<Value> {
        self.0.ask(name, words.iter().copied()).await.with_context(|| format!("Redis refuses {name}"))
    }
}
