//! One socket: frames in, calls, the feed's output, pings, and its end.

use std::{future::pending, pin::Pin, sync::Arc, time::Duration};

use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use kith_service::message::{ConnectionRequest, ReceiverLiveness};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{
        mpsc::{self, Receiver},
        watch,
    },
    task::{JoinError, JoinSet},
    time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep_until, timeout, timeout_at},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{Role, WebSocketConfig},
    },
};
use tokio_util::{sync::WaitForCancellationFuture, task::AbortOnDropHandle};
use tonic::Status;

use super::{
    SocketsShared,
    calls::sends_to,
    close::{Close, SocketEnd},
    closing,
    feed::{Feed, FeedOutput},
    frame::{self, CallId, IncomingFrame},
    hello::{ClaimedUser, Hello},
    presence::{PresenceCall, PresenceWatch, is_watch},
    renewal::{self, ProvenUser},
    session::SocketSession,
    turns::{SendTurn, SendTurns},
};
use crate::{auth::user::User, places::HeldPlace};

/// Most bytes in a frame, and in a message with several frames.
pub(super) const FRAME_MAX: usize = 256 << 10;
/// How long a socket may take to say who is there.
const HELLO: Duration = Duration::from_secs(5);
/// How long one frame may wait for a peer that does not read.
const UNREAD: Duration = Duration::from_secs(10);
/// Each socket's read buffer: there may be many sockets, and most are silent.
const BUFFER: usize = 1 << 10;

/// An open socket. It has one task, and each call has its own.
pub(super) struct Socket<'a, S> {
    stream: WebSocketStream<S>,
    shared: &'a SocketsShared,
    /// The user who acts, from the first hello on. The feed sees renewals.
    user: Option<watch::Sender<ProvenUser>>,
    /// Counts it among those that wait for their first hello.
    waiting_permit: Option<HeldPlace>,
    /// Set from a hello until its reset.
    feed: Option<FeedTask>,
    /// Whether the peer answers, for the current hello's stream.
    liveness: Arc<ReceiverLiveness>,
    presence: Option<PresenceWatch>,
    /// Each returns its answer. A send's turn ends when its answer is written: answers keep the order of
    /// their sends.
    calls: JoinSet<(String, Option<SendTurn>)>,
    /// What calls continue, from a hello with a session on.
    session: Option<Arc<SocketSession>>,
    turns: SendTurns,
    pings: Interval,
    /// When the last frame came.
    last_received: Instant,
    /// The time by which a hello has to come, while a hello is due.
    hello_until: Option<Instant>,
    /// Fires when the peer is late, or before: it is not moved for each frame.
    late: Pin<Box<Sleep>>,
    /// The node stops.
    stopping: Pin<Box<WaitForCancellationFuture<'a>>>,
    /// Whether it is known how it ended.
    has_ended: bool,
}

/// A socket that is cut off, as when the peer does not answer while the node stops, has lost its peer.
impl<S> Drop for Socket<'_, S> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.liveness.lost();
        }
    }
}

/// The current hello's feed. It ends when this is dropped.
struct FeedTask {
    output: Receiver<FeedOutput>,
    _task: AbortOnDropHandle<()>,
}

/// The event that happens next.
enum SocketEvent {
    Frame(Option<Result<Message, Error>>),
    Answer(Option<Result<(String, Option<SendTurn>), JoinError>>),
    Output(Option<FeedOutput>),
    Presence(Option<String>),
    Ping,
    /// The socket's stream asks for something.
    Asked(ConnectionRequest),
    Late,
    Stopping,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Socket<'a, S> {
    /// Starts on a connection on which the protocol has been agreed. `waiting_permit` is released at the
    /// first hello.
    pub(super) async fn new(io: S, shared: &'a SocketsShared, waiting_permit: HeldPlace) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(0)
            .max_message_size(Some(FRAME_MAX))
            .max_frame_size(Some(FRAME_MAX));
        let now = Instant::now();
        let mut pings = interval_at(now + shared.config.ping_every, shared.config.ping_every);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            stream: WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await,
            shared,
            user: None,
            waiting_permit: Some(waiting_permit),
            feed: None,
            liveness: Arc::default(),
            presence: None,
            calls: JoinSet::new(),
            session: None,
            turns: SendTurns::default(),
            pings,
            last_received: now,
            hello_until: Some(now + HELLO),
            late: Box::pin(sleep_until(now + HELLO)),
            stopping: Box::pin(shared.closing.cancelled()),
            has_ended: false,
        }
    }

    /// Serves it to its end. Returns how it ended.
    pub(super) async fn run(mut self) -> SocketEnd {
        let end = loop {
            let event = self.next_event().await;
            if let Err(end) = self.handle(event).await {
                break end;
            }
        };
        // Its peer has no use for what the socket still did.
        let (feed, _) = (self.feed.take(), self.presence.take());
        self.calls.shutdown().await;
        let is_answered = Box::pin(closing::end(&mut self.stream, end)).await;
        if end.is_loss() || (end != SocketEnd::Closed && !is_answered) {
            // Messages that were sent and that the peer may not have are entered for pushes.
            self.liveness.lost();
        }
        self.has_ended = true;
        drop(feed);
        end
    }

    async fn next_event(&mut self) -> SocketEvent {
        loop {
            let late_at = self.late_at();
            if late_at < self.late.deadline() || self.late.is_elapsed() {
                self.late.as_mut().reset(late_at);
            }
            if let Some(event) = self.event_or_timer().await {
                return event;
            }
        }
    }

    /// The next event. `None`: the timer for a late peer has fired before its peer is late.
    async fn event_or_timer(&mut self) -> Option<SocketEvent> {
        let (reads, late_at) = (self.calls.len() < self.shared.config.calls, self.late_at());
        let (feed, presence) = (&mut self.feed, &mut self.presence);
        let presence = async {
            let Some(presence) = presence else { return pending().await };
            presence.next().await
        };
        let output = async {
            let Some(feed) = feed else { return pending().await };
            feed.output.recv().await
        };
        Some(tokio::select! {
            () = &mut self.stopping => SocketEvent::Stopping,
            frame = self.stream.next(), if reads => SocketEvent::Frame(frame),
            answer = self.calls.join_next(), if !self.calls.is_empty() => SocketEvent::Answer(answer),
            output = output => SocketEvent::Output(output),
            frame = presence => SocketEvent::Presence(frame),
            _tick = self.pings.tick() => SocketEvent::Ping,
            asked = self.liveness.next_request() => SocketEvent::Asked(asked),
            // While frames are not read, silence proves nothing; a frame that has arrived since then counts.
            () = &mut self.late, if reads => {
                if Instant::now() < late_at {
                    return None;
                }
                match self.stream.next().now_or_never() {
                    Some(frame) => SocketEvent::Frame(frame),
                    None => SocketEvent::Late,
                }
            }
        })
    }

    fn late_at(&self) -> Instant {
        let silent_at = self.last_received + self.silence_max();
        self.hello_until.unwrap_or(silent_at).min(silent_at)
    }

    /// A peer that missed two pings, and had some time for the second.
    fn silence_max(&self) -> Duration {
        self.shared.config.ping_every.mul_f64(2.4)
    }

    async fn handle(&mut self, event: SocketEvent) -> Result<(), SocketEnd> {
        match event {
            SocketEvent::Frame(Some(frame)) => {
                self.last_received = Instant::now();
                self.liveness.answered(matches!(frame, Ok(Message::Pong(_))));
                self.read(frame?).await
            }
            SocketEvent::Frame(None) => Err(SocketEnd::Closed),
            SocketEvent::Answer(Some(Ok((text, _turn)))) => self.write(Message::text(text)).await,
            // The call panicked outside the edge, which catches handlers' panics.
            SocketEvent::Answer(Some(Err(_))) => Err(Close::Fault.into()),
            SocketEvent::Answer(None) => Ok(()),
            SocketEvent::Output(output) => self.pass_on(output).await,
            SocketEvent::Presence(Some(text)) => self.write(Message::text(text)).await,
            SocketEvent::Presence(None) => {
                self.presence = None;
                Ok(())
            }
            SocketEvent::Ping | SocketEvent::Asked(ConnectionRequest::Ping) => {
                self.liveness.pinged();
                self.write(Message::Ping(Default::default())).await
            }
            SocketEvent::Asked(ConnectionRequest::End) => Err(Close::Silent.into()),
            SocketEvent::Late if self.hello_until.is_some_and(|until| until <= Instant::now()) => {
                Err(Close::NoHello.into())
            }
            SocketEvent::Late => Err(Close::Silent.into()),
            SocketEvent::Stopping => Err(Close::Stopping.into()),
        }
    }

    async fn read(&mut self, message: Message) -> Result<(), SocketEnd> {
        match message {
            Message::Text(text) => match IncomingFrame::read(&text)? {
                // Boxed: they take the socket's memory only while they run.
                IncomingFrame::Hello(hello) => Box::pin(self.accept_hello(hello)).await,
                IncomingFrame::Renewal(renewal) => Box::pin(self.renew(renewal)).await,
                IncomingFrame::Call { id, name, body } if is_watch(&name) => self.watch_presence(id, body),
                IncomingFrame::Call { id, name, body } => {
                    let user = Arc::clone(&self.user.as_ref().ok_or(Close::NoHello)?.borrow().user);
                    let mut turn = sends_to(user.id, &name, body).map(|to| self.turns.next(to));
                    let call = (id, name.into_owned(), body.to_owned());
                    let call = self.shared.calls.clone().make(user, self.session.clone(), call);
                    self.calls.spawn(async move {
                        if let Some(turn) = &mut turn {
                            turn.begin().await;
                        }
                        (call.await, turn)
                    });
                    Ok(())
                }
            },
            Message::Binary(_) => Err(Close::Binary.into()),
            Message::Close(_) => Err(SocketEnd::Closed),
            // The library answers pings.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(()),
        }
    }

    async fn accept_hello(&mut self, text: &str) -> Result<(), SocketEnd> {
        if self.hello_until.is_none() {
            return Err(Close::Again.into());
        }
        let hello = match Hello::read(text, self.shared.config.trusted) {
            Ok(hello) => hello,
            Err(status) => return self.refuse(&status).await,
        };
        let user = match timeout_at(self.hello_by(), hello.user.authenticated(&self.shared.edge)).await {
            Ok(Ok(user)) => user,
            Ok(Err(status)) => return self.refuse(&status).await,
            Err(_elapsed) => return Err(Close::NoHello.into()),
        };
        // A later hello says where to go on, and may bring another token; not another user.
        let user = self.proven(user)?;
        if let Some(text) = &hello.session {
            match SocketSession::begin(&self.shared.edge, text) {
                Ok(session) => self.session = Some(Arc::new(session)),
                Err(status) => return self.refuse(&status).await,
            }
        }
        self.hello_until = None;
        self.waiting_permit = None;
        self.liveness = Arc::default();
        self.feed = Some(self.start_feed(user, hello));
        Ok(())
    }

    /// Goes on with another token. It begins no stream and moves no position, so it may cross a reset.
    async fn renew(&mut self, text: &str) -> Result<(), SocketEnd> {
        if self.user.is_none() {
            return Err(Close::NoHello.into());
        }
        let token = match renewal::token(text, self.shared.config.trusted) {
            Ok(token) => ClaimedUser::Token(token),
            Err(status) => return self.refuse(&status).await,
        };
        let user = match timeout(HELLO, token.authenticated(&self.shared.edge)).await {
            Ok(Ok(user)) => user,
            Ok(Err(status)) => return self.refuse(&status).await,
            Err(_elapsed) => return Err(Close::Later.into()),
        };
        let expires_in = self.proven(user)?.borrow().expires_in();
        let renewed = frame::named("renewed", &json!({"expiresIn": expires_in}));
        self.write(Message::text(renewed)).await
    }

    /// Sends these users' presence from now on, and no others'.
    fn watch_presence(&mut self, id: CallId, body: &str) -> Result<(), SocketEnd> {
        let user = self.user.as_ref().ok_or(Close::NoHello)?.subscribe();
        let (edge, trusted) = (self.shared.edge.clone(), self.shared.config.trusted);
        self.presence = Some(PresenceWatch::start(PresenceCall { edge, user, trusted, id }, body));
        Ok(())
    }

    /// Calls and the feed act for this user from now on.
    fn proven(&mut self, user: Arc<User>) -> Result<watch::Receiver<ProvenUser>, SocketEnd> {
        if self.user.as_ref().is_some_and(|before| before.borrow().user.id != user.id) {
            return Err(Close::OtherUser.into());
        }
        let proven = ProvenUser::now(user);
        let known = self.user.get_or_insert_with(|| watch::channel(proven.clone()).0);
        known.send_replace(proven);
        Ok(known.subscribe())
    }

    async fn refuse(&mut self, status: &Status) -> Result<(), SocketEnd> {
        self.write(Message::text(frame::failed(status))).await?;
        Err(Close::after(status).into())
    }

    fn hello_by(&self) -> Instant {
        self.hello_until.unwrap_or_else(Instant::now)
    }

    fn start_feed(&self, user: watch::Receiver<ProvenUser>, hello: Hello) -> FeedTask {
        let config = &self.shared.config;
        let proven = user.borrow().clone();
        let mut welcome = json!({
            "userId": proven.user.id.to_string(),
            "contract": kith_proto::CONTRACT,
            "version": env!("CARGO_PKG_VERSION"),
            "calls": config.calls,
            "frameBytes": FRAME_MAX,
            "pingEvery": format!("{}s", config.ping_every.as_secs_f64()),
        });
        if !config.trusted {
            welcome["expiresIn"] = proven.expires_in().into();
        }
        // No queue: what is not taken waits where it is.
        let (sender, output) = mpsc::channel(1);
        let feed = Feed {
            edge: self.shared.edge.clone(),
            texts: Arc::clone(&self.shared.texts),
            user,
            hello,
            session: self.session.clone(),
            liveness: Arc::clone(&self.liveness),
            output: sender,
            age_max: self.shared.age_max,
        };
        FeedTask { output, _task: AbortOnDropHandle::new(tokio::spawn(feed.run(welcome))) }
    }

    async fn pass_on(&mut self, output: Option<FeedOutput>) -> Result<(), SocketEnd> {
        match output {
            Some(FeedOutput::Frame(text)) => self.write(Message::text(text)).await,
            Some(FeedOutput::Reset(text)) => {
                self.feed = None;
                self.hello_until = Some(Instant::now() + HELLO);
                self.write(Message::text(text)).await
            }
            Some(FeedOutput::Close(text, close)) => {
                if let Some(text) = text {
                    self.write(Message::text(text)).await?;
                }
                Err(close.into())
            }
            // The feed panicked, or ended without a last output.
            None => Err(Close::Fault.into()),
        }
    }

    async fn write(&mut self, message: Message) -> Result<(), SocketEnd> {
        match timeout(UNREAD, self.stream.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(SocketEnd::Gone),
            Err(_elapsed) => Err(Close::Unread.into()),
        }
    }
}

#[cfg(test)]
mod tests;
