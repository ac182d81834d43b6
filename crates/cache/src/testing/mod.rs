//! Rules of coherence that tests may remove, and points of a call at which they may stop it.

pub(super) mod failpoints;
pub(super) mod rules;
