//! The fault laboratory: a run is recorded as a [`mod@history`], and [`mod@checker`] judges it.
//! [`mod@faults`] injects faults into real processes, [`mod@alerts`] checks which alerts that triggers, and
//! [`mod@clients`] judges the clients of all languages.

pub mod alerts;
pub mod checker;
pub mod clients;
pub mod faults;
pub mod history;
pub mod mongods;
mod scrape;
