//! Collections, each rule shown by the reads that would be wrong without it.
#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect must fail")]

mod chance;
#[path = "../cache/gate.rs"]
mod gate;
#[path = "../remote/number_codec.rs"]
mod number_codec;
mod paging;
mod peer;
mod shared;
mod stage;
#[path = "../cache/until.rs"]
mod until;
mod wire;
mod writing;
