//! The Kith node: its edge, configuration, start and stop, and its part in a cluster.

// They panic if the stream is full or closed.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod admin;
pub mod auth;
pub mod build_info;
pub mod cluster;
pub mod config;
mod console;
mod demo;
pub mod descriptors;
pub mod edge;
pub mod health;
pub mod json;
pub mod jsonl;
pub mod metrics_table;
pub mod node;
pub mod openapi;
mod page;
mod places;
mod refusals;
pub mod start_error;
pub mod telemetry;
pub mod transport;
mod ws;

pub use node::run::{Addresses, Node, run};

/// Runs the Rust examples on the page about tests.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../docs/internals/testing.md")]
mod testing_page {}
