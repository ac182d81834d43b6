//! The rows that need most servers, with too little of everything to measure.

use crate::measured::{CQL, MONGODB, REDIS, measure};

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
#[ignore = "needs servers: run cargo xtask test"]
fn rows_of_messages_measure_both_sides() {
    measure(&[MONGODB, CQL, REDIS], &["pull_recent", "pull_1000", "send_cpu", "pull_20_cpu"]);
}

#[test]
#[ignore = "needs servers: run cargo xtask test"]
fn rows_of_followed_changes_measure_both_sides() {
    let rows = [
        "changes_delay_median",
        "changes_delay_p99",
        "changes_follow_delay_median",
        "changes_follow_delay_p99",
        "changes_readers_node",
        "changes_readers_mongod",
    ];
    measure(&[MONGODB, CQL], &rows);
}
