//! `docs/reference/configuration.md`.

mod kind;
pub(super) mod schema;
mod source;

use std::collections::BTreeMap;

use kith_server::config::Config;
use serde_json::Value;

pub use self::kind::ValueKind;
use self::source::{Item, Member};
use super::markdown::{begin, code, definitions, ended, one_line, paragraphs};

const HEAD: &str = "\
Every value has a default; a node needs no configuration. The sources, the later winning key by key:

1. the defaults below,
2. `kith.toml` of the working directory, or the file that `--config` names,
3. the environment: `KITH_` and the key in capitals, `__` for each dot, so `store.mongodb.pool_max` is \
`KITH_STORE__MONGODB__POOL_MAX`,
4. flags of the command line: some keys have their own flag, `--set KEY=VALUE` sets any.

An unknown key, an empty value and a path that begins with `~` are errors. Lists in the environment and in \
flags have commas between their items, and may be empty. Variables that Kubernetes sets for a Service named \
`kith` are ignored. A `kith.toml` that the user may not read, in a working directory of another user, is \
ignored. `kith config` shows each value and where it came from. [kith.schema.json](kith.schema.json) is the \
JSON schema of the file, for editors: name it by `#:schema PATH` in the first line, as \
[deploy/kith.toml](../../deploy/kith.toml) does.

The default is in parentheses, or the kind of value if there is none. A duration is written as `200ms`, \
`10s`, `5m`, `1h` or `30days`, a size as a number of bytes or as `256KiB`, `1MiB`, `2GiB`. A whole number or \
a size is above 0 unless its text names 0.

";

/// A configuration key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// Its path: `limits.in_flight`.
    pub path: String,
    /// The kind of its values; `None` if its struct is not in the files that are read.
    pub kind: Option<ValueKind>,
    /// Its default as written in a file; empty: none.
    pub default: String,
    /// Its meaning, from its docstring.
    pub doc: String,
    /// Its environment variable.
    pub variable: String,
}

/// Returns every key that has a default, even an absent default, in source order. A key whose struct is not
/// in the files that are read has no `doc`.
#[must_use]
pub fn keys() -> Vec<ConfigKey> {
    sections().into_iter().flat_map(|section| section.keys).collect()
}

/// The keys at one level.
struct Section {
    path: String,
    doc: String,
    keys: Vec<ConfigKey>,
}

pub(super) fn write() -> String {
    let mut text =
        begin("Configuration", "the structs in `crates/server/src/config` and in `config.rs` of each domain")
            + HEAD;
    for section in sections() {
        let title =
            if section.path.is_empty() { "Top level".to_owned() } else { format!("[{}]", section.path) };
        text += &format!("## {title}\n\n");
        // Not repeated: `Users.` below `[users]`.
        if !section.path.is_empty()
            && !section.doc.trim().trim_end_matches('.').eq_ignore_ascii_case(&section.path)
        {
            text += &paragraphs(&section.doc);
        }
        text += &definitions(section.keys.iter().map(row));
    }
    ended(&text)
}

/// A key with its default, or with the kind of its values, and its meaning.
fn row(key: &ConfigKey) -> [String; 2] {
    let name = key.path.rsplit('.').next().unwrap_or_default();
    let kind = key.kind.as_ref().map(ValueKind::to_string).unwrap_or_default();
    let is_choice = matches!(key.kind, Some(ValueKind::Choice(_)));
    let default = if key.default.is_empty() { kind.clone() } else { code(&key.default) };
    let is_number = matches!(key.kind, Some(ValueKind::WholeNumber | ValueKind::Size));
    let meaning = match (is_choice, is_number) {
        (true, _) => format!("{} {kind}.", key.doc),
        (_, true) if key.doc.contains(ABOVE_0) => without_above_0(&key.doc),
        (_, true) if !key.doc.contains("0:") => format!("{} May be 0.", key.doc),
        _ => key.doc.clone(),
    };
    [format!("{} ({default})", code(name)), meaning]
}

/// In docstrings of numbers that must not be 0. The document says it once for all of them.
const ABOVE_0: &str = "Above 0";

/// A docstring without these words: `Rows. Above 0, at most 9.` becomes `Rows. At most 9.`.
fn without_above_0(doc: &str) -> String {
    let Some((before, after)) = doc.split_once(ABOVE_0) else { return doc.to_owned() };
    let after = after.trim_start_matches([',', ';', ':', '.', ' ']);
    let after = after.strip_prefix("and ").unwrap_or(after);
    let mut letters = after.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    before.chars().chain(first).chain(letters).collect::<String>().trim_end().to_owned()
}

fn sections() -> Vec<Section> {
    let items = source::items();
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    let mut found = Vec::new();
    collect("", "Config", &defaults, &items, &mut found);
    found
}

/// Follows the serialised form, so that no key is left out; the source gives the order and the texts.
fn collect(
    path: &str,
    name: &str,
    defaults: &Value,
    items: &BTreeMap<String, Item>,
    found: &mut Vec<Section>,
) {
    let Value::Object(defaults) = defaults else { return };
    let item = items.get(name);
    let members = item.map_or(&[][..], |item| &item.members);
    let place = |key: &str| members.iter().position(|member| member.name == key);
    let mut names: Vec<_> = defaults.keys().collect();
    names.sort_by_key(|key| place(key).unwrap_or(usize::MAX));
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let (sections, values): (Vec<_>, Vec<_>) = names.into_iter().partition(|key| defaults[*key].is_object());
    let keys: Vec<_> = values
        .into_iter()
        .map(|name| key(join(name), &defaults[name], place(name).map(|at| &members[at]), items))
        .collect();
    if !keys.is_empty() {
        let doc = item.map(|item| item.doc.clone()).unwrap_or_default();
        found.push(Section { path: path.to_owned(), doc, keys });
    }
    for name in sections {
        let kind = place(name).map_or("", |at| members[at].kind.as_str());
        collect(&join(name), kind, &defaults[name], items, found);
    }
}

fn key(path: String, default: &Value, member: Option<&Member>, items: &BTreeMap<String, Item>) -> ConfigKey {
    let variable = format!("KITH_{}", path.replace('.', "__").to_uppercase());
    let kind = member.map(|member| ValueKind::of(member, items));
    let doc = member.map(|member| one_line(&member.doc)).unwrap_or_default();
    ConfigKey { default: shown(default, kind.as_ref()), path, kind, doc, variable }
}

fn shown(default: &Value, kind: Option<&ValueKind>) -> String {
    match default {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        Value::Number(number) if kind == Some(&ValueKind::Size) => {
            number.as_u64().map(size).unwrap_or_default()
        }
        other => other.to_string(),
    }
}

/// Formats a size with the largest unit that divides it.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_beside_above_0_are_kept() {
        for (doc, shown) in [
            ("Rows. Above 0.", "Rows."),
            ("Rows. Above 0, at most 9.", "Rows. At most 9."),
            ("Rows. Above 0, and not above 64. The same.", "Rows. Not above 64. The same."),
            ("Rows. Above 0: at least 1000.", "Rows. At least 1000."),
            ("Rows. Above 0; 1: every row.", "Rows. 1: every row."),
            ("Rows. Above 0. Kept.", "Rows. Kept."),
        ] {
            assert_eq!(without_above_0(doc), shown);
        }
    }
}
