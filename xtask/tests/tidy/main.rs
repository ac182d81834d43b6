//! Tests the house rules that no lint knows.

#![expect(clippy::unwrap_used, reason = "all of it are tests")]

mod bounds;
mod breaks;
mod circles;
mod commands;
mod comments;
mod contract;
mod dependencies;
mod documents;
mod errors;
mod files;
mod links;
mod migrations;
mod modules;
mod names;
mod statements;
mod test_names;
mod tree;
mod words;
