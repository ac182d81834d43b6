//! Presence by hand: plain commands, all commands for one call in one pipeline.

use anyhow::Result;
use fred::types::Value;

use crate::rows::redis::RawRedis;

/// How long unused data are kept: as in the node.
const KEPT: &str = "4200000";

pub(super) struct RawPresence(RawRedis);

impl RawPresence {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(RawRedis::patient(url, "raw").await?))
    }

    /// Extends these users' sessions at a gateway until then.
    pub(super) async fn renew(&self, gateway: &str, users: &[i64], until: u64) -> Result<()> {
        let (due, until) = (format!("raw:gateway:{gateway}"), until.to_string());
        let mut scores = vec![Value::from(due.as_str())];
        scores.extend(users.iter().flat_map(|user| [until.clone(), user.to_string()]).map(Value::from));
        let mut commands = vec![("ZADD", scores), command("PEXPIRE", &[&due, KEPT])];
        for user in users {
            let key = format!("raw:user:{user}");
            commands.push(command("HSET", &[&key, &format!("phone|{gateway}~1"), &until]));
            commands.push(command("PEXPIRE", &[&key, KEPT]));
        }
        self.0.together(commands).await
    }

    /// A user is online at a gateway, and these groups know it.
    pub(super) async fn open(&self, user: i64, gateway: &str, groups: &[i64], version: u64) -> Result<()> {
        let (key, version) = (format!("raw:user:{user}"), version.to_string());
        let mut commands = vec![
            command("HSET", &[&key, "phone", &version, "version", &version]),
            command("PEXPIRE", &[&key, KEPT]),
            command("PUBLISH", &["raw:presence", &format!("{user} {version} {gateway}")]),
        ];
        for group in groups {
            let of = |what: &str| format!("{{raw:group:{group}}}:{what}");
            let entry = format!("{version}:{gateway}");
            commands.push(command("HSET", &[&of("users"), &user.to_string(), &entry]));
            commands.push(command("ZADD", &[&of("online"), "0", &format!("{user:019}")]));
            commands.push(command("HINCRBY", &[&of("gateways"), gateway, "1"]));
            commands.push(command("HSET", &[&of("gateways"), ":version", &version]));
        }
        self.0.together(commands).await
    }
}

fn command(name: &'static str, words: &[&str]) -> (&'static str, Vec<Value>) {
    (name, words.iter().copied().map(Value::from).collect())
}
