//! Follows and blocks, in Cassandra or ScyllaDB.

mod absent;
mod block;
mod block_end;
mod block_write;
mod broken;
mod bucket;
mod clock;
mod count;
mod due;
mod edges;
mod error;
mod feed;
mod follow;
mod import;
mod journal;
mod list;
mod lock;
mod mark;
mod options;
mod probe;
mod record;
mod removal;
mod request;
mod row;
mod schema;
mod session;
mod sweep;
mod verify;
mod window;
mod write;

pub(crate) use absent::NoRelations;
pub use options::CqlOptions;
pub use probe::{CqlProbe, CqlUnfit};
pub(crate) use session::Cql;
