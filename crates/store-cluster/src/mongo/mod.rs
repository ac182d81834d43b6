//! Users, groups, messages, dialogs, notices, secrets, requests and shared node data, in MongoDB.

mod backup;
mod change;
mod command;
#[cfg(test)]
mod concerns;
mod connect;
mod conversation;
mod coordination;
mod database;
mod dialog;
mod document;
mod error;
mod feed;
mod group;
mod known_leases;
mod message;
mod migrate;
mod node;
mod notice;
mod probe;
mod reaction;
mod record;
mod request;
mod restore;
mod restored;
mod secret;
mod sequence;
mod strong;
mod transaction;
mod user;
mod write;

pub use connect::{ClusterHandle, OpenError, connect};
pub use database::MongoOptions;
pub use probe::{Probe, Unfit};
pub use restore::verify_backup;
pub use restored::RestoredCounters;
