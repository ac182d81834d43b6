//! Sends what the node has by itself for one socket: welcome, the conversations, and what is new.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use http::HeaderMap;
use kith_proto::message::v1::{
    ListConversationsRequest, ReceiveRequest, ReceiveResponse, delivery::What,
    message_service_client::MessageServiceClient,
};
use kith_service::{
    message::{ReceiverLiveness, ResponseSlot},
    rpc::answer_size::MESSAGE_BYTES_MAX,
};
use serde_json::Value;
use tokio::{
    sync::{mpsc::Sender, watch},
    time::Instant,
};
use tonic::{Code, Request, Status, Streaming};

use super::{
    close::Close,
    delivery,
    delivery_texts::DeliveryTexts,
    frame,
    hello::{ClaimedUser, Hello, ReceiveStart},
    renewal::ProvenUser,
    session::SocketSession,
};
use crate::edge::{Edge, SESSION, SocketRequest};

/// Conversations that are read at once.
const PAGE: i32 = 200;
/// Responses for which `live` waits at most.
const HELD_BACK: u32 = 100;

/// The next action for the socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FeedOutput {
    /// Send this frame to the peer.
    Frame(String),
    /// Send this, and wait for another hello.
    Reset(String),
    /// Send this, and close.
    Close(Option<String>, Close),
}

/// The feed after a hello. Ends when the socket does.
pub(super) struct Feed {
    pub(super) edge: Edge,
    /// The texts that all sockets share.
    pub(super) texts: Arc<DeliveryTexts>,
    /// Changed by renewals.
    pub(super) user: watch::Receiver<ProvenUser>,
    pub(super) hello: Hello,
    /// The content that the list has to show.
    pub(super) session: Option<Arc<SocketSession>>,
    /// Whether the peer answers, as the socket says it.
    pub(super) liveness: Arc<ReceiverLiveness>,
    pub(super) output: Sender<FeedOutput>,
    /// How long the feed goes on after its user was proved by a token.
    pub(super) age_max: Duration,
}

/// The socket is gone, or the feed has sent its last output.
struct FeedEnded;

/// A stream that has begun: its first response is here.
struct ResponseStream {
    first: Option<ReceiveResponse>,
    rest: Streaming<ReceiveResponse>,
    /// The responses. Only the end comes from `rest`.
    slot: Arc<ResponseSlot>,
    /// When the user for whom it was opened was proved.
    proved: Instant,
}

impl Feed {
    /// Sends everything, in order: `welcome` (whose JSON is given), pages of conversations, what came in the
    /// meantime, `live`, and what comes then. Holds nothing back: a socket that takes nothing makes the feed
    /// wait, and the stream behind it.
    pub(super) async fn run(mut self, welcome: Value) {
        // The stream begins before the list: from here on nothing is missed. It is boxed to take the socket's
        // memory only while it runs.
        let start = self.hello.start.clone();
        let mut stream = match Box::pin(self.open(&start)).await {
            Ok(stream) => stream,
            Err(status) => {
                self.fail(&status).await;
                return;
            }
        };
        // The stream's end has been sent.
        let _over = self.send_all(&welcome, &mut stream).await;
    }

    async fn send_all(&mut self, welcome: &Value, stream: &mut ResponseStream) -> Result<(), FeedEnded> {
        self.send(FeedOutput::Frame(frame::named("welcome", welcome))).await?;
        if self.hello.list {
            Box::pin(self.list()).await?;
        }
        self.receive(stream).await
    }

    async fn list(&mut self) -> Result<(), FeedEnded> {
        let mut page_token = String::new();
        loop {
            let request = ListConversationsRequest { page_size: PAGE, page_token, ..Default::default() };
            let mut request = self.as_user(request);
            let session = self.session.as_ref().map(|session| (SESSION, session.metadata()));
            AsMut::<HeaderMap>::as_mut(request.metadata_mut()).extend(session);
            request.extensions_mut().insert(SocketRequest { delivers: true, ..SocketRequest::default() });
            let page = match self.messages().list_conversations(request).await {
                Ok(page) => page.into_inner(),
                Err(status) => return Err(self.fail(&status).await),
            };
            page_token = page.next_page_token;
            let last = page_token.is_empty();
            for text in delivery::pages(&page.conversations, !last, page.left_out) {
                self.send(FeedOutput::Frame(text)).await?;
            }
            if last {
                return Ok(());
            }
        }
    }

    /// Passes on what comes. A stream that ends for its age, or with its token, goes on where it was, and its
    /// peer does not notice, if the user needs no proof, or has proved itself since. Else the socket ends.
    async fn receive(&mut self, stream: &mut ResponseStream) -> Result<(), FeedEnded> {
        let mut position = FeedPosition::after(&self.hello.start);
        let mut live = LiveState::NotYet;
        loop {
            let ready = match live {
                LiveState::Due(_) => stream.message().now_or_never(),
                LiveState::NotYet | LiveState::Sent => None,
            };
            let next = match ready {
                Some(next) => next,
                None => {
                    if let LiveState::Due(_) = live {
                        // Nothing more from before is there: what comes now is new.
                        live = self.send_live(&position).await?;
                    }
                    stream.message().await
                }
            };
            match next {
                Ok(Some(response)) => {
                    let begins = self.pass_on(response, &mut position).await?;
                    live = match live {
                        LiveState::NotYet if begins => LiveState::Due(HELD_BACK),
                        LiveState::Due(0) => self.send_live(&position).await?,
                        LiveState::Due(left) => LiveState::Due(left - 1),
                        LiveState::NotYet | LiveState::Sent => live,
                    };
                }
                Ok(None) => return self.reset().await,
                Err(status) if self.goes_on(&status, stream) => {
                    *stream = Box::pin(self.reopen(&position)).await?;
                }
                Err(status) => return Err(self.fail_stream(&status).await),
            }
        }
    }

    async fn send_live(&mut self, position: &FeedPosition) -> Result<LiveState, FeedEnded> {
        self.send(FeedOutput::Frame(delivery::live(&position.cursor, position.left_out))).await?;
        Ok(LiveState::Sent)
    }

    fn is_trusted(&self) -> bool {
        matches!(self.hello.user, ClaimedUser::Trusted(_))
    }

    /// Whether a stream that ended so is opened again.
    fn goes_on(&self, status: &Status, stream: &ResponseStream) -> bool {
        let is_renewed = self.user.borrow().at > stream.proved;
        match status.code() {
            Code::DeadlineExceeded => self.is_trusted() || is_renewed,
            Code::Unauthenticated => is_renewed,
            _ => false,
        }
    }

    /// Says why the socket ends after its stream did. A stream whose time is over is as old as it may be.
    async fn fail_stream(&mut self, status: &Status) -> FeedEnded {
        if status.code() == Code::DeadlineExceeded {
            drop(self.send(FeedOutput::Close(None, Close::Old)).await);
            return FeedEnded;
        }
        self.fail(status).await
    }

    /// The peer says what it has, and the socket goes on from there.
    async fn reset<T>(&mut self) -> Result<T, FeedEnded> {
        self.send(FeedOutput::Reset(frame::named("reset", &true))).await?;
        Err(FeedEnded)
    }

    /// Whether `live` was among the deliveries.
    async fn pass_on(
        &mut self,
        response: ReceiveResponse,
        position: &mut FeedPosition,
    ) -> Result<bool, FeedEnded> {
        let (mut live, last) = (false, response.deliveries.len().saturating_sub(1));
        for (at, new) in response.deliveries.into_iter().enumerate() {
            match &new.what {
                Some(What::Live(new)) => (live, position.left_out) = (true, new.left_out),
                Some(What::Reset(_)) => return self.reset().await,
                Some(_) => {
                    let cursor = if at == last { response.cursor.as_str() } else { "" };
                    self.send(FeedOutput::Frame(self.texts.frame(&new, cursor))).await?;
                }
                // A later contract version has sent it.
                None => {}
            }
        }
        position.reached(response.cursor);
        Ok(live)
    }

    /// Opens the stream again where it ended. Without a cursor that is not known.
    async fn reopen(&mut self, position: &FeedPosition) -> Result<ResponseStream, FeedEnded> {
        if position.cursor.is_empty() {
            return self.reset().await;
        }
        let notice_audiences = self.hello.start.notice_audiences.clone();
        let start = ReceiveStart { cursor: position.cursor.clone(), positions: Vec::new(), notice_audiences };
        match self.open(&start).await {
            Ok(stream) => Ok(stream),
            Err(status) => Err(self.fail_stream(&status).await),
        }
    }

    /// Opens a stream. It ends at the latest when its user was proved `age_max` ago.
    async fn open(&self, start: &ReceiveStart) -> Result<ResponseStream, Status> {
        let ProvenUser { user, at: proved } = self.user.borrow().clone();
        let request = ReceiveRequest { device: self.hello.device.clone(), ..start.request(user.id) };
        let mut request = self.as_user(request);
        let slot = Arc::<ResponseSlot>::default();
        request.extensions_mut().insert(Arc::clone(&self.liveness));
        request.extensions_mut().insert(Arc::clone(&slot));
        if !self.is_trusted() {
            request.set_timeout(self.age_max.saturating_sub(proved.elapsed()));
        }
        let rest = self.messages().receive(request).await?.into_inner();
        let mut stream = ResponseStream { first: None, rest, slot, proved };
        stream.first = stream.message().await?;
        Ok(stream)
    }

    /// Says why the socket ends.
    async fn fail(&mut self, status: &Status) -> FeedEnded {
        let close = if is_stopping(status) { Close::Stopping } else { Close::after(status) };
        // A socket that is gone needs no reason.
        drop(self.send(FeedOutput::Close(Some(frame::failed(status)), close)).await);
        FeedEnded
    }

    async fn send(&mut self, output: FeedOutput) -> Result<(), FeedEnded> {
        self.output.send(output).await.map_err(|_gone| FeedEnded)
    }

    fn messages(&self) -> MessageServiceClient<Edge> {
        MessageServiceClient::new(self.edge.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    fn as_user<T>(&self, message: T) -> Request<T> {
        self.user.borrow().request(message)
    }
}

impl ResponseStream {
    /// The next response; `None`: the stream has ended.
    async fn message(&mut self) -> Result<Option<ReceiveResponse>, Status> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.next().await,
        }
    }

    async fn next(&mut self) -> Result<Option<ReceiveResponse>, Status> {
        poll_fn(|context| match self.rest.poll_next_unpin(context) {
            Poll::Ready(ended) => Poll::Ready(ended.transpose()),
            Poll::Pending => {
                self.slot.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(Some(response))))
            }
        })
        .await
    }
}

/// Whether the peer has been sent `live`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiveState {
    NotYet,
    /// It is sent after everything that is there, or after this many responses: a slow peer always has
    /// something left.
    Due(u32),
    Sent,
}

/// How far the peer has been served.
#[derive(Debug, Default)]
struct FeedPosition {
    cursor: String,
    /// How many conversations the stream left out.
    left_out: i64,
}

impl FeedPosition {
    fn after(start: &ReceiveStart) -> Self {
        // Positions together with a cursor cut what the cursor would send again. The cursor alone, without
        // them, would repeat it.
        let cursor = if start.positions.is_empty() { start.cursor.clone() } else { String::new() };
        Self { cursor, left_out: 0 }
    }

    fn reached(&mut self, cursor: String) {
        if !cursor.is_empty() {
            self.cursor = cursor;
        }
    }
}

/// The node ends its watches when it stops.
fn is_stopping(status: &Status) -> bool {
    use tonic_types::StatusExt as _;
    status.code() == Code::Unavailable
        && status.get_details_error_info().is_some_and(|info| info.reason == "STOPPING")
}

#[cfg(test)]
mod tests {
    use kith_service::error::{Error, Reason};

    use super::*;

    #[test]
    fn stops_differ_from_stores_that_are_away() {
        assert!(is_stopping(&Error::new(Reason::Stopping, "").into()));
        assert!(!is_stopping(&Error::new(Reason::StoreUnavailable, "").into()));
    }
}
