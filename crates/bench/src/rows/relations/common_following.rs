//! Whom two users follow, one of them few and the other one very many: what that takes of a node, and of Redis.

use anyhow::{Context as _, Result, ensure};
use fred::{
    clients::Client,
    interfaces::ClientLike as _,
    types::{Builder, ClusterHash, CustomCommand, Value, config::Config},
};
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
    ratio::{Pair, Side, interleave},
    results::Results,
};

/// Who follows few.
const FEW: i64 = 1;
/// Who follows many, all of those whom the other one follows among them.
const MANY: i64 = 2;
/// As many as a page may hold.
const PAGE: i32 = 1_000;

/// Runs what is asked for; nothing where there is no CQL or no Redis.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let Some(redis) = plan.redis.as_deref() else { return Ok(()) };
    if !(plan.wants(&COMMON_MEMORY) || plan.wants(&COMMON_REDIS)) {
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
        // Else nodes would read what was noted of the import meanwhile, and count.
        keyspace.raw.closes_parts(MANY, FollowList::Following, CLOSES_WITHIN).await?;
    }
    let commands = Commands::connect(redis).await?;
    let taken = interleave(plan.rounds, async |side| {
        let node = keyspace.served(plan, Some(redis)).await?;
        taken(&node, &commands, side, usize::try_from(few)?).await
    })
    .await?;
    keyspace.remove(plan).await?;
    let of = |part: fn(&CommonCost) -> f64| -> Vec<Pair<f64>> {
        taken.iter().map(|pair| Pair { baseline: part(&pair.baseline), kith: part(&pair.kith) }).collect()
    };
    results.add(&COMMON_MEMORY, &of(|taken| taken.memory))?;
    results.add(&COMMON_REDIS, &of(|taken| taken.command))
}

/// What something took.
#[derive(Clone, Copy, Debug)]
struct CommonCost {
    /// Of the node, at most, in MiB.
    memory: f64,
    /// The longest command of Redis, in milliseconds.
    command: f64,
}

async fn taken(node: &NodeProcess, commands: &Commands, side: Side, few: usize) -> Result<CommonCost> {
    // What the first call of all takes is no part of it.
    following(node).await?;
    node.forget().await?;
    node.served.forget_peak()?;
    commands.forget().await?;
    let found = match side {
        Side::Baseline => following(node).await?,
        Side::Kith => common(node).await?,
    };
    ensure!(found == few, "only {found} of {few} were found");
    Ok(CommonCost { memory: node.served.peak_mib()?, command: commands.longest().await? })
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

/// Reads all users whom both follow; returns how many there are.
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

/// How long commands of a Redis take, by its own log of slow ones, which is let take in all.
struct Commands(Client);

impl Commands {
    async fn connect(redis: &str) -> Result<Self> {
        let client = Builder::from_config(Config::from_url(redis)?).build()?;
        client.init().await?;
        let commands = Self(client);
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
        ensure!(longest > 0.0, "Redis tells of no command");
        Ok(longest / 1e3)
    }

    async fn run(&self, name: &'static str, words: &[&'static str]) -> Result<Value> {
        let command = CustomCommand::new_static(name, ClusterHash::Random, false);
        let words: Vec<Value> = words.iter().map(|word| Value::from(*word)).collect();
        self.0.custom(command, words).await.with_context(|| format!("Redis refuses {name}"))
    }
}
