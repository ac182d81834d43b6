//! The form of a case, see `clients/conformance/README.md`.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What the node does in one case, and the text of the case for runners.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) node: NodePart,
    /// The case without the node's part.
    pub(crate) shown: Value,
}

/// The part of a case that runners do not see.
#[derive(Debug, Deserialize)]
pub(crate) struct NodePart {
    pub(crate) node: Vec<Entry>,
    /// The number of the contract in each answer; null: none.
    #[serde(default = "default_contract")]
    pub(crate) contract: Option<u32>,
    #[serde(default)]
    pub(crate) listen_after_ms: u64,
}

#[expect(clippy::unnecessary_wraps, reason = "serde wants the type of the field")]
const fn default_contract() -> Option<u32> {
    Some(kith_proto::CONTRACT)
}

/// What a try must show, and what it is answered. One of `any_order`, `socket` and `method` is given.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Entry {
    pub(crate) any_order: Vec<Entry>,
    pub(crate) socket: Vec<Line>,
    pub(crate) method: String,
    pub(crate) request: Option<Value>,
    pub(crate) ids: Vec<String>,
    pub(crate) same_as: Option<usize>,
    pub(crate) metadata: BTreeMap<String, Value>,
    pub(crate) absent: Vec<String>,
    pub(crate) after_ms: u64,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) answer: Option<Value>,
    pub(crate) answers: Option<Vec<Value>>,
    pub(crate) open: bool,
    pub(crate) error: Option<ErrorAnswer>,
    pub(crate) lost: Option<Lost>,
    pub(crate) goaway: bool,
    pub(crate) refused: bool,
    pub(crate) never: bool,
    pub(crate) headers: BTreeMap<String, String>,
}

/// How an answer is lost.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Lost {
    /// The connection is closed.
    Connection,
    /// The stream is reset.
    Stream,
}

/// An error that is answered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ErrorAnswer {
    pub(crate) code: String,
    pub(crate) reason: Option<String>,
    pub(crate) field: Option<String>,
    pub(crate) outcome: Option<String>,
    pub(crate) until: Option<String>,
    pub(crate) retry_ms: Option<u64>,
    pub(crate) message: String,
}

/// One line of the script of a socket.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Line {
    pub(crate) r#in: Option<Map<String, Value>>,
    pub(crate) without: Vec<String>,
    pub(crate) r#as: Option<String>,
    pub(crate) same_as: Option<String>,
    pub(crate) out: Option<Map<String, Value>>,
    pub(crate) to: Option<String>,
    pub(crate) close: Option<u16>,
    pub(crate) lost: bool,
    pub(crate) open: bool,
}

/// Reads the cases of a folder, by `FILE/NAME`.
pub(crate) fn read_all(folder: &Path) -> Result<BTreeMap<String, Case>> {
    let mut cases = BTreeMap::new();
    for file in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = file?.path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let list: Vec<Value> = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a list of cases", path.display()))?;
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for case in list {
            let name = format!("{file}/{}", case["name"].as_str().context("a case has no name")?);
            let case = read(case).with_context(|| format!("the case {name}"))?;
            if cases.insert(name.clone(), case).is_some() {
                bail!("two cases are called {name}");
            }
        }
    }
    Ok(cases)
}

fn read(mut case: Value) -> Result<Case> {
    const KNOWN: [&str; 8] =
        ["name", "says", "for", "client", "steps", "node", "contract", "listen_after_ms"];
    let fields = case.as_object_mut().context("is not an object")?;
    if let Some(other) = fields.keys().find(|field| !KNOWN.contains(&field.as_str())) {
        bail!("has an unknown field {other}");
    }
    let node = NodePart::deserialize(&Value::Object(fields.clone()))?;
    fields.remove("node");
    Ok(Case { node, shown: case })
}
