//! The rules as Lua scripts in Redis: each call is one atomic step. Parameters are never part of a script's
//! text.

use bytes::Bytes;
use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::{ClientLike, LuaInterface},
    types::{ClusterHash, CustomCommand, FromValue, Key, Value, scripts::Script},
};

use super::failures::is_unknown_script;
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

/// One call to a script. Its parameters never become part of the script's text.
#[derive(Clone, Debug)]
pub struct ScriptCall<'a> {
    /// The script to run.
    pub script: &'a RedisScript,
    /// Its keys, at least one; with [`ScriptRunner::has_slots`](super::ScriptRunner::has_slots) all must be
    /// in one slot.
    pub keys: Vec<String>,
    /// Its further arguments; any bytes.
    pub arguments: Vec<Bytes>,
}

impl<'a> ScriptCall<'a> {
    /// Calls `script` with these keys and arguments. Texts and byte vectors are taken without a copy.
    pub fn new<A: Into<Bytes>>(
        script: &'a RedisScript,
        keys: Vec<String>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self { script, keys, arguments: arguments.into_iter().map(Into::into).collect() }
    }
}

/// The scripts. They are called by hash; if Redis does not know the hash, the text is sent.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    pub(super) acquire: Script,
    pub(super) fill: Script,
    pub(super) release: Script,
    pub(super) change: Script,
    /// Like `change`, with the list of nodes; a separate script, because Redis needs time even for script
    /// parts that do not run.
    pub(super) change_strict: Script,
    pub(super) probe: Script,
    pub(super) peers: Script,
    pub(super) confirm: Script,
    pub(super) leave: Script,
    pub(super) owner: Script,
    pub(super) rights: Script,
}

impl Scripts {
    /// `publish`: the command that publishes.
    pub(super) fn new(publish: &str) -> Self {
        let marked = |text: &str| marked(text, publish);
        macro_rules! script {
            ($($name:literal),+) => {
                marked(concat!($(include_str!(concat!("lua/", $name, ".lua"))),+))
            };
        }
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

/// One run of a script in a pipeline.
struct PipelinedRun<'a> {
    script: &'a Script,
    slot: ClusterHash,
    /// The number of keys, the keys, and the further arguments.
    words: Vec<Value>,
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
    let of_key = |(key, arguments): &(Key, Vec<Value>)| {
        let mut words = vec![Value::from(1), Value::Bytes(key.inner().clone())];
        words.extend_from_slice(arguments);
        PipelinedRun { script, slot: ClusterHash::Custom(key.cluster_hash()), words }
    };
    let runs: Vec<_> = calls.iter().map(of_key).collect();
    run_pipeline(client, &runs).await?.into_iter().collect()
}

/// Runs each of several scripts, in one round trip; returns their answers in order.
pub(super) async fn run_all(
    client: &Client,
    calls: &[ScriptCall<'_>],
) -> Result<Vec<Result<Value, Error>>, Error> {
    run_pipeline(client, &calls.iter().map(PipelinedRun::of).collect::<Vec<_>>()).await
}

impl<'a> PipelinedRun<'a> {
    fn of(call: &ScriptCall<'a>) -> Self {
        let slot_of = |key: &String| ClusterHash::Custom(Key::from(key.as_str()).cluster_hash());
        let keys = call.keys.iter().map(|key| Value::from(key.as_str()));
        let arguments = call.arguments.iter().cloned().map(Value::Bytes);
        Self {
            script: &call.script.0,
            slot: call.keys.first().map_or(ClusterHash::Random, slot_of),
            words: std::iter::once(Value::from(call.keys.len().to_string()))
                .chain(keys)
                .chain(arguments)
                .collect(),
        }
    }
}

/// Runs all by their hashes, and again by their texts those whose hashes the server does not know.
async fn run_pipeline(
    client: &Client,
    runs: &[PipelinedRun<'_>],
) -> Result<Vec<Result<Value, Error>>, Error> {
    let mut answers = send(client, &runs.iter().collect::<Vec<_>>(), false).await?;
    let is_unknown = |answer: &Result<Value, Error>| answer.as_ref().is_err_and(is_unknown_script);
    let unknown: Vec<usize> = (0..runs.len()).filter(|at| is_unknown(&answers[*at])).collect();
    if !unknown.is_empty() {
        let again: Vec<_> = unknown.iter().map(|at| &runs[*at]).collect();
        for (at, answer) in unknown.iter().zip(send(client, &again, true).await?) {
            answers[*at] = answer;
        }
    }
    Ok(answers)
}

/// Sends the runs, by hash or with the text of the scripts.
async fn send(
    client: &Client,
    runs: &[&PipelinedRun<'_>],
    with_text: bool,
) -> Result<Vec<Result<Value, Error>>, Error> {
    let pipeline = client.pipeline();
    for run in runs {
        let (name, first) =
            if with_text { ("EVAL", text(run.script)) } else { ("EVALSHA", &**run.script.sha1()) };
        let command = CustomCommand::new_static(name, run.slot.clone(), false);
        let words: Vec<Value> =
            std::iter::once(Value::from(first)).chain(run.words.iter().cloned()).collect();
        // This only queues the command.
        let _queued: Value = pipeline.custom(command, words).await?;
    }
    let answers: Vec<Result<Value, Error>> = pipeline.try_all().await;
    // For a broken pipeline the client returns one error only.
    if answers.len() == runs.len() {
        return Ok(answers);
    }
    let failure = answers.into_iter().find_map(Result::err);
    Err(failure.unwrap_or_else(|| Error::new(ErrorKind::Protocol, "answers are missing")))
}

/// The command that publishes. In a Redis Cluster it reaches the servers that have the channel's slot, and
/// not all servers.
pub(super) const fn publish_command(is_cluster: bool) -> &'static str {
    if is_cluster { "SPUBLISH" } else { "PUBLISH" }
}

/// A script with this text, which recognises cells of this version, and publishes by this command.
fn marked(text: &str, publish: &str) -> Script {
    let [magic, format] = Header::mark();
    Script::from_lua(format!("local MARK, PUBLISH = '\\{magic}\\{format}', '{publish}'\n{text}"))
}

fn text(script: &Script) -> &str {
    script.lua().map_or("", |text| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_any_bytes_are_sent_as_they_are() {
        let script = RedisScript::new("return ARGV[1]");
        let binary = Bytes::from_static(b"\xff\0\r\n\xc3(");
        let call = ScriptCall::new(&script, vec!["key".to_owned()], [binary.clone(), Bytes::new()]);
        let words = PipelinedRun::of(&call).words;
        let sent: Vec<_> = words.iter().map(|word| word.as_bytes().unwrap()).collect();
        assert_eq!(sent, [&b"1"[..], b"key", &binary, b""]);
    }
}
