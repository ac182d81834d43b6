//! Compares the reference documents with what the configuration does, and their links with their anchors.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{collections::BTreeSet, process::Command};

use kith_cli::reference::{ConfigKey, ValueKind, keys};
use kith_server::config::{Flag, Sources, load};

const DOCUMENTS: [&str; 6] = ["api", "authorization", "errors", "metrics", "configuration", "command-line"];

fn document(name: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kith")).args(["reference", name]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns sources without the working folder's file, so that only given values count.
fn nothing() -> (Sources, tempfile::NamedTempFile) {
    let empty = tempfile::NamedTempFile::new().unwrap();
    (Sources { file: Some(empty.path().to_owned()), ..Sources::default() }, empty)
}

#[test]
fn every_key_is_explained() {
    let keys = keys();
    assert!(keys.len() > 50, "found only {}", keys.len());
    for ConfigKey { path, kind, doc, .. } in keys {
        assert!(
            doc.ends_with('.') && !matches!(kind, None | Some(ValueKind::Other(_))),
            "{path} has no docstring: reference/configuration/source.rs names the files that are read"
        );
    }
}

#[test]
fn every_default_can_be_set_by_its_variable() {
    for ConfigKey { path, default, variable, .. } in keys() {
        if default.is_empty() {
            continue;
        }
        let (mut sources, _empty) = nothing();
        sources.environment = vec![(variable.clone(), default)];
        let loaded = load(&sources).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.origins.get(&path), Some(&variable));
    }
}

#[test]
fn numbers_above_0_are_documented_exactly() {
    for ConfigKey { path, kind, doc, .. } in keys() {
        if !matches!(kind, Some(ValueKind::WholeNumber | ValueKind::Size)) {
            continue;
        }
        let (mut sources, _empty) = nothing();
        sources.flags = vec![Flag { name: "--set", key: path.clone(), value: "0".to_owned() }];
        assert_eq!(load(&sources).is_err(), doc.contains("Above 0"), "{path}: {doc}");
    }
}

#[test]
fn links_within_the_documents_lead_to_an_anchor() {
    let documents = DOCUMENTS.map(|name| (name, document(name)));
    let anchors: BTreeSet<_> = documents
        .iter()
        .flat_map(|(name, text)| anchors(text).map(move |a| format!("{name}.md#{a}")))
        .collect();
    let mut links = 0;
    for (name, text) in &documents {
        for rest in text.split("](").skip(1) {
            let link = rest.split(')').next().unwrap();
            // The tidy tests look at links to other documents.
            let Some((file, anchor)) = link.split_once('#').filter(|_| !link.starts_with("../")) else {
                continue;
            };
            let file = if file.is_empty() { format!("{name}.md") } else { file.to_owned() };
            assert!(anchors.contains(&format!("{file}#{anchor}")), "{name}: {link}");
            links += 1;
        }
    }
    assert!(links > 100, "found only {links}");
}

/// Headings, as a link names them, and anchors of their own.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter_map(|line| line.strip_prefix("## "));
    let headings = headings.map(|heading| heading.to_lowercase().replace(' ', "-"));
    let own = text.lines().filter_map(|line| line.strip_prefix("<a id=\"")?.split('"').next());
    headings.chain(own.map(str::to_owned))
}

#[test]
fn every_part_of_the_contract_has_its_words() {
    let api = document("api");
    for line in ["### CreateUser\n", "### InspectKey\n", "### User\n", "### Consistency\n", "`GENDER_FEMALE`"]
    {
        assert!(api.contains(line), "{line} in\n{api}");
    }
    assert!(api.contains("Returns one user. Returns `NOT_FOUND` if the user does not exist."), "{api}");
}

#[test]
fn hidden_commands_stay_out_of_the_command_line() {
    let text = document("command-line");
    assert!(text.contains("## kith serve\n") && text.contains("## kith import users\n"), "{text}");
    assert!(!text.contains("kith reference"), "{text}");
}
