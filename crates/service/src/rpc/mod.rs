//! Shared by all calls: callers, deadlines, pages, batches, answer sizes, secrets.

pub mod answer_size;
pub mod audit_notes;
pub mod batch;
pub mod call;
mod consistency;
pub(crate) mod ids;
pub mod page_token;
pub mod params;
pub mod record_quota;
pub mod request;
pub mod rights;
pub mod search_quota;
pub mod secret;
pub mod user_quota;
pub mod versions;
