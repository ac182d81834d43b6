//! Long tests, run by `cargo xtask nightly`: rows of the laboratory in little, alerts, the demonstration.

mod alerts;
mod demo;
mod load_tests;
