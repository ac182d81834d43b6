//! Answer sizes. gRPC clients refuse messages above 4 MiB by default, so answers are bounded by bytes and by
//! the number of records.

use prost::{Message, length_delimiter_len};

use crate::error::{Error, Reason};

/// The largest message that the node sends: the default limit in gRPC clients.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The record bytes in a page or a batch. [`MESSAGE_BYTES_MAX`] leaves room for the errors for records that
/// do not fit.
pub const ANSWER_BYTES: usize = 3 << 20;
/// The record bytes in one stream message.
pub const STREAM_MESSAGE_BYTES: usize = 1 << 20;

/// Counts the record bytes that one message takes, in their order.
#[derive(Debug)]
pub struct ByteBudget {
    left: usize,
    is_empty: bool,
}

impl ByteBudget {
    /// Creates it for a message whose records may have this many bytes.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        Self { left: bytes, is_empty: true }
    }

    /// The record, if the message takes it. It is not made if the message takes no further record.
    ///
    /// # Errors
    /// ANSWER_TOO_LARGE.
    pub fn fit<M: Message>(&mut self, record: impl FnOnce() -> M) -> Result<M, Error> {
        if self.left == 0 {
            return Err(left_out());
        }
        let record = record();
        if self.admit(&record) { Ok(record) } else { Err(left_out()) }
    }

    /// Counts the record if the message takes it, and returns whether it does. The first record is always
    /// taken; after a record that does not fit, no other is, so that the list's end is left out.
    pub fn admit(&mut self, record: &impl Message) -> bool {
        let bytes = record.encoded_len();
        let bytes = 1 + length_delimiter_len(bytes) + bytes;
        let fits = self.is_empty || bytes <= self.left;
        self.is_empty = false;
        self.left = if fits { self.left.saturating_sub(bytes) } else { 0 };
        fits
    }
}

/// A page's records that fit into this many bytes: all, or the first records, but at least one.
pub fn fit_into_answer<M: Message>(bytes: usize, records: impl IntoIterator<Item = M>) -> Vec<M> {
    let mut budget = ByteBudget::new(bytes);
    records.into_iter().take_while(|record| budget.admit(record)).collect()
}

/// Splits records into a stream's messages, in their order. None is empty.
pub fn split<M: Message>(records: impl IntoIterator<Item = M>) -> Vec<Vec<M>> {
    let (mut messages, mut message) = (Vec::new(), Vec::new());
    let mut budget = ByteBudget::new(STREAM_MESSAGE_BYTES);
    for record in records {
        if !budget.admit(&record) {
            messages.push(std::mem::take(&mut message));
            budget = ByteBudget::new(STREAM_MESSAGE_BYTES);
            budget.admit(&record);
        }
        message.push(record);
    }
    messages.push(message);
    messages.retain(|message| !message.is_empty());
    messages
}

/// The error for a record for which a batch answer has no room.
#[must_use]
pub fn left_out() -> Error {
    let message = format!(
        "the answer has no room for this record: records have at most {ANSWER_BYTES} bytes together, fewer on sockets"
    );
    Error::new(Reason::AnswerTooLarge, message)
}

/// The error for an answer that is too large as a whole.
#[must_use]
pub fn too_large() -> Error {
    Error::new(Reason::AnswerTooLarge, format!("the answer would have more than {MESSAGE_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a message with this many bytes is with its prefix.
    fn record(bytes: usize) -> Vec<u8> {
        let tags_and_lengths = 8;
        vec![0; bytes - tags_and_lengths]
    }

    fn sizes(messages: &[Vec<Vec<u8>>]) -> Vec<usize> {
        messages.iter().map(Vec::len).collect()
    }

    #[test]
    fn page_ends_before_first_record_without_room() {
        let third = ANSWER_BYTES / 3;
        assert_eq!(fit_into_answer(ANSWER_BYTES, [third, third, third].map(record)).len(), 3);
        assert_eq!(fit_into_answer(ANSWER_BYTES, [third, third, third + 1, 100].map(record)).len(), 2);
        assert!(fit_into_answer(ANSWER_BYTES, Vec::<Vec<u8>>::new()).is_empty());
    }

    #[test]
    fn page_holds_one_record_of_any_size() {
        assert_eq!(fit_into_answer(ANSWER_BYTES, [2 * ANSWER_BYTES, 100].map(record)).len(), 1);
    }

    #[test]
    fn split_keeps_order_and_bound() {
        let half = STREAM_MESSAGE_BYTES / 2;
        assert_eq!(sizes(&split([half, half, 100, 3 * half, half].map(record))), [2, 1, 1, 1]);
        assert!(split(Vec::<Vec<u8>>::new()).is_empty());
    }
}
