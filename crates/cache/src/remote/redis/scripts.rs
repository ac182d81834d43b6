//! The rules as Lua, run by Redis: each call is one step that nothing comes between. What is given to a script
//! is never part of its text.

use fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Key, Value, scripts::Script},
};

use super::failures::is_unknown_script;

/// Where the key stands among the words after EVALSHA: after the hash and the number of keys.
const KEY: usize = 2;

/// The scripts. Redis is asked by their hash, and given the text when it does not know it.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    pub(super) acquire: Script,
    pub(super) fill: Script,
    pub(super) release: Script,
    pub(super) change: Script,
    pub(super) probe: Script,
    pub(super) peers: Script,
    pub(super) confirm: Script,
    pub(super) leave: Script,
}

macro_rules! script {
    ($($name:literal),+) => {
        Script::from_lua(concat!($(include_str!(concat!("lua/", $name, ".lua"))),+))
    };
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            acquire: script!("cell", "acquire"),
            fill: script!("cell", "fill"),
            release: script!("cell", "release"),
            change: script!("cell", "registry", "change"),
            probe: script!("cell", "registry", "probe"),
            peers: script!("cell", "registry", "peers"),
            confirm: script!("cell", "confirm"),
            leave: script!("leave"),
        }
    }
}

/// Runs a script.
pub(super) async fn run(
    client: &Client,
    script: &Script,
    keys: Vec<Key>,
    arguments: Vec<Value>,
) -> Result<Value, Error> {
    script.evalsha_with_reload(client, keys, arguments).await
}

/// Runs a script once a key, with the arguments of each; one round trip, in their order.
pub(super) async fn run_each(
    client: &Client,
    script: &Script,
    mut calls: Vec<(Key, Vec<Value>)>,
) -> Result<Vec<Value>, Error> {
    if calls.len() == 1
        && let Some((key, arguments)) = calls.pop()
    {
        return Ok(vec![run(client, script, vec![key], arguments).await?]);
    }
    match pipeline(client, script, &calls).await {
        Err(error) if is_unknown_script(&error) => {
            script.load(client).await?;
            pipeline(client, script, &calls).await
        }
        answers => answers,
    }
}

async fn pipeline(
    client: &Client,
    script: &Script,
    calls: &[(Key, Vec<Value>)],
) -> Result<Vec<Value>, Error> {
    let pipeline = client.pipeline();
    for (key, arguments) in calls {
        let mut words =
            vec![Value::from(script.sha1().clone()), Value::from(1), Value::Bytes(key.inner().clone())];
        words.extend_from_slice(arguments);
        let evalsha = CustomCommand::new_static("EVALSHA", ClusterHash::Offset(KEY), false);
        // Only queued here.
        let _queued: Value = pipeline.custom(evalsha, words).await?;
    }
    pipeline.try_all().await.into_iter().collect()
}
