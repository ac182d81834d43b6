//! The Kith node: what it serves, how it starts and stops, and its command line.

pub mod config;
