//! Runs the command as users call it, with too little of everything to measure.

mod measured;

use measured::{CQL, MONGODB, REDIS, bench, lines, measure};

#[test]
fn rows_of_the_memory_tier_measure_both_sides() {
    measure(&[], &["memory_hit", "memory_entry_bytes"]);
    measure(&[], &["user_bytes", "membership_bytes", "absence_bytes", "growth_over_counted"]);
}

#[test]
fn embedded_unread_lists_measure_both_sides() {
    measure(&[], &["list_20_unread_cpu", "list_200_unread_cpu"]);
}

#[test]
fn rows_of_the_embedded_store_measure_both_sides() {
    measure(&[], &["store_one_sqlite", "store_100_sqlite", "update_sqlite"]);
}

#[test]
fn rows_of_kept_changes_measure_both_sides() {
    measure(&[], &["changes_write_cpu", "changes_send_cpu"]);
}

#[test]
fn row_of_streams_measures_both_sides() {
    measure(&[], &["stream_check_cpu"]);
}

#[test]
fn notice_and_receipt_rows_measure_both_sides() {
    measure(&[], &["count_notices_cpu", "receipt_cpu", "notice_totals_flat"]);
}

#[test]
fn rows_of_keys_measure_both_sides() {
    measure(&[], &["key_cost_cpu"]);
}

#[test]
fn rows_of_peers_at_limit_measure_both_sides() {
    measure(&[], &["watches_held_p99", "unread_held_p99"]);
}

#[test]
fn rows_of_tokens_measure_both_sides() {
    measure(&[], &["token_cost_cpu", "token_first"]);
}

#[test]
#[ignore = "needs Redis: run cargo xtask test"]
fn rows_of_the_shared_tier_measure_both_sides() {
    measure(&[REDIS], &["redis_hit", "redis_hit_p99", "redis_100"]);
}

#[test]
#[ignore = "needs servers: run cargo xtask test"]
fn rows_of_presence_measure_both_sides() {
    measure(&[MONGODB, CQL], &["presence_renew_core", "open_session_500_time"]);
}

#[test]
#[ignore = "needs servers: run cargo xtask test"]
fn rows_of_sequences_measure_both_sides() {
    measure(&[MONGODB, REDIS], &["take", "take_p99"]);
}

#[test]
fn a_row_that_needs_an_absent_server_is_named() {
    let text = lines(&bench(&["--quick", "--only=update_mongodb"]));
    assert!(text.contains("update_mongodb was not run"), "{text}");
}

#[test]
fn unknown_row_is_refused_with_list_of_rows() {
    let output = bench(&["--only=nothing"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("memory_hit"), "{text}");
}

#[test]
fn too_few_rounds_are_refused() {
    let output = bench(&["--rounds=4", "--only=memory_hit"]);
    assert!(!output.status.success());
}
