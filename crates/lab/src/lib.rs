//! The fault laboratory: a run is recorded as a [`mod@history`], and [`mod@checker`] judges it.
//! [`mod@faults`] injects faults into real processes, [`mod@alerts`] checks which alerts that triggers,
//! [`mod@clients`] judges the clients of all languages, and [`demo`] shows it to people.

pub mod alerts;
pub mod checker;
pub mod clients;
pub mod demo;
pub mod faults;
pub mod history;
pub mod mongods;
mod scrape;
