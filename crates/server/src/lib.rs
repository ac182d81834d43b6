//! The Kith node: what it serves, how it starts and stops, and its command line.

pub mod call;
pub mod cli;
pub mod config;
pub mod edge;
pub mod error;
pub mod health;
pub mod operations;
pub mod run;
pub mod start;
pub mod telemetry;
pub mod transport;
