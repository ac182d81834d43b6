//! What tests may take away or stop at: the rules of coherence, and points of a call.

pub(super) mod failpoints;
pub(super) mod rules;
