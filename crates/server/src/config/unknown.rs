//! Keys that nothing knows, and what was probably meant.

use figment::value::{Dict, Value};

/// A key that the configuration does not have.
#[derive(Debug)]
pub(super) struct UnknownKey {
    /// The key's path, as given.
    pub(super) key: String,
    /// The path of the key that was probably meant.
    pub(super) meant: Option<String>,
}

impl UnknownKey {
    /// The first key in `given` that `known` does not have.
    pub(super) fn find(given: &Dict, known: &Dict) -> Option<Self> {
        let key = search(given, known, "")?;
        let meant =
            separated(&key, known).or_else(|| similar_key(&key, known)).or_else(|| elsewhere(&key, known));
        Some(Self { key, meant })
    }
}

fn search(given: &Dict, known: &Dict, above: &str) -> Option<String> {
    given.iter().find_map(|(key, value)| {
        let path = format!("{above}{key}");
        match (value, known.get(key)) {
            (_, None) => Some(path),
            (Value::Dict(_, given), Some(Value::Dict(_, known))) => search(given, known, &format!("{path}.")),
            _ => None,
        }
    })
}

/// The key whose path differs in its separators alone: `store_backend` from `KITH_STORE_BACKEND` is
/// `store.backend`.
fn separated(key: &str, known: &Dict) -> Option<String> {
    let flat = |path: &str| path.replace('.', "_");
    let mut paths = Vec::new();
    leaves(known, "", &mut paths);
    paths.into_iter().find(|path| flat(path) == flat(key))
}

fn leaves(known: &Dict, above: &str, into: &mut Vec<String>) {
    for (key, value) in known {
        let path = format!("{above}{key}");
        match value {
            Value::Dict(_, inner) => leaves(inner, &format!("{path}."), into),
            _ => into.push(path),
        }
    }
}

/// A key in the same section that is spelt alike.
fn similar_key(key: &str, known: &Dict) -> Option<String> {
    let (section, name) = key.rfind('.').map_or(("", key), |end| key.split_at(end + 1));
    let sections = section.split_terminator('.');
    let within = sections.into_iter().try_fold(known, |dict, section| match dict.get(section)? {
        Value::Dict(_, inner) => Some(inner),
        _ => None,
    })?;
    let near = within.keys().map(|other| (strsim::damerau_levenshtein(name, other), other));
    let (_, other) = near.min().filter(|(distance, _)| *distance <= (name.len() / 3).max(2))?;
    Some(format!("{section}{other}"))
}

/// A key with the same name in another section.
fn elsewhere(key: &str, known: &Dict) -> Option<String> {
    let name = key.rsplit('.').next()?;
    known.iter().find_map(|(section, value)| match value {
        Value::Dict(_, inner) if inner.contains_key(name) => Some(format!("{section}.{name}")),
        _ => None,
    })
}
