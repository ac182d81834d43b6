//! Several nodes over one MongoDB and one Redis, as callers and operators use them.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod away;
pub(crate) mod backup_folder;
mod backups;
mod backups_refused;
mod callers;
mod claims;
mod epochs;
mod fresh;
pub(crate) mod hand;
mod killed_node;
mod killed_receivers;
mod killed_sender;
mod metrics;
mod nodes;
mod notice_calls;
mod notices;
mod notices_live;
mod older_node;
mod outside_changes;
mod presence;
mod receipts;
mod receive;
pub(crate) mod redis;
mod redis_cluster;
pub(crate) mod redis_proxy;
mod refused;
pub(crate) mod restored;
pub(crate) mod site;
mod top;
mod unconfigured;
mod user_access;
mod watched;
mod windows;
