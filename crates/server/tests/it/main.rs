//! The server's integration tests in one executable: each executable has to be linked.

#![cfg(feature = "embedded")]
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::large_futures,
    reason = "a test has no outside and may panic, and a node is large"
)]

mod answer_size;
mod application_calls;
mod applications_resumed;
mod applications_void_at_use;
mod applications_void_between;
mod auth_bad_input;
mod auth_matrix;
mod auth_rows;
mod bare_node;
mod broken_store;
mod cancelled;
mod change_calls;
mod changes_followed;
mod changes_kept;
mod config_sources;
mod consistency_tokens;
mod console;
mod contract;
mod contract_number;
mod corrupt_lists;
mod counting_store;
mod deleted_users;
mod dialog_calls;
mod edge;
mod edge_bad_input;
mod edge_calls;
mod edge_cluster;
mod edge_connections;
mod edge_unread;
mod edges;
mod ends_behind;
mod enumeration;
mod erased_with_user;
mod gateway_calls;
mod group_calls;
mod group_search;
mod http;
mod issuer_address;
mod json_equals_grpc;
mod json_grpc_parity;
mod marks_at_once;
mod message_calls;
mod message_streams;
mod message_upkeep;
mod moments;
mod node;
mod notice_calls;
mod notice_reads;
mod one_publication;
mod openapi;
mod plain_chat;
mod policy;
mod ranges_of_members;
mod reaction_calls;
mod reads_write_nothing;
mod reasons;
mod receipt_calls;
mod receipts_large;
mod receive_faults;
mod relation_calls;
mod reused_ids_restarted;
mod sandboxes;
mod secured_node;
mod security_events;
mod service_config;
mod session_reads;
mod sessions;
mod signing;
mod sockets;
mod store_over;
mod strangers;
mod streams_of_keys;
mod user_access;
mod user_quotas;
mod user_rights;
mod user_tokens;
mod watch_bounds;
mod watching;
mod web_calls;
mod web_connections;
mod ws_bad_input;
mod ws_frames;
mod ws_messages;
mod ws_opening;
mod ws_order;
mod ws_renewal;
mod ws_tokens;
