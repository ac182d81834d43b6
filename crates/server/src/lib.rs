//! The Kith node: its edge, its configuration, how it starts and stops, and how it knows other nodes.

// They panic where the stream is full or closed.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod admin;
pub mod auth;
pub mod cluster;
pub mod config;
mod demo;
pub mod descriptors;
pub mod edge;
pub mod health;
pub mod json;
pub mod jsonl;
pub mod metrics_table;
pub mod node;
pub mod openapi;
pub mod start_error;
pub mod telemetry;
pub mod transport;
mod ws;

pub use node::run::{Addresses, Node, run};

/// The examples in Rust of the page about tests are run.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../docs/testing.md")]
mod testing_page {}
