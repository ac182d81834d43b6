//! A stream's next response.

use kith_proto::message::v1::{self as wire, delivery::What};
use kith_store::{ConversationId, SeqRange};
use prost::Message as _;

/// Bytes after which a response is full. The last delivery may exceed it.
const FULL: usize = 256 << 10;

/// Deliveries that are sent together.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    all: Vec<wire::Delivery>,
    bytes: usize,
    /// The messages that they have, or name as missed.
    ranges: Vec<(ConversationId, SeqRange)>,
}

impl Deliveries {
    pub(super) fn push(&mut self, what: What) {
        let delivery = wire::Delivery { what: Some(what) };
        self.bytes += delivery.encoded_len();
        self.all.push(delivery);
    }

    /// Records that the deliveries have these messages, or name them.
    pub(super) fn add_range(&mut self, conversation: ConversationId, seqs: SeqRange) {
        self.ranges.push((conversation, seqs));
    }

    /// How many ranges there are.
    pub(super) const fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the ranges without the first.
    pub(super) fn ranges_after(&self, count: usize) -> &[(ConversationId, SeqRange)] {
        self.ranges.get(count..).unwrap_or_default()
    }

    pub(super) const fn is_full(&self) -> bool {
        self.bytes >= FULL
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The response with a cursor after these deliveries; `None`: there is nothing to send.
    pub(super) fn response(self, cursor: impl FnOnce() -> String) -> Option<wire::ReceiveResponse> {
        (!self.all.is_empty()).then(|| wire::ReceiveResponse { deliveries: self.all, cursor: cursor() })
    }
}
