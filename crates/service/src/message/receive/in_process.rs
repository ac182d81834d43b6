//! Responses that do not leave the process.

use std::sync::Arc;

use futures::StreamExt as _;
use kith_proto::message::v1::ReceiveResponse;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::receiver::ReceiveStream;

/// A slot from which a reader in this process takes its stream's responses, so that they are neither encoded
/// nor decoded: for each response, an empty response passes the stream. A socket puts the slot into its
/// stream's request. Holds one response; the stream waits until it is taken.
#[derive(Debug, Default)]
pub struct ResponseSlot {
    response: Mutex<Option<ReceiveResponse>>,
    taken: Notify,
}

impl ResponseSlot {
    /// Takes the response for which an empty response came; `None`: the response that came is complete.
    pub fn take(&self) -> Option<ReceiveResponse> {
        let response = self.response.lock().take();
        self.taken.notify_one();
        response
    }

    /// Puts all of a stream's responses here.
    pub(super) fn fill_from(self: Arc<Self>, stream: ReceiveStream) -> ReceiveStream {
        let put = move |response| {
            let this = Arc::clone(&self);
            async move {
                this.put(response?).await;
                Ok(ReceiveResponse::default())
            }
        };
        stream.then(put).boxed()
    }

    async fn put(&self, response: ReceiveResponse) {
        loop {
            {
                let mut held = self.response.lock();
                if held.is_none() {
                    *held = Some(response);
                    return;
                }
            }
            self.taken.notified().await;
        }
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
        assert_eq!(stream.next().await.unwrap().unwrap(), ReceiveResponse::default());
        assert!(poll!(stream.next()).is_pending(), "the first one is still there");
        assert_eq!(slot.take(), Some(response("1")));
        assert_eq!(stream.next().await.unwrap().unwrap(), ReceiveResponse::default());
        assert_eq!(stream.next().await.unwrap().unwrap_err().code(), Code::NotFound);
        assert_eq!((slot.take(), slot.take()), (Some(response("2")), None));
    }
}
