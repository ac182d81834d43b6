//! The Kith node: what it serves, how it starts and stops, and its command line.

// They panic where the stream is full or closed; see `cli::output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod admin;
pub mod answer_size;
pub mod application;
mod backend;
mod banner;
mod beside;
mod bring_up;
pub mod bulk;
pub mod call;
pub mod cli;
mod cluster;
pub mod config;
mod descriptors;
pub mod edge;
#[cfg(feature = "embedded")]
mod ephemeral;
pub mod error;
pub mod group;
pub mod health;
pub mod ids;
mod json;
mod lease;
pub mod member;
pub mod metric;
pub mod mutation;
mod observer;
pub mod operations;
mod packed;
pub mod page;
pub mod params;
mod parent;
mod presence;
pub mod reference;
pub mod relation;
mod reload;
pub mod request;
pub mod run;
#[cfg(feature = "embedded")]
mod sandbox;
pub mod search_quota;
pub mod secret;
#[cfg(feature = "embedded")]
mod seed;
mod shed;
pub mod start;
mod tasks;
pub mod telemetry;
pub mod tiers;
pub mod transport;
pub mod user;
pub mod versions;
pub mod wiring;

pub use run::{Addresses, Node, run};

/// The examples in Rust of the page about tests are run.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../docs/testing.md")]
mod testing_page {}
