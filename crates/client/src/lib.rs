#![doc = include_str!("../README.md")]

mod call;
mod connect;
mod credential;
mod error;
#[cfg(feature = "near-cache")]
mod near;
mod pages;
mod receive;
mod request;
mod retry;
mod session;

pub use call::Client;
pub use connect::Builder;
pub use error::Error;
pub use kith_proto as proto;
#[cfg(feature = "near-cache")]
pub use near::NearCache;
pub use receive::{Received, State};
