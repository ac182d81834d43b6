//! Collections, each rule shown by the reads that would be wrong without it.
#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect must fail")]

mod chance;
mod paging;
mod pair;
mod peer;
mod set;
mod shared;
mod stage;
mod wire;
mod writing;
