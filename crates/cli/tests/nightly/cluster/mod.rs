//! Several nodes over one MongoDB and one Redis, for the console.

#[path = "../../processes/cluster/redis.rs"]
pub(crate) mod redis;
#[path = "../../processes/cluster/site.rs"]
pub(crate) mod site;
