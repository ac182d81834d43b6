//! Long tests, run by `cargo xtask nightly`.

#[path = "../it/http/mod.rs"]
mod http;
#[path = "../it/json_grpc_parity/mod.rs"]
mod json_grpc_parity;
#[path = "../it/messaging/mod.rs"]
mod messaging;
#[path = "../it/node/mod.rs"]
mod node;
#[path = "../it/plain_chat/mod.rs"]
mod plain_chat;
#[path = "../it/relation_calls/mod.rs"]
mod relation_calls;
#[path = "../it/talking/mod.rs"]
mod talking;

/// 100,000 steps.
#[tokio::test(flavor = "multi_thread")]
async fn users_see_what_a_plain_model_says() {
    plain_chat::run(50, 2_000).await;
}
