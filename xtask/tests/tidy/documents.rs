//! Checks that the documents are short, say each thing in one place, and name only what exists.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::tree::{text, tracked};

/// The most words in all tracked Markdown.
const WORDS_MAX: usize = 60_000;
/// The most words in a decision.
const DECISION_MAX: usize = 250;
/// The most words in a page that is the way in for a kind of reader.
const WAY_IN_MAX: usize = 300;
/// The ways in for callers, operators and contributors, and the page that leads to them.
const WAYS_IN: [&str; 4] =
    ["docs/README.md", "docs/guide/README.md", "docs/operate/README.md", "docs/internals/README.md"];
/// Most words of the first page.
const README_MAX: usize = 900;
/// So many words in a row are a run.
const RUN: usize = 7;
/// The most runs out of 100 that a document may share with another document. Generated documents count like
/// all others.
const REPEATED_MAX: f64 = 5.0;
/// Documents with at most this many words are not searched for repeated runs: two links make up much of them.
const SHORT: usize = 300;
/// The changelog, which may name things from former versions.
const CHANGELOG: &str = "CHANGELOG.md";
/// The JSON schema of the configuration.
const SCHEMA: &str = "docs/reference/kith.schema.json";
/// A document may name a file with such an ending only if it exists.
const SOURCES: [&str; 4] = [".rs", ".md", ".proto", ".lua"];
/// A name with such an ending is a file, not a configuration key.
const FILES: [&str; 6] = [".toml", ".yml", ".yaml", ".json", ".jsonl", ".sock"];

#[test]
fn all_documents_have_at_most_60_000_words() {
    let mut counted: Vec<_> = tracked(".md").into_iter().map(|file| (count(&text(&file)), file)).collect();
    let words: usize = counted.iter().map(|(words, _)| words).sum();
    counted.sort_by(|one, other| other.cmp(one));
    counted.truncate(10);
    let longest: Vec<_> = counted.into_iter().map(|(words, file)| format!("{file} {words}")).collect();
    assert!(
        words <= WORDS_MAX,
        "{words} words in tracked Markdown, at most {WORDS_MAX} are allowed. The longest: {}",
        longest.join(", ")
    );
}

#[test]
fn decisions_and_ways_in_are_short() {
    let files = tracked(".md");
    let decisions = files.iter().filter(|file| file.starts_with("docs/adr/"));
    let bounded = decisions.map(|file| (file.as_str(), DECISION_MAX));
    let mut findings = Vec::new();
    let ways_in = WAYS_IN.map(|file| (file, WAY_IN_MAX));
    for (file, limit) in bounded.chain(ways_in).chain([("README.md", README_MAX)]) {
        if !files.iter().any(|tracked| tracked == file) {
            findings.push(format!("{file} is not tracked"));
            continue;
        }
        let words = count(&text(file));
        if words > limit {
            findings.push(format!("{file} has {words} words, at most {limit} are allowed"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn documents_do_not_repeat_each_other() {
    let texts: Vec<_> = tracked(".md").into_iter().map(|file| (text(&file), file)).collect();
    let documents: Vec<_> = texts.iter().map(|(text, file)| (file.as_str(), words(&prose(text)))).collect();
    let mut findings = Vec::new();
    for repeats in repeated(&documents) {
        let is_short = texts.iter().any(|(text, file)| *file == repeats.file && count(text) <= SHORT);
        if !is_short && repeats.percent > REPEATED_MAX {
            findings.push(format!(
                "{}: {:.1} % of its runs of {RUN} words are in another document too, at most {REPEATED_MAX} % are \
                 allowed. Most in {}, the first: {}",
                repeats.file, repeats.percent, repeats.other, repeats.first
            ));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn names_in_documents_exist() {
    let known = Known::read();
    let (mut missing, mut looked_at) = (Vec::new(), 0);
    for file in tracked(".md").into_iter().filter(|file| file != CHANGELOG) {
        let text = text(&file);
        for name in in_backticks(&text) {
            looked_at += 1;
            if let Some(why) = known.lacks(name) {
                missing.push(format!("{file}: `{name}` {why}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(looked_at > 1_000, "found only {looked_at}");
}

/// Counts a text's words. The marks of tables and lists do not count.
fn count(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// A text without its blocks of code: a command is written the same way wherever it stands.
pub(crate) fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect()
}

/// The words of a text without punctuation and capitals, so that a run is found behind another mark.
pub(crate) fn words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// The part of a document that another document repeats.
#[derive(Debug, PartialEq)]
struct Repeats {
    file: String,
    /// The shared runs, out of 100.
    percent: f64,
    /// The document that shares most of them.
    other: String,
    /// The first repeated run.
    first: String,
}

/// Returns the documents that share a run with another document.
fn repeated(documents: &[(&str, Vec<String>)]) -> Vec<Repeats> {
    let mut holders: BTreeMap<&[String], BTreeSet<&str>> = BTreeMap::new();
    for (file, words) in documents {
        for run in words.windows(RUN) {
            holders.entry(run).or_default().insert(file);
        }
    }
    let mut found = Vec::new();
    for (file, words) in documents {
        let (mut shared, mut others) = (Vec::new(), BTreeMap::<&str, usize>::new());
        for run in words.windows(RUN).filter(|run| holders[run].len() > 1) {
            shared.push(run);
            for other in holders[run].iter().filter(|other| *other != file) {
                *others.entry(other).or_default() += 1;
            }
        }
        let most = others.into_iter().max_by_key(|(_, runs)| *runs);
        let (Some(first), Some((other, _))) = (shared.first(), most) else { continue };
        let percent = as_number(shared.len()) * 100.0 / as_number(words.windows(RUN).count());
        let (file, other) = ((*file).to_owned(), other.to_owned());
        found.push(Repeats { file, percent, other, first: first.join(" ") });
    }
    found
}

fn as_number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

/// Returns the texts between backticks in prose. Code blocks are left out.
fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    let mut is_block = false;
    let prose = text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        !is_block && !is_fence
    });
    prose.flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The names that a document may use.
struct Known {
    /// The tracked files and their folders.
    paths: BTreeSet<String>,
    /// The top-level folders.
    folders: BTreeSet<String>,
    /// The identifiers in the sources.
    identifiers: BTreeSet<String>,
    schema: Value,
}

impl Known {
    fn read() -> Self {
        let files = tracked("");
        let sources = files.iter().filter(|file| file.ends_with(".rs") || file.ends_with(".proto"));
        let mut identifiers = BTreeSet::new();
        for source in sources {
            let text = text(source);
            let names = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            identifiers.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        }
        Self::of(&files, identifiers, serde_json::from_str(&text(SCHEMA)).unwrap())
    }

    fn of(files: &[String], identifiers: BTreeSet<String>, schema: Value) -> Self {
        let (mut paths, mut folders) = (BTreeSet::new(), BTreeSet::new());
        for file in files {
            folders.extend(file.split_once('/').map(|(folder, _)| folder.to_owned()));
            paths.insert(file.clone());
            let parents = file.match_indices('/').map(|(at, _)| file[..at].to_owned());
            paths.extend(parents);
        }
        Self { paths, folders, identifiers, schema }
    }

    /// Says why a name between backticks names nothing; `None` if it exists, or is another kind of text.
    fn lacks(&self, name: &str) -> Option<&'static str> {
        let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./:".contains(letter));
        if !is_name || name.contains("..") {
            None
        } else if name.contains("::") {
            let is_known = name.split("::").all(|part| self.identifiers.contains(part));
            (!is_known).then_some("is not in the sources")
        } else if let Some(key) = name.strip_prefix("KITH_").filter(|key| key.contains("__")) {
            let key = key.to_lowercase().replace("__", ".");
            (!self.has_key(&key)).then_some("is no variable of the configuration")
        } else if self.is_path(name) {
            (!self.has_path(name)).then_some("is no file or folder")
        } else if self.is_key(name) {
            (!self.has_key(name)).then_some("is no key of the configuration")
        } else if name.starts_with("kith_") {
            let ends = ["_bucket", "_sum", "_count"];
            let base = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            let is_known = [name, base].iter().any(|name| self.identifiers.contains(*name));
            (!is_known).then_some("is not in the sources")
        } else {
            None
        }
    }

    /// Whether a name looks like a file or a folder of the project.
    fn is_path(&self, name: &str) -> bool {
        let first = name.split('/').next().unwrap_or(name);
        let is_below = name.contains('/') && self.folders.contains(first);
        let is_relative = !name.starts_with(['/', '.']) && first != "target" && !name.contains(':');
        is_relative && (is_below || SOURCES.iter().any(|end| name.ends_with(end) && name != *end))
    }

    /// Whether a tracked path has this name, or ends with it. Sources are often named without the path before
    /// their crate.
    fn has_path(&self, name: &str) -> bool {
        let name = name.trim_end_matches('/');
        self.paths.contains(name) || self.paths.iter().any(|path| path.ends_with(&format!("/{name}")))
    }

    /// Whether a name looks like a key: its first part is a table of the configuration.
    fn is_key(&self, name: &str) -> bool {
        let is_lower =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_.".contains(letter);
        let (table, _) = name.split_once('.').unwrap_or_default();
        let is_table = self.schema["properties"][table]["properties"].is_object();
        is_table && name.chars().all(is_lower) && !FILES.iter().any(|end| name.ends_with(end))
    }

    /// Whether this is a table or a key of the configuration, or within a list of tables.
    fn has_key(&self, name: &str) -> bool {
        let mut table = &self.schema;
        for part in name.split('.') {
            if table["items"]["type"] == "object" {
                return true;
            }
            table = &table["properties"][part];
        }
        !table.is_null()
    }
}

#[test]
fn repeated_runs_are_found() {
    let document = |text: &str| words(text);
    let documents = [
        ("a.md", document("One two three, four five six seven eight.")),
        ("b.md", document("Zero one TWO three\nfour `five` six seven.")),
        ("c.md", document("One two three four five six. Seven of nine.")),
        ("d.md", document("Short.")),
    ];
    let found = repeated(&documents);
    let named: Vec<_> =
        found.iter().map(|one| (one.file.as_str(), one.percent, one.first.as_str())).collect();
    let first = "one two three four five six seven";
    assert_eq!(named[..2], [("a.md", 50.0, first), ("b.md", 50.0, first)]);
    assert_eq!(found.len(), 3);
    assert_eq!(repeated(&documents[..1]), []);
}

#[test]
fn only_prose_is_searched_for_names() {
    let text = "a `b` c `d/e.rs`\n```rust\nlet `f`\n```\n`g`";
    assert_eq!(in_backticks(text).collect::<Vec<_>>(), ["b", "d/e.rs", "g"]);
}

#[test]
fn missing_names_are_found() {
    let files = ["crates/cache/src/local/slot.rs", "docs/tour.md", "README.md"].map(str::to_owned);
    let identifiers = ["Slot", "take", "kith_serving", "kith_rpc_seconds"].map(str::to_owned);
    let schema = serde_json::json!({ "properties": {
        "listen": {},
        "cache": { "properties": { "ttl": {} } },
        "auth": { "properties": { "issuers": { "type": "array", "items": { "type": "object" } } } },
    } });
    let known = Known::of(&files, identifiers.into(), schema);
    for name in [
        "local/slot.rs",
        "slot.rs",
        "docs",
        "docs/",
        "crates/cache",
        "docs/tour.md",
        "Slot::take",
        "cache.ttl",
        "auth.issuers",
        "auth.issuers.name",
        "KITH_CACHE__TTL",
        "kith_serving",
        "kith_rpc_seconds_bucket",
        "target/docs/api.md",
        "user/7",
        "application/json",
        "/readyz",
        "proto/...",
        "cache.toml",
        "-v",
        ".md",
        "user.user_id",
        "kith --help",
        "127.0.0.1:7600",
        "KITH_ADDR",
        "http://a.example/b.md",
    ] {
        assert_eq!(known.lacks(name), None, "{name}");
    }
    for name in [
        "local/slots.rs",
        "docs/tours.md",
        "crates/caches",
        "slots.rs",
        "Slot::give",
        "cache.tll",
        "KITH_CACHE__TLL",
        "kith_serves",
    ] {
        assert!(known.lacks(name).is_some(), "{name}");
    }
}
