//! Whether a receiver's client still answers, and which messages it was sent but may not have.
//!
//! Connected is not received: a client that has lost its network is noticed up to a minute later. Until then
//! its user counts as a user with a receiver, and no push names it. When the connection is lost, what no sign
//! of life confirms is entered for pushes (`lost.rs`); when the node is lost, another node does that from the
//! inbox position that was confirmed last (`deliver/abandoned.rs`).
//!
//! **Sockets** say here when they send a ping and when an answer comes. A pong confirms what was sent before
//! the ping *before* the ping that it answers: what a receiver returns reaches the wire some moments later.
//!
//! **HTTP/2 connections** say when bytes come (`connection_signs.rs`). They confirm what was sent so long
//! before that a peer that does not answer would have been noticed.
//!
//! **Other connections** say nothing: their clients have what they were sent.

use std::{fmt, mem, sync::Arc};

use kith_delivery::{Generation, Position};
use kith_store::{ConversationId, SeqRange};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Duration, Instant},
};

use super::{super::deliver::UnconfirmedRanges, ConnectionSigns};

/// The state that a connection shares with its receiver. A socket puts it into its stream's request.
#[derive(Debug, Default)]
pub struct ReceiverLiveness {
    signs: LifeSigns,
    state: Mutex<LivenessState>,
    changed: Notify,
}

/// How a connection shows that its client is there.
#[derive(Debug, Default)]
enum LifeSigns {
    /// It says when it sends pings, and when answers come.
    #[default]
    Pings,
    Connection(Arc<ConnectionSigns>),
    None,
}

/// Enters a receiver's messages when it has ended, with those that no sign of life confirms.
pub(super) struct OnLoss(Box<dyn FnOnce(UnconfirmedRanges) + Send>);

impl OnLoss {
    pub(super) fn new(enter: impl FnOnce(UnconfirmedRanges) + Send + 'static) -> Self {
        Self(Box::new(enter))
    }
}

impl fmt::Debug for OnLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnLoss")
    }
}

/// A receiver's request to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRequest {
    /// A ping, now: another receiver wants the place of a receiver that does not answer.
    Ping,
    /// The end: another receiver has the place.
    End,
}

#[derive(Debug, Default)]
struct LivenessState {
    /// When the first ping was sent since the client's last frame.
    silent_since: Option<Instant>,
    /// Whether a ping has no pong yet.
    is_pinged: bool,
    is_lost: bool,
    /// The number of the receiver that began last.
    receiver: Option<u64>,
    /// Left by a receiver that has ended before its connection: only the connection's end shows whether its
    /// client was lost.
    on_loss: Option<OnLoss>,
    request: Option<ConnectionRequest>,
    /// Messages since the last ping, between the last two pings, and before these. Without pings: since a
    /// moment, and before it.
    recent: UnconfirmedRanges,
    pinged: UnconfirmedRanges,
    older: UnconfirmedRanges,
    positions: InboxPositions,
    /// Without pings: when `recent` began.
    recent_since: Option<Instant>,
}

/// Inbox positions up to which all entries were sent.
#[derive(Debug, Default)]
struct InboxPositions {
    /// `None`: the stream has not begun.
    generation: Option<Generation>,
    sent: Position,
    /// At the last ping, and at the ping before. Without pings: when `recent` began.
    pinged: Position,
    older: Position,
    confirmed: Position,
}

impl ReceiverLiveness {
    /// Creates it for a stream over a connection that reports when bytes come.
    pub(super) fn of_connection(signs: Arc<ConnectionSigns>) -> Self {
        Self { signs: LifeSigns::Connection(signs), ..Self::default() }
    }

    /// Creates it for a stream over a connection that reports nothing.
    pub(super) fn without_signs() -> Self {
        Self { signs: LifeSigns::None, ..Self::default() }
    }

    /// A ping is sent.
    pub fn pinged(&self) {
        let mut state = self.state.lock();
        state.silent_since.get_or_insert_with(Instant::now);
        if !mem::replace(&mut state.is_pinged, true) {
            let LivenessState { recent, pinged, older, positions, .. } = &mut *state;
            older.add_all(mem::replace(pinged, mem::take(recent)));
            (positions.older, positions.pinged) = (positions.pinged, positions.sent);
        }
    }

    /// A frame came; `is_pong`: it answers a ping.
    pub fn answered(&self, is_pong: bool) {
        let mut state = self.state.lock();
        state.silent_since = None;
        if is_pong {
            state.is_pinged = false;
            state.confirm_older();
        }
    }

    /// The connection ended, and the client did not close it.
    pub fn lost(&self) {
        let mut state = self.state.lock();
        state.is_lost = true;
        let ended = state.on_loss.take();
        drop(state);
        if let Some(OnLoss(enter)) = ended {
            enter(self.take_unconfirmed());
        }
    }

    /// The receiver has ended. If its client was lost, its messages are entered now, and the result is true.
    /// A socket that goes on may say later that its peer was lost; then they are entered.
    pub(super) fn end(&self, receiver: u64, on_loss: OnLoss) -> bool {
        let mut state = self.state.lock();
        let is_lost = self.signs.say_lost(&state);
        if state.receiver != Some(receiver) {
            // A later receiver has what it had not confirmed.
            return is_lost;
        }
        if is_lost {
            drop(state);
            (on_loss.0)(self.take_unconfirmed());
        } else if matches!(self.signs, LifeSigns::Pings) {
            state.on_loss = Some(on_loss);
        }
        is_lost
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

    #[cfg(test)]
    pub(super) fn is_lost(&self) -> bool {
        self.signs.say_lost(&self.state.lock())
    }

    /// Whether the connection shows that its client is there.
    pub(super) const fn has_signs(&self) -> bool {
        !matches!(self.signs, LifeSigns::None)
    }

    /// Returns how long the client has not answered a ping.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        self.state.lock().silent_since.map(|since| since.elapsed())
    }

    pub(super) fn request_ping(&self) {
        self.state.lock().request.get_or_insert(ConnectionRequest::Ping);
        self.changed.notify_one();
    }

    /// Another receiver takes the place of this receiver, whose client does not answer.
    pub(super) fn give_way(&self) {
        let mut state = self.state.lock();
        (state.is_lost, state.request) = (true, Some(ConnectionRequest::End));
        drop(state);
        self.changed.notify_one();
    }

    /// The stream begins in this inbox generation. It does not confirm entries up to this position, unless an
    /// earlier stream on the same connection has sent them.
    pub(super) fn begin(&self, receiver: u64, generation: Generation, position: Position) {
        let mut state = self.state.lock();
        state.receiver = Some(receiver);
        if state.positions.generation != Some(generation) {
            let generation = Some(generation);
            let (sent, pinged, older, confirmed) = (position, position, position, position);
            state.positions = InboxPositions { generation, sent, pinged, older, confirmed };
        }
        // The new stream takes over what an earlier stream on the connection had not confirmed.
        let earlier = state.on_loss.take();
        drop(state);
        drop(earlier);
    }

    /// The client was sent these messages, or that they exist.
    pub(super) fn sent(&self, conversation: ConversationId, seqs: SeqRange) {
        if self.has_signs() {
            self.present().recent.add(conversation, seqs);
        }
    }

    /// The client was sent all inbox entries up to this one.
    pub(super) fn sent_up_to(&self, position: Position) {
        let mut state = self.present();
        state.positions.sent = position.max(state.positions.sent);
    }

    /// The inbox entry up to which the client is known to have all; `None`: the stream has not begun, or has
    /// another generation.
    pub(super) fn confirmed(&self, generation: Generation) -> Option<Position> {
        let state = self.present();
        let positions =
            Some(&state.positions).filter(|positions| positions.generation == Some(generation))?;
        Some(if self.has_signs() { positions.confirmed } else { positions.sent })
    }

    /// The client is to get also the messages that another receiver of the user was sent.
    pub(super) fn take_over(&self, unconfirmed: UnconfirmedRanges) {
        self.present().recent.add_all(unconfirmed);
    }

    /// Returns all messages that no sign of life confirms.
    pub(super) fn take_unconfirmed(&self) -> UnconfirmedRanges {
        let mut state = self.present();
        let LivenessState { recent, pinged, older, .. } = &mut *state;
        let mut all = mem::take(older);
        all.add_all(mem::take(pinged));
        all.add_all(mem::take(recent));
        all
    }

    /// The state, with what the connection has heard by now.
    fn present(&self) -> MutexGuard<'_, LivenessState> {
        let mut state = self.state.lock();
        if let LifeSigns::Connection(signs) = &self.signs {
            state.hear(signs);
        }
        state
    }
}

impl LifeSigns {
    /// Whether its client was lost when a stream ends.
    fn say_lost(&self, state: &LivenessState) -> bool {
        match self {
            Self::Connection(signs) => signs.is_lost(),
            Self::Pings | Self::None => state.is_lost,
        }
    }
}

impl LivenessState {
    fn confirm_older(&mut self) {
        self.older.clear();
        self.positions.confirmed = self.positions.older;
    }

    /// Confirms what was sent before `recent_since` if the connection has heard something long enough after
    /// it.
    fn hear(&mut self, signs: &ConnectionSigns) {
        let now = Instant::now();
        let since = *self.recent_since.get_or_insert(now);
        if signs.confirms(since) {
            self.confirm_older();
            self.older = mem::take(&mut self.recent);
            self.positions.older = self.positions.sent;
            self.recent_since = Some(now);
        }
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
        liveness.take_unconfirmed().iter().map(|(_, seqs)| (seqs.first, seqs.last)).collect()
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

    #[test]
    fn loss_after_the_end_of_its_stream_is_entered() {
        let liveness = ReceiverLiveness::default();
        let entered = Arc::<Mutex<Vec<_>>>::default();
        let end = |receiver| {
            let entered = Arc::clone(&entered);
            let enter = move |ranges: UnconfirmedRanges| {
                entered.lock().extend(ranges.iter().map(|(_, seqs)| seqs.last));
            };
            assert!(!liveness.end(receiver, OnLoss::new(enter)));
        };
        liveness.begin(1, GENERATION, 4);
        sent(&liveness, 1);
        end(1);
        liveness.begin(2, GENERATION, 4);
        liveness.begin(3, GENERATION, 5);
        sent(&liveness, 2);
        end(2);
        end(3);
        assert_eq!(*entered.lock(), [0; 0]);
        liveness.lost();
        liveness.lost();
        assert_eq!(*entered.lock(), [2], "once, by the last one");
    }

    const GENERATION: Generation = Generation { epoch: 5, number: 77 };

    #[tokio::test(start_paused = true)]
    async fn pong_confirms_a_position_of_the_inbox() {
        let liveness = ReceiverLiveness::default();
        assert_eq!(liveness.confirmed(GENERATION), None, "the stream has not begun");
        liveness.begin(1, GENERATION, 4);
        let mut confirmed = Vec::new();
        for position in 5..=8 {
            liveness.sent_up_to(position);
            liveness.pinged();
            liveness.answered(position != 7);
            confirmed.extend(liveness.confirmed(GENERATION));
        }
        assert_eq!(confirmed, [4, 5, 5, 6], "the third ping had no pong, and the fourth is the same one");
        assert_eq!(liveness.confirmed(Generation { number: 78, ..GENERATION }), None);
        liveness.begin(1, GENERATION, 9);
        assert_eq!(liveness.confirmed(GENERATION), Some(6), "the same client goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_confirm_what_was_sent_long_before() {
        let signs = Arc::new(ConnectionSigns::new(Duration::from_secs(30), Duration::from_secs(10)));
        let liveness = ReceiverLiveness::of_connection(Arc::clone(&signs));
        liveness.begin(1, GENERATION, 4);
        let mut confirmed = Vec::new();
        for seq in 5..=9 {
            sent(&liveness, seq);
            liveness.sent_up_to(seq.unsigned_abs());
            tokio::time::advance(Duration::from_secs(40)).await;
            signs.heard();
            confirmed.extend(liveness.confirmed(GENERATION));
        }
        assert_eq!(confirmed, [4, 5, 6, 7, 8]);
        assert!(!liveness.is_lost());
        tokio::time::advance(Duration::from_secs(40)).await;
        assert!(liveness.is_lost(), "its ping had no answer");
        assert_eq!((liveness.confirmed(GENERATION), unconfirmed(&liveness)), (Some(8), vec![(9, 9)]));
    }

    #[tokio::test(start_paused = true)]
    async fn connection_without_signs_confirms_everything() {
        let liveness = ReceiverLiveness::without_signs();
        liveness.begin(1, GENERATION, 4);
        sent(&liveness, 7);
        liveness.sent_up_to(5);
        assert_eq!((liveness.confirmed(GENERATION), unconfirmed(&liveness)), (Some(5), vec![]));
        assert!(!liveness.is_lost());
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
