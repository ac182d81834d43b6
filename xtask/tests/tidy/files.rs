use std::fs;

use crate::tree::{root, text, tracked};

const LINES_MAX: usize = 500;
/// Most lines of the Rust client by hand, without tests, comments and blank lines: 600 as of the other
/// clients, and its near cache.
const CLIENT_LINES_MAX: usize = 600 + 100;

#[test]
fn no_source_file_is_longer_than_500_lines() {
    for file in tracked(".rs") {
        let lines = text(&file).lines().count();
        assert!(lines <= LINES_MAX, "{file} has {lines} lines");
    }
}

#[test]
fn rust_client_has_at_most_700_lines() {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let code = |file: String| {
        let text = text(&file);
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        product.lines().filter(is_code).count()
    };
    let files = tracked(".rs").into_iter().filter(|file| file.starts_with("crates/client/src/"));
    let lines: usize = files.map(code).sum();
    assert!((1..=CLIENT_LINES_MAX).contains(&lines), "the Rust client has {lines} lines");
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
    // The names are in pieces, so that this file does not contain them.
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

/// A chart is installed from its folder alone, so it has a copy.
#[test]
fn chart_has_the_alerts_of_prometheus() {
    assert_eq!(text("deploy/helm/kith/files/alerts.yml"), text("deploy/prometheus/alerts.yml"));
}
