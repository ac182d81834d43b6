//! The unread rest of the body of a refused request.

use std::{fmt, future::poll_fn, mem, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::timeout};

use crate::edge::RequestBody;

/// How much of a refused body is read, and for how long. A caller of HTTP/1.1 that still sends would otherwise get a
/// reset before it reads the reason.
pub(super) const LET_GO_BYTES: usize = 16 << 20;
/// The same for one who may not call at all: enough for most calls, and little work for the node.
pub(super) const STRANGER_BYTES: usize = 64 << 10;
const LET_GO_TIME: Duration = Duration::from_secs(2);

/// Holds a body that is not read to its end until it is decided how much of it is drained: the call may be refused, and
/// its body dropped, before that. Clones share one place.
pub(super) struct Rest<B>(Arc<Mutex<Left<B>>>);

enum Left<B> {
    /// Not decided yet how much is drained.
    Undecided(Option<B>),
    /// This many bytes are drained, of a body that is left from now on.
    Decided(usize),
}

impl<B> Clone for Rest<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> Default for Rest<B> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Left::Undecided(None))))
    }
}

impl<B: RequestBody> Rest<B> {
    /// Leaves a body. It is drained in the background after the amount is decided.
    pub(super) fn leave(&self, body: B) {
        let mut left = self.0.lock();
        match &mut *left {
            Left::Undecided(place) => *place = Some(body),
            Left::Decided(most) => spawn(body, *most),
        }
    }

    /// Drains at most this many bytes of the body that was left, or will be.
    pub(super) fn read_away(&self, most: usize) {
        let left = mem::replace(&mut *self.0.lock(), Left::Decided(most));
        if let Left::Undecided(Some(body)) = left {
            spawn(body, most);
        }
    }
}

impl<B> fmt::Debug for Rest<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").finish_non_exhaustive()
    }
}

fn spawn<B: RequestBody>(body: B, most: usize) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(read_away(body, most));
    }
}

async fn read_away<B: RequestBody>(mut body: B, mut left: usize) {
    let read = async {
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(bytes) else { return };
            left = rest;
        }
    };
    // Either way the body is dropped, which ends it.
    drop(timeout(LET_GO_TIME, read).await);
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

    /// The frames that are read of a body without an end that is left before, or after, the amount is decided.
    async fn read_of(most: usize, known_before: bool) -> usize {
        let (read, rest) = (Arc::new(AtomicUsize::new(0)), Rest::default());
        let counted = Arc::clone(&read);
        let body = StreamBody::new(stream::repeat_with(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b' '; FRAME])))
        }));
        if known_before {
            rest.read_away(most);
            rest.leave(body);
        } else {
            rest.leave(body);
            yield_now().await;
            assert_eq!(read.load(Ordering::Relaxed), 0, "nothing is known yet");
            rest.read_away(most);
        }
        while Arc::strong_count(&read) > 1 {
            yield_now().await;
        }
        read.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn bodies_of_refused_callers_are_barely_read() {
        for known_before in [false, true] {
            assert_eq!(read_of(STRANGER_BYTES, known_before).await, STRANGER_BYTES / FRAME + 1);
            assert_eq!(read_of(LET_GO_BYTES, known_before).await, LET_GO_BYTES / FRAME + 1);
        }
    }
}
