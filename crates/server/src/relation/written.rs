//! Relations in the answer to a batch: written as the wire has them. To make messages of them first, and to encode those,
//! takes as long as to find what is between the users (ADR 0022).

use kith_proto::{relation::v1 as wire, write_message};
use kith_store::{Edge, Follow};
use prost::{
    Message,
    encoding::{bool, int64, message},
};

use super::{
    Blocks,
    compared::Between,
    convert::{follow_to_wire, settings_to_wire},
};
use crate::{call::Acting, error::Error};

/// About as many bytes as what is between two users who follow each other takes.
const ROOM: usize = 112;

/// An answer with none in it yet, for so many pairs.
pub(super) fn none(pairs: usize) -> wire::BatchGetRelationsResponse {
    wire::BatchGetRelationsResponse::with_room(pairs * ROOM)
}

/// Adds what is between the users of an edge, as it is told to whoever acts, or why it is not known: a `RelationResult`.
pub(super) fn add(
    results: &mut wire::BatchGetRelationsResponse,
    edge: Edge,
    found: &Result<Between<'_>, Error>,
    told: (&Blocks, Acting),
) {
    results.write(|buf| {
        int64::encode(1, &edge.to.get(), buf);
        match found {
            Ok(between) => write_message(2, buf, |buf| relation(buf, between, told)),
            Err(error) => message::encode(3, &error.to_result(), buf),
        }
    });
}

/// The fields of a `Relation`, as `convert::relation` has them.
fn relation(buf: &mut Vec<u8>, between: &Between<'_>, (blocks, acting): (&Blocks, Acting)) {
    int64::encode(1, &between.edge.from.get(), buf);
    int64::encode(2, &between.edge.to.get(), buf);
    for (tag, follow) in [(3, between.follow), (4, between.followed_by)] {
        if let Some(entry) = follow {
            let follow: &Follow = &entry.value;
            write(tag, buf, &follow_to_wire(follow));
        }
    }
    if between.are_friends() {
        bool::encode(5, &true, buf);
    }
    write(6, buf, &settings_to_wire(between.set.map(|entry| &*entry.value), blocks));
    if between.is_blocked(acting) {
        bool::encode(7, &true, buf);
    }
}

fn write(tag: u32, buf: &mut Vec<u8>, fields: &impl Message) {
    write_message(tag, buf, |buf| fields.encode_raw(buf));
}
