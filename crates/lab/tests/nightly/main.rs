//! Long tests, run by `cargo xtask nightly`: rows of the laboratory in little, alerts, the demonstration, the comparison.

mod alerts;
mod compare;
mod demo;
mod trials;
