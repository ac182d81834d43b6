//! What the values of a key are.

use std::{collections::BTreeMap, fmt};

use super::source::{Item, Member};
use crate::reference::markdown::one_line;

/// What the values of a key are. Its text is that of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A number of bytes, also with a unit.
    Size,
    /// A time such as `1s 500ms`.
    Duration,
    /// An address and a port.
    Address,
    /// A file or a folder.
    Path,
    /// True or false.
    Flag,
    /// Not below 0.
    WholeNumber,
    /// With decimals.
    Number,
    /// A text.
    Text,
    /// A text that is not shown.
    Secret,
    /// A list of texts.
    Texts,
    /// A list of tables.
    Tables,
    /// One of these, each with its docstring.
    Choice(Vec<(String, String)>),
    /// A type that is not known here, by its name in Rust.
    Other(String),
}

impl ValueKind {
    /// Of a field, by its type and by what reads it.
    pub(super) fn of(member: &Member, items: &BTreeMap<String, Item>) -> Self {
        let kind = member.kind.strip_prefix("Option<").and_then(|kind| kind.strip_suffix('>'));
        match (member.with.as_str(), kind.unwrap_or(&member.kind)) {
            ("size", _) => Self::Size,
            (_, "Duration") => Self::Duration,
            (_, "SocketAddr") => Self::Address,
            (_, "PathBuf") => Self::Path,
            (_, "bool") => Self::Flag,
            (_, "usize" | "u16" | "u32" | "u64") => Self::WholeNumber,
            (_, "f64") => Self::Number,
            (_, "String") => Self::Text,
            (_, "Secret" | "ApiKey") => Self::Secret,
            (_, "Vec<String>") => Self::Texts,
            (_, "Vec<IssuerConfig>") => Self::Tables,
            (_, other) => items.get(other).map_or_else(|| Self::Other(other.to_owned()), Self::choice),
        }
    }

    fn choice(item: &Item) -> Self {
        let one = |choice: &Member| (choice.name.clone(), one_line(&choice.doc));
        Self::Choice(item.members.iter().map(one).collect())
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "size",
            Self::Duration => "duration",
            Self::Address => "address and port",
            Self::Path => "path",
            Self::Flag => "`true` or `false`",
            Self::WholeNumber => "whole number",
            Self::Number => "number",
            Self::Text => "text",
            Self::Secret => "secret",
            Self::Texts => "list",
            Self::Tables => "list of tables",
            Self::Choice(choices) => {
                let one = |(name, doc): &(String, String)| format!("`{name}`: {}", doc.trim_end_matches('.'));
                return f.write_str(&choices.iter().map(one).collect::<Vec<_>>().join("; "));
            }
            Self::Other(name) => name,
        })
    }
}
