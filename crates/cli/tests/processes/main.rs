//! Tests that start `kith` and other programs. They have their own executable: a program that is being
//! started holds this process's locks for a moment.

#![allow(clippy::unwrap_used, clippy::large_futures, reason = "a test may panic, and a node is large")]

mod access_keys;
mod backup;
mod banner;
mod certificate_ends;
mod changed_while_running;
#[cfg(feature = "embedded")]
mod changes_restored;
mod cluster;
mod cluster_keys;
mod cluster_observer;
mod commands;
mod config_command;
mod configuration_schema;
mod convert_csv;
mod convert_openim;
#[path = "../../../server/tests/it/corrupt_lists/mod.rs"]
mod corrupt_lists;
mod damaged_log;
mod data_file;
mod demo;
mod deploy;
mod disk_full;
mod ephemeral;
#[cfg(feature = "embedded")]
mod forward;
#[path = "../../../server/tests/it/gateway_calls/mod.rs"]
mod gateway_calls;
mod guides;
#[path = "../../../server/tests/it/http/mod.rs"]
mod http;
mod import_follows;
mod import_resumed;
mod import_sources;
mod json_by_hand;
mod kill;
mod killed;
mod messages_moved;
mod moved_data;
#[path = "../../../server/tests/it/node/mod.rs"]
mod node;
mod operations;
mod polls;
mod port;
mod process;
#[cfg(feature = "embedded")]
#[path = "../../../forward/tests/it/receiver.rs"]
mod receiver;
mod reference;
mod refused_connections;
#[cfg(feature = "embedded")]
mod rotation;
mod spawned;
mod start_logs;
mod start_refused;
mod start_waits;
mod terminal;
mod token_command;
mod tour;
#[cfg(feature = "embedded")]
mod tour_sockets;
