//! The services: users, groups and their members, relations, messages, notices, receipts, sequences,
//! applications, presence and kept changes.
//!
//! From the bottom up: [`error`] and [`metric`]; [`rpc`], shared by all calls; [`write`](mod@write), shared
//! by all writes; then a folder for each domain. [`user`] and [`conversation`] know no other domain,
//! [`group`] knows both, [`relation`] knows users and groups, [`notice`] knows users, and [`dialog`],
//! [`message`], [`application`] and [`presence`] know all these. [`receipt`] knows messages, and [`sequence`]
//! and [`change`] know none. A domain does not call the domains above it: it notifies them, through listener
//! traits that it owns.

pub mod application;
pub mod change;
pub mod conversation;
pub mod dialog;
pub mod domain_context;
pub mod error;
pub mod group;
pub mod invalid_value;
pub mod message;
pub mod metric;
pub mod notice;
pub mod presence;
pub mod receipt;
pub mod relation;
pub mod rpc;
#[cfg(test)]
mod sample;
pub mod schema_agreement;
pub mod sequence;
pub mod size;
pub mod user;
pub mod write;
