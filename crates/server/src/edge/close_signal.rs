//! The end of streams before their time.

use std::{fmt, future::Future as _, pin::Pin, task::Context};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;

/// Ends every stream of a call once its token is cancelled, also one that is sending.
#[derive(Clone)]
pub(super) struct CloseSignal {
    token: CancellationToken,
    status: fn() -> Status,
}

impl CloseSignal {
    /// `status` is what the stream ends with.
    pub(super) const fn new(token: CancellationToken, status: fn() -> Status) -> Self {
        Self { token, status }
    }

    /// What the stream ends with, if it is to end now.
    pub(super) fn given(&self) -> Option<Status> {
        self.token.is_cancelled().then(self.status)
    }
}

impl fmt::Debug for CloseSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloseSignal").field("given", &self.token.is_cancelled()).finish_non_exhaustive()
    }
}

/// A signal that a stream looks at before each frame, and waits for while it has none.
pub(super) struct Heard {
    signal: CloseSignal,
    /// Made when the stream has nothing to send for the first time.
    wait: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Heard {
    pub(super) const fn new(signal: CloseSignal) -> Self {
        Self { signal, wait: None }
    }

    pub(super) fn given(&self) -> Option<Status> {
        self.signal.given()
    }

    /// As [`Self::given`]; the task is woken when the signal is given later.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Status> {
        let token = &self.signal.token;
        let wait = self.wait.get_or_insert_with(|| Box::pin(token.clone().cancelled_owned()));
        wait.as_mut().poll(cx).is_ready().then(self.signal.status)
    }
}
