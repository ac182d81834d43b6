//! Responses that do not leave the process.

use std::sync::Arc;

use futures::StreamExt as _;
use kith_proto::message::v1::ReceiveResponse;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::receiver::ReceiveStream;

/// A slot from which a reader in this process takes its stream's responses, so that they are neither encoded
/// nor decoded: only the end of the stream passes it. A socket puts the slot into its stream's request. Holds
/// one response; the stream waits until it is taken.
///
/// The task that takes responses also polls the stream: it looks here each time the stream has nothing.
#[derive(Debug, Default)]
pub struct ResponseSlot {
    response: Mutex<Option<ReceiveResponse>>,
    taken: Notify,
}

impl ResponseSlot {
    /// Takes the response that the stream has put here.
    pub fn take(&self) -> Option<ReceiveResponse> {
        let response = self.response.lock().take()?;
        self.taken.notify_one();
        Some(response)
    }

    /// Puts all of a stream's responses here. What is left is the stream's end, and the error before it.
    pub(super) fn fill_from(self: Arc<Self>, stream: ReceiveStream) -> ReceiveStream {
        let put = move |response| {
            let this = Arc::clone(&self);
            async move {
                match response {
                    Ok(response) => {
                        this.put(response).await;
                        None
                    }
                    Err(status) => Some(Err(status)),
                }
            }
        };
        stream.filter_map(put).boxed()
    }

    async fn put(&self, response: ReceiveResponse) {
        *self.response.lock() = Some(response);
        self.taken.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::{poll, stream};
    use tonic::Code;

    use super::*;
    use crate::error::Error;

    fn response(cursor: &str) -> ReceiveResponse {
        ReceiveResponse { cursor: cursor.to_owned(), ..ReceiveResponse::default() }
    }

    #[tokio::test]
    async fn stream_waits_until_its_response_is_taken() {
        let all = [Ok(response("1")), Ok(response("2")), Err(Error::not_found("user").into())];
        let slot = Arc::<ResponseSlot>::default();
        let mut stream = Arc::clone(&slot).fill_from(stream::iter(all).boxed());
        for _ in 0..2 {
            assert!(poll!(stream.next()).is_pending(), "the first one is still there");
        }
        assert_eq!((slot.take(), slot.take()), (Some(response("1")), None));
        assert!(poll!(stream.next()).is_pending(), "the end comes after the second one");
        assert_eq!(slot.take(), Some(response("2")));
        assert_eq!(stream.next().await.unwrap().unwrap_err().code(), Code::NotFound);
        assert!(stream.next().await.is_none());
    }
}
