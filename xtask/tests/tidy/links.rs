use std::path::Path;

use crate::tree::{root, text, tracked};

#[test]
fn links_between_documents_lead_somewhere() {
    let mut links = 0;
    for file in tracked(".md") {
        let text = text(&file);
        for link in targets(&text) {
            let link = link.split('#').next().unwrap_or_default();
            if link.is_empty() || link.contains("://") {
                continue;
            }
            let to = root().join(Path::new(&file).parent().unwrap()).join(link);
            assert!(to.exists(), "{file} links to {link}, which is not there");
            links += 1;
        }
    }
    assert!(links > 0, "no document links to another");
}

/// The text in the parentheses of `[text](target)`.
fn targets(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

#[test]
fn targets_of_links_are_found() {
    assert_eq!(targets("see [a](b.md#c) and [d](e/f.rs)"), ["b.md#c", "e/f.rs"]);
}
