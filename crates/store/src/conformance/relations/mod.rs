//! Cases about applications, follows, blocks, members, logs and their upkeep.

use super::{application_sample, member_sample, message_sample, relation_sample, sample};

pub mod application;
pub mod application_at_once;
pub mod application_lists;
pub mod block;
pub mod block_at_once;
pub mod block_lists;
pub mod block_requests;
pub mod edges;
pub mod follow;
pub mod follow_at_once;
pub mod follow_counts;
pub mod follow_import;
pub mod follow_lists;
pub mod follow_requests;
pub mod member;
pub mod member_at_once;
pub mod member_bans;
pub mod member_import;
pub mod member_lists;
pub mod member_ranges;
pub mod member_requests;
pub mod relation_log;
