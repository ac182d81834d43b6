use crate::tree::{text, tracked};

/// Examines the whole reply: with `ok: 1` it may still say that a write was refused.
const EXAMINES: &str = "crates/store-cluster/src/mongo/command.rs";

#[test]
fn raw_commands_of_mongodb_are_sent_in_one_place() {
    let sends = |file: &str| [".run_command(", "::run_command("].iter().any(|call| text(file).contains(call));
    let is_served = |file: &String| file.starts_with("crates/store-cluster/src/") && file != EXAMINES;
    let others: Vec<_> = tracked(".rs").into_iter().filter(is_served).filter(|file| sends(file)).collect();
    assert!(others.is_empty(), "{others:?}: send commands by {EXAMINES}");
    assert!(sends(EXAMINES), "{EXAMINES} sends no command");
}
