//! The fault laboratory: what a run has seen is a [`mod@history`], and [`mod@checker`] judges it.
//! [`mod@faults`] does faults to real processes, [`mod@alerts`] shows which alerts that triggers, and
//! [`demo`] shows it to people.

pub mod alerts;
pub mod checker;
mod compose;
pub mod demo;
pub mod faults;
pub mod history;
pub mod mongods;
mod scrape;
