//! The rules as Lua scripts in Redis: each call is one atomic step. Parameters are never part of a script's text.

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::{ClientLike, LuaInterface},
    types::{ClusterHash, CustomCommand, FromValue, Key, Value, scripts::Script},
};

use super::{failures::is_unknown_script, runner::ScriptCall};
use crate::remote::shared::Header;

/// A script of another crate.
#[derive(Clone, Debug)]
pub struct RedisScript(Script);

impl RedisScript {
    /// A script with this text.
    #[must_use]
    pub fn new(text: &'static str) -> Self {
        Self(Script::from_lua(text))
    }
}

/// The scripts. They are called by hash; if Redis does not know the hash, the text is sent.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    pub(super) acquire: Script,
    pub(super) fill: Script,
    pub(super) release: Script,
    pub(super) change: Script,
    /// The same with the list of nodes; a separate script, because Redis needs time even for parts of a script that do
    /// not run.
    pub(super) change_strict: Script,
    pub(super) probe: Script,
    pub(super) peers: Script,
    pub(super) confirm: Script,
    pub(super) leave: Script,
    pub(super) owner: Script,
    pub(super) rights: Script,
}

macro_rules! script {
    ($($name:literal),+) => {
        marked(concat!($(include_str!(concat!("lua/", $name, ".lua"))),+))
    };
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            acquire: script!("cell", "acquire"),
            fill: script!("cell", "fill"),
            release: script!("cell", "release"),
            change: script!("cell", "epoch", "change", "changed"),
            change_strict: script!("cell", "epoch", "registry", "change", "changed_strict"),
            probe: script!("cell", "epoch", "registry", "probe"),
            peers: script!("cell", "registry", "peers"),
            confirm: script!("cell", "confirm"),
            leave: script!("leave"),
            owner: script!("registry", "owner"),
            rights: script!("rights"),
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
    match client.evalsha(script.sha1().clone(), keys.clone(), arguments.clone()).await {
        Err(error) if is_unknown_script(&error) => client.eval(text(script), keys, arguments).await,
        answer => answer,
    }
}

/// Runs a script by its text and without keys, on the server that the client leads to.
pub(super) async fn run_text<C: ClientLike, R: FromValue>(
    client: &C,
    script: &Script,
    arguments: Vec<String>,
) -> Result<R, Error> {
    let words: Vec<String> = [text(script).to_owned(), "0".to_owned()].into_iter().chain(arguments).collect();
    client.custom(CustomCommand::new_static("EVAL", ClusterHash::Random, false), words).await
}

/// Runs a script once a key, with the arguments of each; one round trip, in their order.
pub(super) async fn run_each(
    client: &Client,
    script: &Script,
    calls: &[(Key, Vec<Value>)],
) -> Result<Vec<Value>, Error> {
    if let [(key, arguments)] = calls {
        return Ok(vec![run(client, script, vec![key.clone()], arguments.clone()).await?]);
    }
    match pipeline(client, script, calls).await {
        Err(error) if is_unknown_script(&error) => {
            // Idempotent; the server that has run it then knows the script.
            if let Some((key, arguments)) = calls.first() {
                run(client, script, vec![key.clone()], arguments.clone()).await?;
            }
            pipeline(client, script, calls).await
        }
        answers => answers,
    }
}

/// Runs each of several scripts, in one round trip; returns their answers in order.
pub(super) async fn run_all(
    client: &Client,
    calls: &[ScriptCall<'_>],
) -> Result<Vec<Result<Value, Error>>, Error> {
    let all: Vec<&ScriptCall<'_>> = calls.iter().collect();
    let mut answers = sent(client, &all, false).await?;
    let is_unknown = |answer: &Result<Value, Error>| answer.as_ref().is_err_and(is_unknown_script);
    let unknown: Vec<usize> = (0..all.len()).filter(|at| is_unknown(&answers[*at])).collect();
    if !unknown.is_empty() {
        let again: Vec<&ScriptCall<'_>> = unknown.iter().map(|at| all[*at]).collect();
        for (at, answer) in unknown.iter().zip(sent(client, &again, true).await?) {
            answers[*at] = answer;
        }
    }
    Ok(answers)
}

/// Sends the calls, by hash or with the text of the scripts.
async fn sent(
    client: &Client,
    calls: &[&ScriptCall<'_>],
    with_text: bool,
) -> Result<Vec<Result<Value, Error>>, Error> {
    let pipeline = client.pipeline();
    for call in calls {
        let script = &call.script.0;
        let (name, first) = if with_text { ("EVAL", text(script)) } else { ("EVALSHA", &**script.sha1()) };
        let slot = call
            .keys
            .first()
            .map_or(ClusterHash::Random, |key| ClusterHash::Custom(Key::from(key.as_str()).cluster_hash()));
        let command = CustomCommand::new_static(name, slot, false);
        // This only queues the command.
        let _queued: Value = pipeline.custom(command, words(first, call)).await?;
    }
    let answers: Vec<Result<Value, Error>> = pipeline.try_all().await;
    // For a broken pipeline the client returns one error only.
    if answers.len() == calls.len() {
        return Ok(answers);
    }
    let failure = answers.into_iter().find_map(Result::err);
    Err(failure.unwrap_or_else(|| Error::new(ErrorKind::Protocol, "answers are missing")))
}

/// The arguments of the command: the script, the keys, and the script's arguments.
fn words(script: &str, call: &ScriptCall<'_>) -> Vec<Value> {
    let first = [Value::from(script), Value::from(call.keys.len().to_string())];
    let keys = call.keys.iter().map(|key| Value::from(key.as_str()));
    first.into_iter().chain(keys).chain(call.arguments.iter().cloned().map(Value::Bytes)).collect()
}

async fn pipeline(
    client: &Client,
    script: &Script,
    calls: &[(Key, Vec<Value>)],
) -> Result<Vec<Value>, Error> {
    let pipeline = client.pipeline();
    for (key, arguments) in calls {
        let hash = Value::from(script.sha1().clone());
        let mut words = vec![hash, Value::from(1), Value::Bytes(key.inner().clone())];
        words.extend_from_slice(arguments);
        let evalsha = CustomCommand::new_static("EVALSHA", ClusterHash::Custom(key.cluster_hash()), false);
        // This only queues the command.
        let _queued: Value = pipeline.custom(evalsha, words).await?;
    }
    let answers: Vec<Value> = pipeline.try_all().await.into_iter().collect::<Result<_, _>>()?;
    // For a broken pipeline the client returns one error only.
    if answers.len() == calls.len() {
        Ok(answers)
    } else {
        Err(Error::new(ErrorKind::Protocol, "answers are missing"))
    }
}

/// A script with this text, which recognises cells of this version.
fn marked(text: &str) -> Script {
    let [magic, form] = Header::mark();
    Script::from_lua(format!("local MARK = '\\{magic}\\{form}'\n{text}"))
}

fn text(script: &Script) -> &str {
    script.lua().map_or("", |text| text)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn arguments_of_any_bytes_are_sent_as_they_are() {
        let script = RedisScript::new("return ARGV[1]");
        let binary = Bytes::from_static(b"\xff\0\r\n\xc3(");
        let call = ScriptCall::new(&script, vec!["key".to_owned()], [binary.clone(), Bytes::new()]);
        let sent: Vec<_> =
            words("hash", &call).iter().map(|word| word.as_bytes().unwrap().to_vec()).collect();
        assert_eq!(sent, [&b"hash"[..], b"1", b"key", &binary, b""]);
    }
}
