//! Places at which a script holds a call, so that something else comes between.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A call of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Call {
    Read,
    Heads,
    Acquire,
    Fill,
    Release,
    Change,
    Replay,
    Subscribe,
    Confirm,
    Probe,
    Registry,
    Load,
    Commit,
    Epoch,
    Feed,
}

/// Before the call is done, or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    There,
    Back,
}

/// One waiting place.
#[derive(Debug)]
struct Place {
    at: (Call, Way),
    reached: oneshot::Sender<()>,
    opened: oneshot::Receiver<()>,
}

/// The waiting places of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds(Arc<Mutex<Vec<Place>>>);

/// A present or future waiter.
#[derive(Debug)]
pub(crate) struct Held {
    reached: Option<oneshot::Receiver<()>>,
    open: oneshot::Sender<()>,
}

impl Holds {
    /// The next such call waits there until it is let go.
    pub(crate) fn hold(&self, call: Call, way: Way) -> Held {
        let ((reached, is_reached), (open, opened)) = (oneshot::channel(), oneshot::channel());
        self.0.lock().push(Place { at: (call, way), reached, opened });
        Held { reached: Some(is_reached), open }
    }

    pub(crate) async fn pass(&self, call: Call, way: Way) {
        let place = {
            let mut places = self.0.lock();
            let at = places.iter().position(|place| place.at == (call, way));
            at.map(|at| places.remove(at))
        };
        if let Some(place) = place {
            place.reached.send(()).ok();
            place.opened.await.ok();
        }
    }
}

impl Held {
    /// Returns once a call waits here.
    pub(crate) async fn reached(&mut self) {
        if let Some(reached) = self.reached.take() {
            tokio::time::timeout(std::time::Duration::from_secs(60), reached).await.unwrap().unwrap();
        }
    }

    pub(crate) fn go_on(self) {
        self.open.send(()).ok();
    }
}
