//! The integration tests of server in one executable: each is linked once.

#![allow(clippy::unwrap_used, clippy::large_futures, reason = "a test may panic, and a node is large")]

mod answer_size;
mod applications_resumed;
mod applications_void_at_use;
mod applications_void_between;
mod applying;
mod broken;
mod cancelled;
mod changing;
mod config_sources;
mod damaged;
mod deleted_users;
mod edge;
mod edge_bad_input;
mod edge_calls;
mod edge_cluster;
mod edge_connections;
mod edges;
mod ends_behind;
mod enumeration;
mod equal;
mod erased_with_user;
mod group_search;
mod http;
mod json_equals_grpc;
mod listed;
mod marks_at_once;
mod message_upkeep;
mod messaging;
mod moments;
mod node;
mod online;
mod plain_chat;
mod policy;
mod ranges_of_members;
mod reasons;
mod relating;
mod reused_ids_restarted;
mod sandboxes;
mod service_config;
mod talking;
mod watching;
mod web_calls;
mod web_connections;
