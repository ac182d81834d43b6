//! Tests the message log with what happens between its commands.

mod changes;
mod commands;
mod feed;
mod interleaved;
mod older;
mod rollback;
mod scripted;
mod shared;
mod stage;
mod time;

use kith_store::{
    Appended, ConversationId, NewMessage, Seq,
    conformance::message_sample::{batch, log_of, message, replayed},
};

fn log() -> ConversationId {
    log_of(9)
}

fn messages<const N: usize>(ids: [&str; N]) -> Vec<NewMessage> {
    ids.map(message).to_vec()
}

/// The results for messages with these appended numbers.
fn new(seqs: impl IntoIterator<Item = Seq>) -> Vec<Appended> {
    seqs.into_iter().map(Appended::New).collect()
}
