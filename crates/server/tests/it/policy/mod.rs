//! What callers meet, whatever the store: these tests run a second time over MongoDB and CQL.

mod applications;
mod applications_void;
mod bad_input;
mod bad_input_messages;
mod bad_input_relations;
mod bans;
mod conversation_lists;
mod dialog_settings;
mod dismissed;
mod group_events;
mod group_secrets;
mod groups;
mod members;
mod memory_tier;
mod messages;
mod messages_read;
mod messages_sent_again;
mod presence;
mod read_marks;
mod relation_lists;
mod relation_log;
mod relations;
mod reused_ids;
mod text_fields;
mod trailers;
mod users;
