//! The unread rest of a refused request's body.

use std::{fmt, future::poll_fn, mem, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::timeout};

use crate::edge::RequestBody;

/// How much of a refused body is read, and for how long. A caller over HTTP/1.1 that still sends would
/// otherwise get a reset before it reads the reason.
pub(super) const DRAIN_BYTES: usize = 16 << 20;
/// The limit for a caller that may not call at all: enough for most calls, and little work for the node.
pub(super) const DRAIN_UNAUTH_BYTES: usize = 64 << 10;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Holds a body that is not read to its end until it is decided how much is drained: the call may be refused,
/// and its body dropped, before that. Clones share one place.
pub(super) struct UnreadBody<B>(Arc<Mutex<DrainDecision<B>>>);

enum DrainDecision<B> {
    /// It is not decided yet how much is drained.
    Undecided(Option<B>),
    /// This many bytes are drained when the body is left from now on.
    Decided(usize),
}

impl<B> Clone for UnreadBody<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> Default for UnreadBody<B> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(DrainDecision::Undecided(None))))
    }
}

impl<B: RequestBody> UnreadBody<B> {
    /// Leaves a body. It is drained in the background after the amount is decided.
    pub(super) fn leave(&self, body: B) {
        let mut decision = self.0.lock();
        match &mut *decision {
            DrainDecision::Undecided(held) => *held = Some(body),
            DrainDecision::Decided(most) => spawn(body, *most),
        }
    }

    /// Drains at most this many bytes from the body that was left, or will be.
    pub(super) fn drain(&self, most: usize) {
        let before = mem::replace(&mut *self.0.lock(), DrainDecision::Decided(most));
        if let DrainDecision::Undecided(Some(body)) = before {
            spawn(body, most);
        }
    }
}

impl<B> fmt::Debug for UnreadBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnreadBody").finish_non_exhaustive()
    }
}

fn spawn<B: RequestBody>(body: B, most: usize) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(drain(body, most));
    }
}

async fn drain<B: RequestBody>(mut body: B, mut left: usize) {
    let read = async {
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(remaining) = left.checked_sub(bytes) else { return };
            left = remaining;
        }
    };
    // Either way the body is dropped, which ends it.
    drop(timeout(DRAIN_TIME, read).await);
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::task::yield_now;

    use super::*;

    const FRAME: usize = 16 << 10;

    /// The frames that are read from a body without an end that is left before, or after, the amount is
    /// decided.
    async fn read_of(most: usize, known_before: bool) -> usize {
        let (read, unread) = (Arc::new(AtomicUsize::new(0)), UnreadBody::default());
        let counted = Arc::clone(&read);
        let body = StreamBody::new(stream::repeat_with(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b' '; FRAME])))
        }));
        if known_before {
            unread.drain(most);
            unread.leave(body);
        } else {
            unread.leave(body);
            yield_now().await;
            assert_eq!(read.load(Ordering::Relaxed), 0, "nothing is known yet");
            unread.drain(most);
        }
        while Arc::strong_count(&read) > 1 {
            yield_now().await;
        }
        read.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn bodies_of_refused_callers_are_barely_read() {
        for known_before in [false, true] {
            assert_eq!(read_of(DRAIN_UNAUTH_BYTES, known_before).await, DRAIN_UNAUTH_BYTES / FRAME + 1);
            assert_eq!(read_of(DRAIN_BYTES, known_before).await, DRAIN_BYTES / FRAME + 1);
        }
    }
}
