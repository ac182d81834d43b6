//! Servers and links that benchmarks and the laboratory start, and may interfere with in any way:
//! [`redis_server`] behind a [`proxy`], each in a [`child`] process. It also has what both need: the
//! [`program`] of a node, users ([`people`], [`imported`]), the resources of a process ([`usage`]), the
//! process that serves a port ([`listener`]), signals ([`signal`](mod@signal)), waiting ([`wait`]) and tables
//! ([`table`]).

pub mod child;
pub mod imported;
pub mod listener;
pub mod people;
pub mod program;
pub mod proxy;
pub mod redis_server;
pub mod resp;
pub mod signal;
pub mod table;
pub mod usage;
pub mod wait;
