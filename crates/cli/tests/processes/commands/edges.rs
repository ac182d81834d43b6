//! Runs `kith edges` at a node whose data were damaged by hand.

use serde_json::json;

use super::{at, kith};
use crate::{corrupt_lists, process::Node};

fn damaged_node() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    tokio::runtime::Runtime::new().unwrap().block_on(corrupt_lists::prepare(&data_dir));
    Node::start_with(folder, &[])
}

#[test]
fn difference_is_reported_and_repaired() {
    let node = damaged_node();
    let found = at(&node, &["edges", "verify", "-o", "json"]);
    assert_eq!(found.code, 1, "{found:?}");
    let (user, target) = corrupt_lists::WRONG;
    let example = |kind: &str, repaired| json!({"user_id": user, "target_id": target, "kind": kind, "repaired": repaired});
    let expected = |repaired: bool| {
        json!({
            "checked": 3 * corrupt_lists::FOLLOWS,
            "differences": 2,
            "repaired": if repaired { 2 } else { 0 },
            "examples": [example("not_among_fans", repaired), example("stray_among_fans", repaired)],
        })
    };
    assert_eq!(found.json(), expected(false));
    assert_eq!(found.err, "101 -> 102: not among fans\n101 -> 102: stray among fans\n");

    let mended = at(&node, &["edges", "repair", "-o", "json"]);
    assert_eq!(mended.code, 0, "{mended:?}");
    // The first difference recreates an index, so the second difference is never found.
    assert_eq!(mended.json()["differences"], mended.json()["repaired"]);
    assert!(mended.err.starts_with("101 -> 102: not among fans, mended\n"), "{mended:?}");

    let again = at(&node, &["edges", "verify"]);
    assert_eq!((again.code, again.err.as_str()), (0, ""));
    assert_eq!(again.out, format!("checked\tdifferences\trepaired\n{}\t0\t0\n", 3 * corrupt_lists::FOLLOWS));
}

#[test]
fn without_a_node_it_does_not_begin() {
    for what in ["verify", "repair", "recount"] {
        let free = crate::process::free_address();
        let ended = kith(["edges", what, "--addr", &free, "--wait", "0s"]);
        assert_eq!(ended.code, 2);
        assert!(ended.why().starts_with("no node answers at"), "{ended:?}");
    }
}
