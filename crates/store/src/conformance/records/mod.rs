//! Cases about users, groups, conversations, dialogs, messages, notices, secrets, sequences, nodes and kept
//! changes.

use super::{dialog_sample, message_sample, notice_sample, record_sample, sample};

pub mod change;
pub mod conversation;
pub mod coordination;
pub mod dialog;
pub mod dialog_reduced;
pub mod erasure;
pub mod group;
pub mod group_search;
pub mod message;
pub mod message_at_once;
pub mod message_changes;
pub mod message_erase;
pub mod message_heads;
pub mod message_pages;
pub mod message_trim;
pub mod node;
pub mod notice;
pub mod notice_reader;
pub mod reaction;
pub mod read_marks;
pub mod record;
pub mod record_at_once;
pub mod record_requests;
pub mod secret;
pub mod sequence;
pub mod user;
pub mod user_access;
pub mod user_ids;
pub mod user_names;
pub mod user_search;
