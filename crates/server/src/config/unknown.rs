//! Keys that nothing knows, and what was probably meant.

use figment::value::{Dict, Value};

/// The first key of `given` that `known` has not, with its whole path, and a key like it where there is one.
pub(super) fn find(given: &Dict, known: &Dict) -> Option<(String, Option<String>)> {
    search(given, known, known, &mut Vec::new())
}

fn search<'a>(
    given: &'a Dict,
    known: &Dict,
    root: &Dict,
    path: &mut Vec<&'a str>,
) -> Option<(String, Option<String>)> {
    for (key, value) in given {
        path.push(key);
        match (value, known.get(key)) {
            (_, None) => return Some((path.join("."), alike(key, known, root))),
            (Value::Dict(_, given), Some(Value::Dict(_, known))) => {
                if let Some(found) = search(given, known, root, path) {
                    return Some(found);
                }
            }
            _ => {}
        }
        path.pop();
    }
    None
}

/// A key beside it that is spelt alike, or one of the same name in another section.
fn alike(key: &str, known: &Dict, root: &Dict) -> Option<String> {
    let near = known.keys().map(|other| (strsim::damerau_levenshtein(key, other), other));
    let best = near.min().filter(|(distance, _)| *distance <= (key.len() / 3).max(2));
    best.map(|(_, other)| other.clone()).or_else(|| elsewhere(key, root))
}

fn elsewhere(key: &str, root: &Dict) -> Option<String> {
    root.iter().find_map(|(section, value)| match value {
        Value::Dict(_, inner) if inner.contains_key(key) => Some(format!("{section}.{key}")),
        _ => None,
    })
}
