use crate::tree::{text, tracked};

/// Examines the whole reply: with `ok: 1` it may still say that a write was refused.
const EXAMINES: &str = "crates/store-cluster/src/mongo/command.rs";

/// The driver's calls for a command that it does not know: on a database, as a text or packed, with or
/// without a cursor.
const SENDS: [&str; 4] =
    ["run_command(", "run_raw_command(", "run_cursor_command(", "run_raw_cursor_command("];

#[test]
fn raw_commands_of_mongodb_are_sent_in_one_place() {
    let sends = |file: &str| SENDS.iter().any(|call| is_called(&text(file), call));
    let is_served = |file: &String| file.starts_with("crates/store-cluster/src/") && file != EXAMINES;
    let others: Vec<_> = tracked(".rs").into_iter().filter(is_served).filter(|file| sends(file)).collect();
    assert!(others.is_empty(), "{others:?}: send commands by {EXAMINES}");
    assert!(sends(EXAMINES), "{EXAMINES} sends no command");
}

#[test]
fn replies_are_examined_where_commands_are_sent() {
    // The only call is followed by the examination of its reply.
    let text = text(EXAMINES);
    let (_, after) = text.split_once(".run_command(").unwrap();
    assert_eq!(SENDS.iter().map(|call| after.matches(&format!(".{call}")).count()).sum::<usize>(), 0);
    let next = after.lines().nth(1).unwrap_or_default();
    assert!(next.contains("examine(&reply)?"), "{next}");
}

/// Whether the text calls it as a method, or as a function by a path.
fn is_called(text: &str, call: &str) -> bool {
    [".", "::"].iter().any(|before| text.contains(&format!("{before}{call}")))
}

#[test]
fn calls_are_found_by_their_whole_name() {
    assert!(is_called("database.run_command(ping)", "run_command("));
    assert!(is_called("Database::run_raw_command(&database, ping)", "run_raw_command("));
    assert!(!is_called("fn my_run_command(ping)", "run_command("));
}
