//! The Kith node: what it serves, how it starts and stops, and its command line.

pub mod admin;
mod backend;
mod bring_up;
pub mod bulk;
pub mod call;
pub mod cli;
pub mod config;
pub mod edge;
pub mod error;
pub mod group;
pub mod health;
pub mod ids;
pub mod metric;
pub mod mutation;
pub mod operations;
pub mod page;
pub mod params;
pub mod reference;
pub mod request;
pub mod run;
pub mod secret;
pub mod start;
pub mod telemetry;
pub mod transport;
pub mod user;
pub mod versions;
pub mod wiring;

pub use run::{Addresses, Node, run};
