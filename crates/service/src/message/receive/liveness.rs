//! Whether the client of a receiver still answers, and what it was sent that it may not have.
//!
//! Connected is not received: a client that has lost its network is noticed up to a minute later. Until then its user
//! counts as one with a receiver, and no push names it. So a connection says here when it sends a ping and when an
//! answer comes. A pong confirms what was sent before the ping *before* the one that it answers: what a receiver
//! returns reaches the wire some moments later. When the connection is lost, the rest is entered for pushes
//! (`lost.rs`).

use std::{collections::BTreeMap, mem};

use kith_store::{ConversationId, SeqRange};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Duration, Instant},
};

/// Most conversations of which a receiver remembers unconfirmed messages.
const CONVERSATIONS_MAX: usize = 2_000;

/// For each conversation, the messages that a client may not have.
pub(super) type UnconfirmedRanges = BTreeMap<ConversationId, SeqRange>;

/// What a connection and its receiver know of each other. The connection puts it into the request of its stream.
#[derive(Debug, Default)]
pub struct ReceiverLiveness {
    state: Mutex<LivenessState>,
    changed: Notify,
}

/// What a receiver asks of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRequest {
    /// A ping, now: another receiver wants the place of one that does not answer.
    Ping,
    /// The end: another receiver has the place.
    End,
}

#[derive(Debug, Default)]
struct LivenessState {
    /// When the first ping was sent since the last frame of the client.
    silent_since: Option<Instant>,
    /// Whether a ping has no pong yet.
    is_pinged: bool,
    is_lost: bool,
    request: Option<ConnectionRequest>,
    /// Messages since the last ping, between the last two pings, and before these.
    recent: UnconfirmedRanges,
    pinged: UnconfirmedRanges,
    older: UnconfirmedRanges,
}

impl ReceiverLiveness {
    /// A ping is sent.
    pub fn pinged(&self) {
        let mut state = self.state.lock();
        state.silent_since.get_or_insert_with(Instant::now);
        if !mem::replace(&mut state.is_pinged, true) {
            let LivenessState { recent, pinged, older, .. } = &mut *state;
            add_all(older, mem::replace(pinged, mem::take(recent)));
        }
    }

    /// A frame came; `is_pong`: it answers a ping.
    pub fn answered(&self, is_pong: bool) {
        let mut state = self.state.lock();
        state.silent_since = None;
        if is_pong {
            state.is_pinged = false;
            state.older.clear();
        }
    }

    /// The connection ended, and the client did not close it.
    pub fn lost(&self) {
        self.state.lock().is_lost = true;
    }

    /// Waits until the receiver asks for something.
    pub async fn next_request(&self) -> ConnectionRequest {
        loop {
            if let Some(request) = self.state.lock().request.take() {
                return request;
            }
            self.changed.notified().await;
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state.lock().is_lost
    }

    /// For how long the client has not answered a ping.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        self.state.lock().silent_since.map(|since| since.elapsed())
    }

    pub(super) fn request_ping(&self) {
        self.state.lock().request.get_or_insert(ConnectionRequest::Ping);
        self.changed.notify_one();
    }

    /// Another receiver takes the place of this one, whose client does not answer.
    pub(super) fn give_way(&self) {
        let mut state = self.state.lock();
        (state.is_lost, state.request) = (true, Some(ConnectionRequest::End));
        drop(state);
        self.changed.notify_one();
    }

    /// The client was sent these messages, or that they exist.
    pub(super) fn sent(&self, conversation: ConversationId, seqs: SeqRange) {
        add(&mut self.state.lock().recent, conversation, seqs);
    }

    /// The client is to get also what another one of the user was sent.
    pub(super) fn take_over(&self, unconfirmed: UnconfirmedRanges) {
        add_all(&mut self.state.lock().recent, unconfirmed);
    }

    /// All messages that no pong confirms.
    pub(super) fn take_unconfirmed(&self) -> UnconfirmedRanges {
        let mut state = self.state.lock();
        let LivenessState { recent, pinged, older, .. } = &mut *state;
        let mut all = mem::take(older);
        add_all(&mut all, mem::take(pinged));
        add_all(&mut all, mem::take(recent));
        all
    }
}

fn add_all(ranges: &mut UnconfirmedRanges, others: UnconfirmedRanges) {
    if ranges.is_empty() {
        *ranges = others;
        return;
    }
    others.into_iter().for_each(|(conversation, seqs)| add(ranges, conversation, seqs));
}

/// Adds messages: of each conversation one range is kept, which has all of them.
pub(super) fn add(ranges: &mut UnconfirmedRanges, conversation: ConversationId, seqs: SeqRange) {
    if let Some(known) = ranges.get_mut(&conversation) {
        *known = SeqRange { first: seqs.first.min(known.first), last: seqs.last.max(known.last) };
    } else if ranges.len() < CONVERSATIONS_MAX {
        ranges.insert(conversation, seqs);
    } else {
        tracing::warn!(
            "pushes may lack messages: a client was sent too many conversations since it answered"
        );
    }
}

#[cfg(test)]
mod tests {
    use kith_store::Seq;

    use super::{super::super::sample::group, *};

    const fn range(first: Seq, last: Seq) -> SeqRange {
        SeqRange { first, last }
    }

    fn sent(liveness: &ReceiverLiveness, seq: Seq) {
        liveness.sent(group(9), range(seq, seq));
    }

    fn unconfirmed(liveness: &ReceiverLiveness) -> Vec<(Seq, Seq)> {
        liveness.take_unconfirmed().into_values().map(|seqs| (seqs.first, seqs.last)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn pong_confirms_what_precedes_previous_ping() {
        let liveness = ReceiverLiveness::default();
        for seq in 1..=3 {
            sent(&liveness, seq);
            liveness.pinged();
            liveness.answered(true);
        }
        sent(&liveness, 4);
        assert_eq!(unconfirmed(&liveness), [(3, 4)]);
        assert!(unconfirmed(&liveness).is_empty(), "they were taken");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_confirmed_without_a_pong() {
        let liveness = ReceiverLiveness::default();
        for seq in 1..=5 {
            sent(&liveness, seq);
            liveness.pinged();
            liveness.answered(false);
        }
        assert_eq!(unconfirmed(&liveness), [(1, 5)]);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_first_unanswered_ping() {
        let liveness = ReceiverLiveness::default();
        assert_eq!(liveness.silent_for(), None, "no ping was sent");
        liveness.pinged();
        tokio::time::advance(Duration::from_secs(7)).await;
        liveness.pinged();
        assert_eq!(liveness.silent_for(), Some(Duration::from_secs(7)));
        liveness.answered(false);
        assert_eq!(liveness.silent_for(), None);
    }

    #[tokio::test]
    async fn connection_learns_what_is_asked() {
        let liveness = ReceiverLiveness::default();
        liveness.request_ping();
        assert_eq!(liveness.next_request().await, ConnectionRequest::Ping);
        liveness.request_ping();
        liveness.give_way();
        assert_eq!(liveness.next_request().await, ConnectionRequest::End);
        assert!(liveness.is_lost());
    }
}
