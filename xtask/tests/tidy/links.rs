//! Checks that links between documents lead to a file, and to an existing heading if they name a heading.

use std::path::{Component, Path};

use crate::tree::{root, text, tracked};

#[test]
fn links_between_documents_lead_somewhere() {
    let (mut broken, mut links) = (Vec::new(), 0);
    for file in tracked(".md") {
        let text = text(&file);
        for link in targets(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            if let Some(why) = leads_nowhere(&file, link) {
                broken.push(format!("{file} links to {link}, {why}"));
            }
            links += 1;
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(links > 0, "no document links to another");
}

/// Says why a document's link leads nowhere.
fn leads_nowhere(file: &str, link: &str) -> Option<&'static str> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let to = if path.is_empty() { file.to_owned() } else { joined(file, path) };
    if !root().join(&to).exists() {
        return Some("which is not there");
    }
    let is_checked = !anchor.is_empty() && to.ends_with(".md");
    let has_anchor = || anchors(&text(&to)).iter().any(|known| known == anchor);
    (is_checked && !has_anchor()).then_some("which has no such heading")
}

/// Returns the path below the root to which a link in this file leads.
fn joined(file: &str, link: &str) -> String {
    let mut parts = Vec::new();
    let folder = Path::new(file).parent().unwrap();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name.to_str().unwrap().to_owned()),
            _ => {}
        }
    }
    parts.join("/")
}

/// Returns a document's anchors: its headings, as the usual forges name them, and its own anchors.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut is_block = false;
    for line in text.lines() {
        is_block ^= line.starts_with("```");
        let heading = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'));
        if let Some(heading) = heading.filter(|_| !is_block) {
            let anchor = anchor(heading);
            let repeated = anchors.iter().filter(|known| **known == anchor).count();
            anchors.push(anchor.clone());
            if repeated > 0 {
                anchors.push(format!("{anchor}-{repeated}"));
            }
        }
        let own = line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        anchors.extend(own.map(str::to_owned));
    }
    anchors
}

/// Returns a heading's anchor: `store-away-two-nodes` for `Store away (two nodes)`.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().chars().flat_map(char::to_lowercase);
    let kept = letters.filter(|letter| letter.is_alphanumeric() || "_- ".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Returns the links' targets: the texts in the parentheses of `[text](target)`.
fn targets(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

#[test]
fn targets_of_links_are_found() {
    assert_eq!(targets("see [a](b.md#c) and [d](e/f.rs)"), ["b.md#c", "e/f.rs"]);
}

#[test]
fn headings_have_the_anchors_of_forges() {
    let text = "# A `b`, c: (D)\n```sh\n# no\n```\n## Its_own-e\n## Its_own-e\n<a id=\"f\"></a>\n#no";
    assert_eq!(anchors(text), ["a-b-c-d", "its_own-e", "its_own-e", "its_own-e-1", "f"]);
    assert_eq!(joined("docs/adr/a.md", "../../README.md"), "README.md");
    assert_eq!(joined("docs/a.md", "guide/b.md"), "docs/guide/b.md");
}
