//! A case that is in no list would never run, on no backend.

use std::{collections::BTreeSet, fs, path::Path};

/// The names of the cases in a file, and those in its list.
fn cases_and_listed(source: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let cases = source.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next());
    let list = source.split_once("$attributes:\n").and_then(|(_, rest)| rest.split_once('}'));
    let listed = list.map_or("", |(list, _)| list).split_whitespace();
    (cases.collect(), listed.collect())
}

#[test]
fn every_case_of_the_suite_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
    let suite = fs::read_to_string(folder.join("mod.rs")).unwrap();
    let mut total = 0;
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if [
            "mod",
            "sample",
            "application_sample",
            "dialog_sample",
            "member_sample",
            "message_sample",
            "notice_sample",
            "relation_sample",
        ]
        .contains(&stem.as_str())
        {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let (cases, listed) = cases_and_listed(&source);
        assert_eq!(cases, listed, "{stem}");
        let is_in_suite = suite.contains(&format!("$crate::{stem}_conformance!("));
        // A store that one node uses alone has no notes for others.
        assert_eq!(is_in_suite, stem != "fan_out_note", "the suite leaves out {stem}");
        total += cases.len();
    }
    assert!(total > 150, "only {total} cases found");
}
