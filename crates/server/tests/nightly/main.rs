//! Long tests, run by `cargo xtask nightly`.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "only a part of the modules is used here; a test has no outside and may panic"
)]

#[path = "../it/dialog_calls.rs"]
mod dialog_calls;
#[path = "../it/group_calls.rs"]
mod group_calls;
#[path = "../it/message_calls.rs"]
mod message_calls;
#[path = "../it/node/mod.rs"]
mod node;
#[path = "../it/plain_chat/mod.rs"]
mod plain_chat;
#[path = "../it/relation_calls.rs"]
mod relation_calls;

/// The nightly run makes 100,000 steps.
#[tokio::test(flavor = "multi_thread")]
async fn users_see_what_a_plain_model_says() {
    plain_chat::run(50, 2_000).await;
}
