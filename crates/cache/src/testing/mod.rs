//! Coherence rules that tests may remove, and points at which tests may stop a call.

pub(super) mod failpoints;
pub(super) mod rules;
