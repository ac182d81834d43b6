//! Runs the command as users call it, with too little of everything to measure.

use std::process::{Command, Output};

const MONGODB: (&str, &str) = ("mongodb", "KITH_TEST_MONGODB");
const CQL: (&str, &str) = ("cql", "KITH_TEST_CQL");
const REDIS: (&str, &str) = ("redis", "KITH_TEST_REDIS");

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith-bench"));
    command.args(arguments).env_remove(MONGODB.1).env_remove(CQL.1).env_remove(REDIS.1);
    command.output().expect("the command starts")
}

/// The address of a test server.
fn address(variable: &str) -> String {
    std::env::vars().find(|(name, _)| name == variable).expect("an address").1
}

fn lines(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Measures these rows with servers, each given with the variable for its address, and finds each row in the
/// table.
fn measure(servers: &[(&str, &str)], rows: &[&str]) {
    let servers = servers.iter().map(|(name, variable)| format!("--{name}={}", address(variable)));
    let only = rows.iter().map(|row| format!("--only={row}"));
    let options: Vec<String> = servers.chain(only).collect();
    let mut arguments = vec!["--quick", "--rounds=1"];
    arguments.extend(options.iter().map(String::as_str));
    let text = lines(&bench(&arguments));
    for row in rows {
        assert!(text.contains(&format!("| {row} ")), "{text}");
    }
}

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
#[ignore = "needs servers: run cargo xtask test"]
fn rows_of_all_servers_measure_both_sides() {
    let rows = [
        "send_many_servers",
        "send_many_rate",
        "send_one_servers",
        "send_one_rate",
        "send_direct_servers",
        "send_direct_rate",
        "send_rest",
        "send_rest_net",
        "scripts_offline",
        "scripts_online",
        "list_20_unread_servers",
        "list_200_unread_servers",
        "marks_rate",
        "join_changes",
        "join_time",
        "feed_rate",
        "overload_sends",
        "overload_get_user",
        "sockets_opened",
        "socket_memory",
        "socket_delivery_cpu",
    ];
    measure(&[MONGODB, CQL], &rows);
}

#[test]
#[ignore = "needs servers: run cargo xtask test"]
fn rows_of_several_nodes_measure_both_sides() {
    let rows = ["sequence_used", "idle_node", "idle_cassandra", "idle_mongod", "idle_mongod_next"];
    measure(&[MONGODB, CQL], &rows);
}

#[test]
fn rows_of_the_embedded_store_measure_both_sides() {
    measure(&[], &["store_one_sqlite", "store_100_sqlite", "update_sqlite", "append_sqlite"]);
}

#[test]
fn row_of_streams_measures_both_sides() {
    measure(&[], &["stream_check_cpu"]);
}

#[test]
fn rows_of_keys_measure_both_sides() {
    measure(&[], &["get_user_key_cpu", "key_cost_cpu"]);
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
    measure(&[REDIS], &["redis_hit", "redis_hit_p99", "redis_100", "dropped", "dropped_p99", "new_read"]);
}

#[test]
#[ignore = "needs servers: run cargo xtask test"]
fn rows_of_presence_measure_both_sides() {
    let rows = ["presence_renew", "presence_renew_core", "open_session_500", "open_session_500_time"];
    measure(&[MONGODB, CQL], &rows);
}

#[test]
#[ignore = "needs servers: run cargo xtask test"]
fn rows_of_sequences_measure_both_sides() {
    let rows = ["take", "take_p99", "take_32", "take_longest_wait"];
    measure(&[MONGODB, REDIS], &rows);
}

#[test]
#[ignore = "needs servers: run cargo xtask test"]
fn rows_of_messages_measure_both_sides() {
    let rows = [
        "append_mongodb",
        "append_end_1k",
        "append_end_64k",
        "append_operations",
        "append_operations_of_3",
        "append_operations_steps",
        "send_direct",
        "send_one_group",
        "pull_recent",
        "pull_1000",
        "list_200",
        "recent_mix",
        "send_cpu",
        "list_20_cpu",
        "pull_20_cpu",
        "max_seqs_cpu",
        "fan_out_500",
    ];
    measure(&[MONGODB, CQL, REDIS], &rows);
}

#[test]
#[ignore = "needs servers: run cargo xtask test"]
fn notice_and_receipt_rows_measure_both_sides() {
    let rows = [
        "count_notices_cpu",
        "receipt_cpu",
        "notice_totals_flat",
        "notice_totals_10",
        "notice_totals_100",
        "notice_totals_1000",
        "notice_totals_10_script",
        "notice_totals_100_script",
        "notice_totals_1000_script",
        "notice_mark_mongodb",
        "notice_mark_sqlite",
        "notice_readers",
        "notice_bytes",
        "receipts_50",
        "receipt_100k",
        "receipt_mark_500",
        "receipt_mark_500_bits",
        "receipt_marks",
    ];
    measure(&[MONGODB, CQL, REDIS], &rows);
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
