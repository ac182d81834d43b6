//! Cases about what several nodes that share a store keep in it.

pub mod fan_out_note;
