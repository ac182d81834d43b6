//! How old an answer may be is a number in one document. All other documents link to it.

use std::collections::BTreeSet;

use crate::{
    documents::{prose, words},
    tree::{text, tracked},
};

/// The document that has the bounds.
const BOUNDS: &str = "docs/operate/coherence.md";
/// The heading above the tables of bounds. A bound is a time in their second column.
const SECTION: &str = "\n## The promise\n";
/// Decisions and the changelog may name bounds: they say what was true when they were written.
const HISTORY: [&str; 2] = ["docs/adr/", "CHANGELOG.md"];
/// Words by which a sentence with a time says how old an answer may be. A sentence about a retry has none.
const AGE: [&str; 11] =
    ["bound", "bounds", "copies", "copy", "fresh", "late", "old", "older", "outdated", "stale", "wrong"];

#[test]
fn bounds_are_numbers_in_one_document() {
    let bounds = bounds(&text(BOUNDS));
    assert!(bounds.len() >= 5, "{BOUNDS} has only these bounds: {bounds:?}");
    let mut findings = Vec::new();
    let is_searched = |file: &String| file != BOUNDS && !HISTORY.iter().any(|start| file.starts_with(start));
    for file in tracked(".md").into_iter().filter(is_searched) {
        for (time, sentence) in stated(&text(&file), &bounds) {
            findings.push(format!("{file}: {time} is a bound of {BOUNDS}, so link to it: {sentence}"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// The times in the second column of the tables of bounds.
fn bounds(text: &str) -> BTreeSet<String> {
    let (_, rest) = text.split_once(SECTION).unwrap();
    let section = rest.split("\n## ").next().unwrap_or(rest);
    let cells = section.lines().filter_map(|line| line.strip_prefix('|')?.split('|').nth(1));
    cells.flat_map(|cell| times(&without_code(cell))).collect()
}

/// Sentences that say by one of these times how old an answer may be, each behind its time.
fn stated(text: &str, bounds: &BTreeSet<String>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for sentence in sentences(text) {
        let is_about_age = words(&sentence).iter().any(|word| AGE.contains(&word.as_str()));
        let time = times(&sentence).into_iter().find(|time| bounds.contains(time));
        found.extend(time.filter(|_| is_about_age).map(|time| (time, sentence)));
    }
    found
}

/// The sentences of a document without their code. Rows of tables and items of lists begin sentences, too.
fn sentences(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in prose(text).lines() {
        if line.is_empty() || line.starts_with(['|', '-', '#']) {
            parts.push(String::new());
        }
        let part = parts.last_mut().unwrap();
        *part += line;
        *part += " ";
    }
    let sentences = parts.iter().flat_map(|part| {
        let part = without_code(part);
        part.split(". ").map(|sentence| sentence.trim().to_owned()).collect::<Vec<_>>()
    });
    sentences.filter(|sentence| !sentence.is_empty()).collect()
}

/// A line of prose without the parts between backticks: a default such as `3s` is no bound.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// The times in a text in one form: `3s,` and `3 seconds` become `3 s`.
fn times(text: &str) -> Vec<String> {
    let is_edge = |letter: char| !letter.is_alphanumeric();
    let words: Vec<_> = text.split_whitespace().map(|word| word.trim_matches(is_edge)).collect();
    let mut times = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let end = word.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(word.len());
        let (number, rest) = word.split_at(end);
        let unit = if rest.is_empty() { words.get(at + 1).copied().unwrap_or_default() } else { rest };
        let unit = unit_of_time(unit).filter(|_| !number.is_empty());
        times.extend(unit.map(|unit| format!("{number} {unit}")));
    }
    times
}

/// The short form of a unit of time.
fn unit_of_time(word: &str) -> Option<&'static str> {
    match word {
        "ms" | "milliseconds" => Some("ms"),
        "s" | "second" | "seconds" => Some("s"),
        "min" | "minute" | "minutes" => Some("min"),
        _ => None,
    }
}

#[test]
fn bounds_come_from_the_second_column() {
    let text = "| a | 9 s |\n\n## The promise\n\nNot 8 s.\n\n| situation | age |\n| --- | --- |\n\
                | 7 s | 50 ms for most, 1 s at most (`6s`) | 5 s |\n\n| b | **11 min** |\n\n\
                ## C\n\n| d | 4 s |\n";
    assert_eq!(bounds(text).into_iter().collect::<Vec<_>>(), ["1 s", "11 min", "50 ms"]);
}

#[test]
fn only_sentences_about_age_state_a_bound() {
    let bounds: BTreeSet<_> = ["3 s", "11 s"].map(str::to_owned).into();
    let times = |text: &str| stated(text, &bounds).into_iter().map(|(time, _)| time).collect::<Vec<_>>();
    for text in [
        "A copy is at most 3 s\nold.",
        "| a cut node | stale for 3s |",
        "- It may be wrong,\n  for 3 seconds.",
        "Fine. A late message: (3 s).",
    ] {
        assert_eq!(times(text), ["3 s"], "{text}");
    }
    for text in [
        "It retries after 3 s. A copy is dropped.",
        "A copy is at most 4 s old.",
        "A copy is at most 13 s old.",
        "`observer.bound` (`3s`): how long a copy may be old.",
        "Stale:\n```\nsleep 3 s\n```\n",
        "| a copy | 4 s |\n| a retry | 11 s |",
    ] {
        assert!(times(text).is_empty(), "{text}");
    }
}
