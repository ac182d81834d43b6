//! The message log on a real MongoDB.

mod at_once;
mod faults;
mod plans;
mod times;

use kith_store::{
    Appended, ConversationId, Message, NewMessage, Stores,
    conformance::message_sample::{batch, log_of, message, replayed},
};

fn log() -> ConversationId {
    log_of(9)
}

async fn fill(stores: &Stores, messages: &[NewMessage]) {
    for some in messages.chunks(100) {
        let appended = stores.messages.append(log(), some).await.unwrap();
        assert!(appended.iter().all(|one| matches!(one, Appended::New(_))), "{appended:?}");
    }
}

/// The whole log, whose numbers must be contiguous.
async fn read(stores: &Stores) -> Vec<Message> {
    let end = stores.messages.strong_end(log()).await.unwrap();
    let mut found = Vec::new();
    for first in (1..=end).step_by(100) {
        found.extend(stores.messages.messages(log(), first, first + 99).await.unwrap());
    }
    assert!(found.iter().map(|message| message.seq).eq(1..=end), "a hole, or a number twice");
    found
}
