//! Measures what Kith costs over its bare parts. Every figure is a ratio (or difference) of two sides that
//! run in turns on the same machine with the same data, so that it means the same elsewhere.
//!
//! [`mod@run`] lists the rows and runs them; `rows` holds one file for each family; `ratio` makes a figure of
//! the rounds; `results` keeps and `table` shows them. [`echo`], [`frames`] and [`entry`] are the other
//! processes that rows start.

mod cache_node;
pub mod claims;
pub mod echo;
pub mod entry;
pub mod frames;
mod load;
mod ratio;
mod results;
mod rows;
pub mod run;
mod served;
mod table;
