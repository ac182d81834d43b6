//! Long tests, run by `cargo xtask nightly`: small rows of the laboratory, alerts, the demonstration.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod alerts;
mod demo;
mod load_tests;
mod near;

use std::path::{Path, PathBuf};

/// The program that runs a node; the server's tests build it.
fn kith() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_kith-lab")).with_file_name("kith")
}
