//! Types that callers, nodes and tiers share: records, versions, tokens, policies, loaders, time and
//! randomness.

pub(super) mod clock;
pub(super) mod entry;
pub(super) mod error;
pub(super) mod loader;
pub(super) mod policy;
pub(super) mod random;
pub(super) mod session;
pub(super) mod token;
pub(super) mod token_issuer;
pub(super) mod version;
pub(super) mod wait_until;
