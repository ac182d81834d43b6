//! Checks that no two top-level modules in a crate use each other, directly or through others: a crate is
//! read from the bottom up.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::tree::{identifier, sources, text};

/// The modules that each top-level module names.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn top_level_modules_have_no_cycles() {
    for (name, uses) in crates() {
        assert_eq!(circles(&uses), Vec::<Vec<String>>::new(), "{name}");
    }
}

#[test]
fn a_circle_is_found() {
    let uses = |names: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (from, to) in names {
            uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        uses
    };
    assert_eq!(circles(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])), Vec::<Vec<String>>::new());
    assert_eq!(circles(&uses(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")])), [["a", "b", "c"]]);
}

#[test]
fn the_modules_that_a_text_names_are_found() {
    let named = |file: &str, text: &str| names(Path::new(file), text).into_iter().collect::<Vec<_>>();
    let source =
        "use crate::{\n    edge::{self, Edge},\n    node,\n};\nfn f() { crate::health::ask() }\n// crate::no";
    assert_eq!(named("admin/rpc.rs", source), ["edge", "health", "node"]);
    assert_eq!(named("users.rs", "use super::{kind::Kind, output};"), ["kind", "output"]);
    assert_eq!(named("top/mod.rs", "use super::client::Target;"), ["client"]);
    assert_eq!(named("top/feed.rs", "use super::{super::client::Target, sample};"), ["client"]);
    assert_eq!(named("a.rs", "#[cfg(test)]\nmod tests {\n    use crate::b;\n}"), [""; 0]);
}

/// Returns each crate's modules.
fn crates() -> BTreeMap<String, Uses> {
    sources().into_iter().map(|(name, files)| (name, uses_of(&files))).collect()
}

fn uses_of(files: &[String]) -> Uses {
    let mut uses = Uses::new();
    for file in files {
        let (_, inner) = file.split_once("/src/").unwrap();
        let module = inner.split('/').next().unwrap_or(inner).trim_end_matches(".rs").to_owned();
        uses.entry(module).or_default().extend(names(Path::new(inner), &text(file)));
    }
    let modules: BTreeSet<_> = uses.keys().cloned().collect();
    uses.remove("tests");
    for (module, used) in &mut uses {
        used.retain(|name| modules.contains(name) && name != module);
    }
    uses
}

/// Returns the crate's top-level names in a text: behind `crate::`, and behind as many `super::` as lead
/// there.
fn names(file: &Path, text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or(line));
    let code: String = lines.flat_map(|line| [line.trim(), " "]).collect();
    let depth = file.components().count() - usize::from(file.ends_with("mod.rs"));
    let up = "super::".repeat(depth);
    let mut found = BTreeSet::new();
    paths(&code, "crate::", &mut found);
    paths(&code, &up, &mut found);
    // This finds `use super::{super::a, b}` in a file one folder down.
    if depth == 2 {
        for group in code.split("use super::{").skip(1) {
            let group = group.split(';').next().unwrap_or(group);
            let items = items(&format!("{{{group}"));
            found.extend(items.iter().filter_map(|item| first(item.strip_prefix("super::")?)));
        }
    }
    found
}

/// Adds the first names behind each `prefix` in the code.
fn paths(code: &str, prefix: &str, found: &mut BTreeSet<String>) {
    for (at, _) in code.match_indices(prefix) {
        let before = &code[..at];
        if before
            .ends_with(|character: char| character.is_alphanumeric() || character == '_' || character == ':')
        {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        if rest.starts_with('{') {
            found.extend(items(rest).iter().filter_map(|item| first(item)));
        } else {
            found.extend(first(rest).filter(|name| name != "super"));
        }
    }
}

/// Returns the content of the outer braces that begin a text, split at its commas: `{a, b::{c, d}}` gives `a`
/// and `b::{c, d}`.
fn items(text: &str) -> Vec<String> {
    let (mut depth, mut items) = (0_usize, vec![String::new()]);
    for character in text.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match (depth, character) {
            (0, _) => break,
            (1, '{') => {}
            (1, ',') => items.push(String::new()),
            _ => items.last_mut().unwrap().push(character),
        }
    }
    items.iter().map(|item| item.trim().to_owned()).collect()
}

/// Returns the name that a text begins with.
fn first(text: &str) -> Option<String> {
    let name = identifier(text.trim());
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns sets of modules in which each module reaches all others, in their order.
fn circles(uses: &Uses) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> =
        uses.keys().map(|from| (from, reach(uses, from))).collect();
    let mut circles = BTreeSet::new();
    for (from, to) in &reached {
        let back = |module: &&String| reached.get(*module).is_some_and(|to| to.contains(*from));
        let circle: Vec<_> = to.iter().filter(back).cloned().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reach(uses: &Uses, from: &str) -> BTreeSet<String> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = open.pop() {
        for next in uses.get(&module).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    reached
}
