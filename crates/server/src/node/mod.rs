//! A node: its start, its services, and its end.

pub mod banner;
pub mod caller_sources;
mod callers;
mod certificate_watch;
mod clock;
#[cfg(feature = "cluster")]
pub mod cluster_backup;
#[cfg(feature = "embedded")]
mod ephemeral;
mod fetched_keys;
mod operations;
pub mod parent;
pub mod reload;
pub mod restored;
pub mod run;
#[cfg(feature = "embedded")]
mod sandbox;
#[cfg(feature = "embedded")]
mod seed;
pub mod services;
pub mod size_limit;
mod startup;
pub mod store;
mod store_info;
mod store_remarks;
