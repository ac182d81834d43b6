use std::fs;

use crate::tree::{root, text, tracked};

const LINES_MAX: usize = 500;

#[test]
fn no_source_file_is_longer_than_500_lines() {
    for file in tracked(".rs") {
        let lines = text(&file).lines().count();
        assert!(lines <= LINES_MAX, "{file} has {lines} lines");
    }
}

#[test]
fn decisions_are_numbered_without_gaps() {
    let mut decisions: Vec<String> =
        tracked("").into_iter().filter(|file| file.starts_with("docs/adr/")).collect();
    assert!(decisions.len() >= 2, "found only {decisions:?}");
    decisions.sort();
    for (at, name) in decisions.iter().enumerate() {
        let begin = format!("docs/adr/{:04}-", at + 1);
        assert!(name.starts_with(&begin), "{name} should begin with {begin}");
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
