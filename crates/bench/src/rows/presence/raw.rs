//! The same by hand: plain commands, all of one call in one pipeline.

use anyhow::{Result, ensure};
use fred::{
    clients::{Client, Pipeline},
    error::Error,
    interfaces::ClientLike as _,
    types::{Builder, ClusterHash, CustomCommand, Value, config::Config},
};

/// How long unused data are kept: as in the node.
const KEPT: &str = "4200000";

/// A client.
pub(super) struct RawPresence(Client);

impl RawPresence {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let client = Builder::from_config(Config::from_url(url)?).build()?;
        client.init().await?;
        Ok(Self(client))
    }

    /// Sessions of these users at a gateway go on until then.
    pub(super) async fn renew(&self, gateway: &str, users: &[i64], until: u64) -> Result<()> {
        let pipeline = self.0.pipeline();
        let (due, until) = (format!("raw:gateway:{gateway}"), until.to_string());
        let mut words = vec![due.clone()];
        words.extend(users.iter().flat_map(|user| [until.clone(), user.to_string()]));
        queue(&pipeline, "ZADD", words).await?;
        queue(&pipeline, "PEXPIRE", vec![due, KEPT.to_owned()]).await?;
        for user in users {
            let key = format!("raw:user:{user}");
            let field = format!("phone|{gateway}~1");
            queue(&pipeline, "HSET", vec![key.clone(), field, until.clone()]).await?;
            queue(&pipeline, "PEXPIRE", vec![key, KEPT.to_owned()]).await?;
        }
        run(pipeline, 2 + 2 * users.len()).await
    }

    /// A user is online at a gateway, and these groups know it.
    pub(super) async fn open(&self, user: i64, gateway: &str, groups: &[i64], version: u64) -> Result<()> {
        let pipeline = self.0.pipeline();
        let (key, version) = (format!("raw:user:{user}"), version.to_string());
        queue(&pipeline, "HSET", owned(&[&key, "phone", &version, "version", &version])).await?;
        queue(&pipeline, "PEXPIRE", owned(&[&key, KEPT])).await?;
        queue(&pipeline, "PUBLISH", owned(&["raw:presence", &format!("{user} {version} {gateway}")])).await?;
        for group in groups {
            let of = |what: &str| format!("{{raw:group:{group}}}:{what}");
            let entry = format!("{version}:{gateway}");
            queue(&pipeline, "HSET", owned(&[&of("users"), &user.to_string(), &entry])).await?;
            queue(&pipeline, "ZADD", owned(&[&of("online"), "0", &format!("{user:019}")])).await?;
            queue(&pipeline, "HINCRBY", owned(&[&of("gateways"), gateway, "1"])).await?;
            queue(&pipeline, "HSET", owned(&[&of("gateways"), ":version", &version])).await?;
        }
        run(pipeline, 3 + 4 * groups.len()).await
    }
}

async fn queue(pipeline: &Pipeline<Client>, name: &'static str, words: Vec<String>) -> Result<(), Error> {
    let command = CustomCommand::new_static(name, ClusterHash::Random, false);
    // Only queued here.
    let _queued: Value =
        pipeline.custom(command, words.into_iter().map(Value::from).collect::<Vec<_>>()).await?;
    Ok(())
}

async fn run(pipeline: Pipeline<Client>, commands: usize) -> Result<()> {
    let answers: Vec<Result<Value, Error>> = pipeline.try_all().await;
    ensure!(answers.len() == commands && answers.iter().all(Result::is_ok), "Redis refuses a command");
    Ok(())
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
