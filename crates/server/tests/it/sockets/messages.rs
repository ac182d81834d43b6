//! A message service that sends what the test gives it.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{StreamExt as _, future::BoxFuture};
use http::HeaderMap;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use kith_proto::message::v1::{delivery::What, *};
use kith_service::rpc::call::Call;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, body::Body, server::NamedService};

type Item = Result<ReceiveResponse, Status>;

/// Two conversations on two pages, and streams that send what the test gives them.
#[derive(Clone, Default)]
pub struct FakeMessages(Arc<Mutex<Recorded>>);

#[derive(Default)]
struct Recorded {
    requests: Vec<ReceiveRequest>,
    acting: Vec<String>,
    streams: Vec<UnboundedSender<Item>>,
    /// Items that each stream sends first.
    begins: Vec<Item>,
    /// Items that each stream sends once the first page of conversations was read.
    meanwhile: Vec<Item>,
    /// The conversations on the first page. If empty, there is one conversation.
    listed: Vec<Conversation>,
    /// The client ids in sends that have begun.
    sent: Vec<String>,
    /// If set, sends wait in it until they are released.
    held: Option<HashMap<String, oneshot::Sender<Result<SendMessageResponse, Status>>>>,
}

impl FakeMessages {
    /// Makes a service whose streams begin with `live`.
    pub fn new() -> Self {
        let fake = Self::default();
        fake.0.lock().begins = vec![Ok(live_response("c-0"))];
        fake
    }

    /// Sets items that arrive while the conversations are read.
    pub fn meanwhile(&self, items: Vec<ReceiveResponse>) {
        self.0.lock().meanwhile = items.into_iter().map(Ok).collect();
    }

    /// Sets items that streams send first, in place of `live`.
    pub fn begin_with(&self, items: Vec<ReceiveResponse>) {
        self.0.lock().begins = items.into_iter().map(Ok).collect();
    }

    /// Lists these conversations on the first page.
    pub fn list_first(&self, conversations: Vec<Conversation>) {
        self.0.lock().listed = conversations;
    }

    /// From now on, sends wait until they are released.
    pub fn hold_sends(&self) {
        self.0.lock().held = Some(HashMap::new());
    }

    /// Ends the held send with this client id.
    pub fn release_send(&self, id: &str, result: Result<SendMessageResponse, Status>) {
        let held = self.0.lock().held.as_mut().and_then(|held| held.remove(id)).expect("a held send");
        drop(held.send(result));
    }

    /// Returns the client ids in sends that have begun so far.
    pub fn sent(&self) -> Vec<String> {
        self.0.lock().sent.clone()
    }

    /// Returns all streams' requests so far.
    pub fn requests(&self) -> Vec<ReceiveRequest> {
        self.0.lock().requests.clone()
    }

    /// Returns the acting users in these requests.
    pub fn acting(&self) -> Vec<String> {
        self.0.lock().acting.clone()
    }

    /// Sends the item on the stream that was opened last.
    pub fn say(&self, item: Item) {
        self.0.lock().streams.last().expect("a stream").send(item).unwrap();
    }

    /// Returns how many streams still have a reader.
    pub fn open(&self) -> usize {
        self.0.lock().streams.iter().filter(|stream| !stream.is_closed()).count()
    }

    fn receive(&self, request: ReceiveRequest, acting: String) -> UnboundedReceiver<Item> {
        let (sender, items) = unbounded_channel();
        let mut seen = self.0.lock();
        seen.begins.iter().for_each(|item| sender.send(item.clone()).unwrap());
        seen.requests.push(request);
        seen.acting.push(acting);
        seen.streams.push(sender);
        items
    }

    fn list(&self, request: &ListConversationsRequest) -> ListConversationsResponse {
        let one =
            |id: &str| Conversation { conversation_id: id.to_owned(), max_seq: 3, ..Default::default() };
        if !request.page_token.is_empty() {
            return ListConversationsResponse { conversations: vec![one("g9")], ..Default::default() };
        }
        let seen = self.0.lock();
        if let Some(stream) = seen.streams.last() {
            seen.meanwhile.iter().for_each(|item| drop(stream.send(item.clone())));
        }
        let next_page_token = "2".to_owned();
        let conversations = if seen.listed.is_empty() { vec![one("d7-8")] } else { seen.listed.clone() };
        ListConversationsResponse { conversations, next_page_token, left_out: 0 }
    }

    /// Answers with the acting user as the number, unless sends are held.
    async fn send(&self, request: SendMessageRequest, acting: String) -> Result<SendMessageResponse, Status> {
        let (released, release) = oneshot::channel();
        {
            let mut seen = self.0.lock();
            seen.sent.push(request.client_message_id.clone());
            match &mut seen.held {
                Some(held) => drop(held.insert(request.client_message_id, released)),
                None => {
                    let seq = acting.parse().unwrap();
                    return Ok(SendMessageResponse { seq, ..Default::default() });
                }
            }
        }
        release.await.expect("the test releases it")
    }
}

impl NamedService for FakeMessages {
    const NAME: &'static str = "kith.message.v1.MessageService";
}

impl tower::Service<http::Request<Body>> for FakeMessages {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let fake = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let framed = body.collect().await.unwrap().to_bytes();
            let user = head.extensions.get::<Call>().unwrap().user_itself();
            let acting = user.map(|user| user.to_string()).unwrap_or_default();
            let method = head.uri.path().rsplit('/').next().unwrap_or_default();
            Ok(match method {
                "Receive" => {
                    let request = ReceiveRequest::decode(&framed[5..]).unwrap();
                    streamed(fake.receive(request, acting))
                }
                "ListConversations" => {
                    let (sender, items) = unbounded_channel();
                    let request = ListConversationsRequest::decode(&framed[5..]).unwrap();
                    sender.send(Ok(fake.list(&request))).unwrap();
                    streamed(items)
                }
                "SendMessage" => {
                    let (sender, items) = unbounded_channel();
                    let request = SendMessageRequest::decode(&framed[5..]).unwrap();
                    sender.send(fake.send(request, acting).await).unwrap();
                    streamed(items)
                }
                _ => Status::unimplemented("a fake").into_http(),
            })
        })
    }
}

/// Frames messages like gRPC, with the status at the end.
fn streamed<M: prost::Message + 'static>(
    items: UnboundedReceiver<Result<M, Status>>,
) -> http::Response<Body> {
    let frames = UnboundedReceiverStream::new(items).map(|item| match item {
        Ok(message) => Frame::data(framed(&message)),
        Err(status) => Frame::trailers(trailers(&status)),
    });
    let ok = futures::stream::once(async { Frame::trailers(trailers(&Status::ok(""))) });
    let body = Body::new(StreamBody::new(frames.chain(ok).map(Ok::<_, Status>)));
    http::Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}

fn framed(message: &impl prost::Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len().try_into().unwrap());
    message.encode(&mut bytes).unwrap();
    bytes.freeze()
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers).unwrap();
    trailers
}

pub fn response(what: What, cursor: &str) -> ReceiveResponse {
    ReceiveResponse { deliveries: vec![Delivery { what: Some(what) }], cursor: cursor.to_owned() }
}

pub fn message(conversation: &str, seq: i64, cursor: &str) -> ReceiveResponse {
    let message =
        Message { conversation_id: conversation.to_owned(), seq, sender_id: 8, ..Default::default() };
    response(What::Message(message), cursor)
}

pub fn reset() -> ReceiveResponse {
    response(What::Reset(Reset {}), "")
}

pub fn live_response(cursor: &str) -> ReceiveResponse {
    response(What::Live(Live::default()), cursor)
}
