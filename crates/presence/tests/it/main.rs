//! The integration tests of presence in one executable: each is linked once.

mod presence_memory;
mod presence_redis;
