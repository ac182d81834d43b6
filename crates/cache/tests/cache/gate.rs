//! Gates at which a test holds calls, so that something else comes between.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::oneshot, time::timeout};

/// The gates of one place, each for one call.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<VecDeque<(oneshot::Sender<()>, oneshot::Receiver<()>)>>);

/// Holds one call until it is opened or dropped.
#[derive(Debug)]
pub(crate) struct Gate {
    entered: Option<oneshot::Receiver<()>>,
    open: oneshot::Sender<()>,
}

impl Gates {
    /// Holds the next call that no other gate holds.
    pub(crate) fn close(&self) -> Gate {
        let ((entered, has_entered), (open, opened)) = (oneshot::channel(), oneshot::channel());
        self.0.lock().push_back((entered, opened));
        Gate { entered: Some(has_entered), open }
    }

    /// A call passes: it waits at its gate, if there is a gate.
    pub(crate) async fn pass(&self) {
        let gate = self.0.lock().pop_front();
        if let Some((entered, opened)) = gate {
            entered.send(()).ok();
            opened.await.ok();
        }
    }
}

impl Gate {
    /// Waits until a call is held; fails if none comes.
    pub(crate) async fn entered(&mut self) {
        if let Some(entered) = self.entered.take() {
            timeout(Duration::from_secs(10), entered).await.expect("a call comes to the gate").unwrap();
        }
    }

    /// Returns whether the call still waits, or is still to come.
    pub(crate) fn open(self) -> bool {
        self.open.send(()).is_ok()
    }
}
