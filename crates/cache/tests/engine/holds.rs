//! Points at which a script holds a call, so that something else happens in between.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::gate::{Gate, Gates};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Request,
    Response,
}

/// The gates of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds(Arc<Mutex<GatesOfCalls>>);

type GatesOfCalls = HashMap<(Call, Direction), Arc<Gates>>;

impl Holds {
    /// The next such call waits there until the gate is opened.
    pub(crate) fn hold(&self, call: Call, direction: Direction) -> Gate {
        self.gates(call, direction).close()
    }

    /// Like `hold`, but returns when a call waits there.
    pub(crate) async fn held(&self, call: Call, direction: Direction) -> Gate {
        let mut gate = self.hold(call, direction);
        gate.entered().await;
        gate
    }

    pub(crate) async fn pass(&self, call: Call, direction: Direction) {
        self.gates(call, direction).pass().await;
    }

    fn gates(&self, call: Call, direction: Direction) -> Arc<Gates> {
        Arc::clone(self.0.lock().entry((call, direction)).or_default())
    }
}
