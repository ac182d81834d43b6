//! `kith inspect`: shows a record's copies in each tier on each node, and a conversation's stored messages.

mod log;

use anyhow::{Result, bail};
use futures::future::join_all;
use kith_proto::admin::v1::{
    InspectKeyRequest, InspectKeyResponse, Presence, TierCopy, admin_service_client::AdminServiceClient,
};
use serde::Serialize;
use tonic::Status;

use self::log::ConversationLog;
use super::{
    Common, FAILED, OK,
    client::{Target, Targets, message_of},
    output::{OutputForm, Report, note},
};

/// The exit code if no tier has the record.
const ABSENT: u8 = 3;
/// The exit code when tiers hold different versions.
const DIFFERING: u8 = 4;
const STORE: &str = "store";
/// The node name in a request that asks only the called node.
const SELF: &str = "self";

/// Which record to look at.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Inspects every node that the asked node knows; with several addresses, only these.\n\
                        Inspecting changes nothing: no tier is filled, nothing counts as a hit, no expiry is extended.\n\
                        For a conversation, the store is also asked where its messages begin and end, for its settings, and whether it exists; never for contents.\n\
                        Exit codes: 0 the tiers that have it agree, 3 no tier has it, 4 they differ, 1 a node of several did not answer, 2 it could not begin. During a write tiers differ for a moment."
)]
pub(super) struct InspectOptions {
    /// NAMESPACE/KEY: user/7, group/7, conversation/g9, dialog/7,g9
    key: String,
    /// Only inspect the node that is asked
    #[arg(long)]
    this_node: bool,
    #[command(flatten)]
    targets: Targets,
}

/// Looks at the record on every node. Fails if the key is invalid, or the only queried node does not answer.
pub(super) async fn run(common: &Common, arguments: &InspectOptions) -> Result<u8> {
    if !arguments.key.contains('/') {
        bail!("{:?} is no key; say NAMESPACE/KEY, for example user/7 or group/7", arguments.key);
    }
    let alone = arguments.targets.each().len() == 1;
    let everywhere = alone && !arguments.this_node;
    let asked = arguments.targets.each().map(|target| inspect_node(target, &arguments.key, everywhere));
    let (mut copies, mut away) = (Vec::new(), false);
    for inspection in join_all(asked).await {
        match inspection {
            Ok(found) => {
                found.missing.iter().for_each(|why| note(&format!("kith: {why}")));
                away |= !found.missing.is_empty();
                copies.extend(found.copies);
            }
            Err(InspectError::Key(why)) => bail!("{why}; say NAMESPACE/KEY, for example user/7 or group/7"),
            Err(InspectError::Node(why)) if alone => return Err(why),
            Err(InspectError::Node(why)) => {
                note(&format!("kith: {why:#}"));
                away = true;
            }
        }
    }
    let log = match arguments.key.strip_prefix("conversation/") {
        Some(id) => log::first(arguments.targets.each(), id).await,
        None => None,
    };
    let verdict = verdict(&copies);
    let inspected = InspectReport { key: arguments.key.clone(), verdict: verdict.0, copies, log };
    common.output.print(&inspected)?;
    match &inspected.log {
        Some(log) if common.output.form() != OutputForm::Json => common.output.print(log)?,
        _ => {}
    }
    Ok(if away && verdict.1 == OK { FAILED } else { verdict.1 })
}

/// The reason why an inspection failed.
enum InspectError {
    /// The node does not know such a key.
    Key(String),
    /// The node does not answer.
    Node(anyhow::Error),
}

/// The results, and the nodes that did not answer.
#[derive(Default)]
struct NodeInspection {
    copies: Vec<TierState>,
    missing: Vec<String>,
}

async fn inspect_node(target: Target, key: &str, everywhere: bool) -> Result<NodeInspection, InspectError> {
    let channel = target.connect().await.map_err(InspectError::Node)?;
    let mut client = AdminServiceClient::new(channel);
    let node_id = if everywhere { "" } else { SELF };
    let request = InspectKeyRequest { key: key.to_owned(), node_id: node_id.to_owned(), memory_only: false };
    let answer = target.answer(client.inspect_key(target.request(request))).await;
    let answer = answer.map_err(|status: Status| match status.code() {
        tonic::Code::InvalidArgument => InspectError::Key(message_of(&status)),
        code => {
            InspectError::Node(anyhow::anyhow!("{} answers {code:?}: {}", target.addr, message_of(&status)))
        }
    })?;
    Ok(found(&target.addr, &answer.into_inner()))
}

fn found(addr: &str, answer: &InspectKeyResponse) -> NodeInspection {
    let mut found = NodeInspection { copies: rows(addr, &answer.copies), missing: Vec::new() };
    for other in &answer.others {
        match other.unanswered.as_str() {
            "" => found.copies.extend(rows(&other.address, &other.copies)),
            why => found.missing.push(format!("the node at {}: {why}", other.address)),
        }
    }
    if !answer.complete {
        found.missing.push("Redis does not answer: which other nodes there are is not known".to_owned());
    }
    found
}

fn rows(node: &str, copies: &[TierCopy]) -> Vec<TierState> {
    copies.iter().map(|copy| TierState::of(node, copy)).collect()
}

#[derive(Serialize)]
struct InspectReport {
    key: String,
    verdict: &'static str,
    copies: Vec<TierState>,
    /// A conversation's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<ConversationLog>,
}

/// The content that one tier on one node holds.
#[derive(Debug, Serialize)]
struct TierState {
    node: String,
    tier: String,
    presence: &'static str,
    version: Option<i64>,
    age_ms: Option<u128>,
    ttl_ms: Option<u128>,
    size_bytes: Option<i64>,
}

impl TierState {
    fn of(node: &str, copy: &TierCopy) -> Self {
        let milliseconds = |time: prost_types::Duration| {
            std::time::Duration::try_from(time).ok().map(|time| time.as_millis())
        };
        let presence = match copy.presence() {
            Presence::Value => "value",
            Presence::Null => "null",
            Presence::None | Presence::Unspecified => "none",
        };
        Self {
            node: node.to_owned(),
            tier: copy.tier.clone(),
            presence,
            version: Some(copy.version).filter(|version| *version != 0),
            age_ms: copy.age.and_then(milliseconds),
            ttl_ms: copy.ttl.and_then(milliseconds),
            size_bytes: Some(copy.size_bytes).filter(|size| *size != 0),
        }
    }

    /// Returns whether the tier has a definite state: an empty memory has none.
    fn has_state(&self) -> bool {
        self.presence != "none" || self.tier == STORE
    }

    fn has_value(&self) -> bool {
        self.presence == "value"
    }
}

fn verdict(copies: &[TierState]) -> (&'static str, u8) {
    let definite: Vec<_> = copies.iter().filter(|copy| copy.has_state()).collect();
    let Some(first) = definite.iter().find(|copy| copy.has_value()) else { return ("absent", ABSENT) };
    match definite.iter().all(|copy| copy.has_value() && copy.version == first.version) {
        true => ("same", OK),
        false => ("differing", DIFFERING),
    }
}

impl Report for TierState {
    const COLUMNS: &'static [&'static str] = &["node", "tier", "presence", "version", "age", "ttl", "bytes"];

    fn row(&self) -> Vec<String> {
        let time = |ms: Option<u128>| ms.map_or_else(String::new, |ms| format!("{ms}ms"));
        let number = |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
        vec![
            self.node.clone(),
            self.tier.clone(),
            self.presence.to_owned(),
            number(self.version),
            time(self.age_ms),
            time(self.ttl_ms),
            number(self.size_bytes),
        ]
    }
}

impl Report for InspectReport {
    const COLUMNS: &'static [&'static str] = TierState::COLUMNS;

    fn rows(&self) -> Vec<Vec<String>> {
        self.copies.rows()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(tier: &str, presence: Presence, version: i64) -> TierState {
        let copy =
            TierCopy { tier: tier.to_owned(), presence: presence.into(), version, ..TierCopy::default() };
        TierState::of("node", &copy)
    }

    #[test]
    fn tiers_agree_differ_or_have_nothing() {
        let memory = |presence, version| copy("memory", presence, version);
        let store = |presence, version| copy(STORE, presence, version);
        for (copies, expected) in [
            (vec![memory(Presence::Value, 2), store(Presence::Value, 2)], 0),
            (vec![memory(Presence::None, 0), store(Presence::Value, 2)], 0),
            (vec![memory(Presence::Value, 1), store(Presence::Value, 2)], 4),
            (vec![memory(Presence::Null, 0), store(Presence::Value, 2)], 4),
            (vec![memory(Presence::Value, 1), store(Presence::Null, 2)], 4),
            (vec![memory(Presence::Value, 1), store(Presence::None, 0)], 4),
            (vec![memory(Presence::Null, 0), store(Presence::Null, 3)], 3),
            (vec![memory(Presence::None, 0), store(Presence::None, 0)], 3),
            (vec![memory(Presence::Value, 2), memory(Presence::Value, 1), store(Presence::Value, 2)], 4),
        ] {
            assert_eq!(verdict(&copies).1, expected, "{copies:?}");
        }
    }
}
