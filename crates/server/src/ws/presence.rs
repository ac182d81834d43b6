//! `WatchPresence` on a socket: a call with continuing answers. A socket has at most one watch; a new watch
//! replaces it.

use std::time::Duration;

use kith_proto::presence::v1::{
    WatchPresenceRequest, WatchPresenceResponse, presence_service_client::PresenceServiceClient,
};
use kith_service::{
    error::{Error, Reason},
    rpc::answer_size::MESSAGE_BYTES_MAX,
};
use tokio::{
    sync::{
        mpsc::{self, Receiver, Sender},
        watch,
    },
    time::sleep,
};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Code, Status};

use super::{
    frame::{self, CallId},
    renewal::ProvenUser,
};
use crate::{edge::Edge, json};

/// The call's names.
const NAMES: [&str; 2] = ["WatchPresence", "PresenceService.WatchPresence"];
/// Pause before a stream that ended is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// A socket's watch. It ends when this is dropped.
pub(super) struct PresenceWatch {
    frames: Receiver<String>,
    _task: AbortOnDropHandle<()>,
}

/// Everything that a watch's task needs.
pub(super) struct PresenceCall {
    pub(super) edge: Edge,
    /// Changed by renewals.
    pub(super) user: watch::Receiver<ProvenUser>,
    /// Whether users need no token.
    pub(super) trusted: bool,
    /// Under which every answer is sent.
    pub(super) id: CallId,
}

/// How a stream ended.
struct WatchEnded {
    /// Whether it had answered.
    begun: bool,
    status: Status,
}

/// Whether this is the call's name.
pub(super) fn is_watch(name: &str) -> bool {
    NAMES.contains(&name)
}

impl PresenceWatch {
    pub(super) fn start(call: PresenceCall, body: &str) -> Self {
        // No queue: what is not taken waits where it is.
        let (sender, frames) = mpsc::channel(1);
        let request = json::body("kith.presence.v1.WatchPresenceRequest", body);
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let failed = match request {
                Ok(request) => call.run(&request, &sender).await,
                Err(status) => *status,
            };
            // A socket that is gone needs no reason.
            drop(sender.send(frame::call_failed(call.id, &json::failure_text(&failed))).await);
        }));
        Self { frames, _task: task }
    }

    /// The next frame; `None`: the watch has sent why it ended.
    pub(super) async fn next(&mut self) -> Option<String> {
        self.frames.recv().await
    }
}

impl PresenceCall {
    /// Sends the answers from one stream after the other. Each begins with all users' present state, so
    /// nothing is missed. Returns why it cannot go on.
    async fn run(&self, request: &WatchPresenceRequest, frames: &Sender<String>) -> Status {
        loop {
            let proved = self.user.borrow().at;
            let WatchEnded { begun, status } = self.stream(request.clone(), frames).await;
            let is_renewed = self.trusted || self.user.borrow().at > proved;
            let goes_on = match status.code() {
                Code::Unavailable | Code::ResourceExhausted => true,
                Code::DeadlineExceeded | Code::Unauthenticated => is_renewed,
                _ => false,
            };
            if !(begun && goes_on) || frames.is_closed() {
                return status;
            }
            sleep(PAUSE.mul_f64(rand::random_range(1.0..2.0))).await;
        }
    }

    async fn stream(&self, request: WatchPresenceRequest, frames: &Sender<String>) -> WatchEnded {
        let mut client =
            PresenceServiceClient::new(self.edge.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let request = self.user.borrow().request(request);
        let mut answers = match client.watch_presence(request).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return WatchEnded { begun: false, status },
        };
        let mut begun = false;
        loop {
            match answers.message().await {
                Ok(Some(answer)) => {
                    begun = true;
                    if frames.send(self.answer(&answer)).await.is_err() {
                        return WatchEnded { begun, status: ended() };
                    }
                }
                Ok(None) => return WatchEnded { begun, status: ended() },
                Err(status) => return WatchEnded { begun, status },
            }
        }
    }

    fn answer(&self, answer: &WatchPresenceResponse) -> String {
        let value = json::value("kith.presence.v1.WatchPresenceResponse", answer).unwrap_or_default();
        frame::answer(self.id, &value.to_string())
    }
}

/// The error for a stream that ended without an error.
fn ended() -> Status {
    Error::new(Reason::Stopping, "the stream of presence ended").into()
}
