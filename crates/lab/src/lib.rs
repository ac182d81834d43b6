//! Measures what Kith costs over the bare parts that it is made of. Every figure is a ratio (or difference)
//! of two sides that run in turns on the same machine with the same data, so that it means the same elsewhere.
//!
//! [`mod@bench`] lists the rows and runs them; `rows` holds one file for each family; [`ratio`] makes a figure of
//! the rounds; `results` keeps and [`table`] shows them. [`echo`] and [`entry`] are the other processes that rows start.
//!
//! The fault laboratory beside them: servers that a test may do anything to ([`redis_server`]), behind links that
//! may do anything to them ([`proxy`]). What a run has seen is a [`mod@history`],
//! and [`mod@checker`] judges it. [`mod@hunt`] does all this to real processes, [`mod@alerts`] shows which alerts
//! that sets off, [`demo`] shows it to people; [`rivals`] runs other ways to keep caches beside Kith's, under the same
//! faults.

pub mod alerts;
pub mod bench;
mod cache_node;
pub mod checker;
mod child;
pub mod claims;
mod compose;
pub mod demo;
pub mod echo;
pub mod entry;
pub mod frames;
pub mod history;
pub mod hunt;
mod load;
pub mod mongods;
mod people;
mod plot;
pub mod proxy;
pub mod ratio;
pub mod redis_server;
pub mod resp;
mod results;
pub mod rivals;
mod rows;
mod scrape;
mod served;
mod signal;
pub mod table;
mod usage;
