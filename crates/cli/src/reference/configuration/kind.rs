//! The kinds of values that keys take.

use std::{collections::BTreeMap, fmt};

use super::source::{Item, Member};
use crate::reference::markdown::one_line;

/// The kind of values that a key takes. Its text is that in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A size in bytes, also with a unit.
    Size,
    /// A time span such as `1s 500ms`.
    Duration,
    /// An address and a port, such as `127.0.0.1:7600`.
    Address,
    /// A file or a folder.
    Path,
    /// A Boolean: true or false.
    Flag,
    /// A whole number, not below 0.
    WholeNumber,
    /// A text without a fixed form.
    Text,
    /// A text that is not shown.
    Secret,
    /// A list with texts.
    Texts,
    /// A list with tables.
    Tables,
    /// A choice between these values, each with its docstring.
    Choice(Vec<(String, String)>),
    /// A type that is not known here, by its Rust name.
    Other(String),
}

impl ValueKind {
    /// Determines a field's kind by its type and its deserializer.
    pub(super) fn of(member: &Member, items: &BTreeMap<String, Item>) -> Self {
        let kind = member.kind.strip_prefix("Option<").and_then(|kind| kind.strip_suffix('>'));
        match (member.with.as_str(), kind.unwrap_or(&member.kind)) {
            ("size", _) => Self::Size,
            (_, "Duration") => Self::Duration,
            (_, "SocketAddr") => Self::Address,
            (_, "PathBuf") => Self::Path,
            (_, "bool") => Self::Flag,
            (_, "usize" | "u16" | "u32" | "u64") => Self::WholeNumber,
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
