//! Follows, blocks, members, applications and logs, in Cassandra or ScyllaDB.

mod application;
mod change_log;
mod client;
mod copy;
mod feed;
mod idempotency;
mod log_end;
mod maintenance;
mod member;
mod open_minutes;
mod relation;
mod request_key;
mod shared_ticks;
mod stores;
mod unconfigured;

pub(crate) use client::schema::tables;
pub use client::{
    options::CqlOptions,
    probe::{CqlProbe, CqlUnfit},
};
pub(crate) use copy::memberships::MEMBERS;
pub use log_end::LogEnds;
pub(crate) use stores::Cql;
pub(crate) use unconfigured::NoRelations;
