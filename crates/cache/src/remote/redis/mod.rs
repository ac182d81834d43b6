//! The shared server as Redis. Only this module uses its client.

mod breaker;
mod cells;
mod channels;
mod checks;
mod diagnosis;
mod failures;
mod frames;
mod link;
mod log;
mod names;
mod options;
mod owner;
mod proof_link;
mod refusal;
mod registry;
mod runner;
mod scripts;
mod server;
mod values;

pub use breaker::BreakerState;
pub use checks::{BroadcastTest, Fitness};
pub use names::{SLOT_PARTS, key_slot, slot_tag};
pub use options::{RedisError, RedisOptions};
pub use refusal::Refusal;
pub use runner::{ChannelSubscription, Reply, ScriptRunner};
pub use scripts::{RedisScript, ScriptCall};
pub use server::RedisShared;
