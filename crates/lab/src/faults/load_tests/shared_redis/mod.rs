//! Nodes share a Redis that is not as they need it: it holds data from another database, or takes rights from
//! them while they run. The age of answers is measured on every node.

mod ages;
mod dropped;
mod forbidden;

pub(super) use dropped::run as dropped;
pub(super) use forbidden::run as forbidden;
