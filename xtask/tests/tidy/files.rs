use std::{collections::BTreeMap, fs};

use crate::tree::{root, text, tracked};

const LINES_MAX: usize = 500;
/// A store that came later, and its first migration.
const LATER: (&str, usize) = ("migrations/cql", 4);

#[test]
fn no_source_file_is_longer_than_500_lines() {
    for file in tracked(".rs") {
        let lines = text(&file).lines().count();
        assert!(lines <= LINES_MAX, "{file} has {lines} lines");
    }
}

#[test]
fn migrations_and_decisions_are_numbered_without_gaps() {
    let mut folders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in tracked("")
        .into_iter()
        .filter(|file| file.starts_with("migrations/") || file.starts_with("docs/adr/"))
    {
        let (folder, name) = file.rsplit_once('/').unwrap();
        folders.entry(folder.to_owned()).or_default().push(name.to_owned());
    }
    assert!(folders.len() >= 2, "found only {folders:?}");
    for (folder, mut names) in folders {
        names.sort();
        let first = if folder == LATER.0 { LATER.1 } else { 1 };
        for (at, name) in names.iter().enumerate() {
            let number = format!("{:04}", at + first);
            assert!(name.starts_with(&number), "{folder}/{name} should begin with {number}");
        }
    }
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    // In pieces, so that this file does not name one itself.
    let places =
        [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
    for file in tracked("") {
        let Ok(text) = String::from_utf8(fs::read(root().join(&file)).unwrap()) else { continue };
        for place in places {
            let named = text.lines().position(|line| line.contains(place));
            assert_eq!(named, None, "{file} names {place} (line counted from 0)");
        }
    }
}
