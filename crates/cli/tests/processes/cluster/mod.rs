//! Several nodes over one MongoDB and one Redis, as callers and operators meet them.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod at_once;
mod away;
mod callers;
mod claims;
mod counts;
mod epochs;
mod fresh;
mod hand;
mod killed_sender;
mod message_numbers;
mod metrics;
mod nodes;
mod notice_model;
mod notices;
mod notices_live;
mod older_node;
mod presence;
mod recalls;
mod receipts;
mod receive;
mod redis;
mod redis_cluster;
mod refused;
mod sequences;
mod site;
mod told;
mod top;
mod unconfigured;
mod watched;
mod way;
mod windows;
