//! Users, groups, messages, dialogs, notices, secrets, requests and shared node data, in MongoDB.

mod access;
mod audience;
mod backup;
mod changes;
mod command;
#[cfg(test)]
mod concerns;
mod connect;
mod conversation;
mod coordination;
mod database;
mod dialog;
mod dialog_mark;
mod dialog_row;
mod document;
mod erasure;
mod error;
mod fan_out_note;
mod feed;
mod group;
mod known_leases;
mod message;
mod migrate;
mod node;
mod notice;
mod notice_reader;
mod notice_write;
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
