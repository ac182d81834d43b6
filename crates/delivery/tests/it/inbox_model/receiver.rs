//! A receiver and the client behind it, as the contract says that they are.

use std::collections::{BTreeMap, VecDeque};

use kith_delivery::{
    Entry, Generation, Mark, Marks, OpenedInbox, Position, ReadOutcome, SentMessages, Wake, WokenUser,
};
use kith_store::{ConversationId, Seq};

use super::mutants::Deviation;

pub(super) type Positions = BTreeMap<ConversationId, Seq>;

/// A receiver's next action.
#[derive(Clone, Debug)]
pub(super) enum ReceiverState {
    /// It is not connected.
    Disconnected,
    /// It reads the user's conversations.
    Listing(CatchUp),
    /// It gives marks.
    Marking(CatchUp),
    Live(Live),
}

/// A receiver that has no cursor.
#[derive(Clone, Debug)]
pub(super) struct CatchUp {
    pub(super) opened: OpenedInbox,
    /// Marks that it has to give.
    pub(super) left: Vec<Mark>,
    /// Ends as it has read them.
    pub(super) ends: Positions,
    /// Marks as they were returned.
    pub(super) marks: Positions,
    /// Its first marks' position.
    pub(super) first: Option<Position>,
    pub(super) is_listed_again: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) generation: Generation,
    pub(super) after: Position,
    /// Up to this position, ranges are cut by these marks.
    until: Position,
    marks: Positions,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) node: usize,
    deviation: Deviation,
    pub(super) state: ReceiverState,
    /// The last message in each conversation that the client has.
    pub(super) have: Positions,
    /// Where the client can go on.
    pub(super) cursor: Option<(Generation, Position)>,
    /// Wakes that have come.
    pub(super) wakes: VecDeque<Wake>,
}

impl CatchUp {
    fn new(opened: OpenedInbox) -> Self {
        let (left, ends, marks, first) = Default::default();
        Self { opened, left, ends, marks, first, is_listed_again: false }
    }
}

impl Receiver {
    pub(super) fn new(node: usize, deviation: Deviation) -> Self {
        let (have, cursor, wakes) = Default::default();
        Self { node, deviation, state: ReceiverState::Disconnected, have, cursor, wakes }
    }

    /// The connection has ended.
    pub(super) fn leave(&mut self) {
        self.state = ReceiverState::Disconnected;
        self.wakes.clear();
    }

    /// The receiver cannot go on: the client opens another receiver, with its positions.
    pub(super) fn reset(&mut self) {
        self.leave();
        self.cursor = None;
    }

    /// Returns whether it goes on by its cursor.
    pub(super) fn opened(&mut self, opened: OpenedInbox) -> bool {
        let is_right = |(generation, _): &(Generation, Position)| {
            *generation == opened.generation || self.deviation == Deviation::AnyGeneration
        };
        if let Some((_, after)) = self.cursor.filter(is_right) {
            let generation = opened.generation;
            self.state = ReceiverState::Live(Live { generation, after, until: 0, marks: Positions::new() });
            return true;
        }
        self.cursor = None;
        self.state = ReceiverState::Listing(CatchUp::new(opened));
        false
    }

    /// The inbox was opened again for a receiver that reads on.
    pub(super) fn renewed(&mut self, opened: OpenedInbox) {
        if let ReceiverState::Live(live) = &self.state
            && live.generation != opened.generation
        {
            self.reset();
        }
    }

    /// It has read the user's conversations, with their ends.
    pub(super) fn listed(&mut self, ends: Vec<(ConversationId, Seq)>) {
        let ReceiverState::Listing(mut catch_up) =
            std::mem::replace(&mut self.state, ReceiverState::Disconnected)
        else {
            return;
        };
        let new = ends.into_iter().filter(|(log, _)| !catch_up.marks.contains_key(log));
        for (conversation, end) in new.collect::<Vec<_>>() {
            catch_up.ends.insert(conversation, end);
            catch_up.left.push(Mark { conversation, end });
        }
        self.state = ReceiverState::Marking(catch_up);
    }

    /// Its marks are set. Returns whether it reads its conversations again.
    ///
    /// # Errors
    /// When the client gets a wrong message.
    pub(super) fn marked(&mut self, given: &[Mark], marks: &Marks) -> Result<bool, String> {
        let ReceiverState::Marking(mut catch_up) =
            std::mem::replace(&mut self.state, ReceiverState::Disconnected)
        else {
            return Ok(false);
        };
        catch_up.first.get_or_insert(marks.position);
        catch_up.marks.extend(given.iter().map(|mark| mark.conversation).zip(marks.marks.iter().copied()));
        if !catch_up.left.is_empty() {
            self.state = ReceiverState::Marking(catch_up);
            return Ok(false);
        }
        let known = u64::try_from(catch_up.marks.len()).unwrap();
        let is_alone = catch_up.opened.complete || self.deviation == Deviation::ListsOnce;
        if !is_alone && !catch_up.is_listed_again && marks.conversations > known {
            catch_up.is_listed_again = true;
            self.state = ReceiverState::Listing(catch_up);
            return Ok(true);
        }
        self.caught_up(catch_up, marks.position)?;
        Ok(false)
    }

    /// The entries that it has read.
    ///
    /// # Errors
    /// When the client gets a wrong message.
    pub(super) fn has_read(&mut self, reading: ReadOutcome) -> Result<(), String> {
        match reading {
            ReadOutcome::Reset => self.reset(),
            ReadOutcome::Entries(entries) => {
                for (position, entry) in entries {
                    self.entry(position, &entry)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the next wake; returns whether it was an entry that follows.
    ///
    /// # Errors
    /// When the client gets a wrong message.
    pub(super) fn woken(&mut self) -> Result<bool, String> {
        let Some(Wake::Messages { sent: SentMessages { conversation, last, .. }, woken, lost }) =
            self.wakes.pop_front()
        else {
            return Ok(false);
        };
        if !lost.is_empty() {
            self.reset();
            return Ok(false);
        }
        let ReceiverState::Live(live) = &self.state else { return Ok(false) };
        let follows =
            |woken: &&WokenUser| woken.generation == live.generation && woken.position == live.after + 1;
        let Some(WokenUser { position, first, .. }) = woken.iter().find(follows).copied() else {
            return Ok(false);
        };
        self.entry(position, &Entry::Range { conversation, first, last })?;
        Ok(true)
    }

    /// The log is delivered up to the marks; from here on it reads the inbox.
    fn caught_up(&mut self, catch_up: CatchUp, until: Position) -> Result<(), String> {
        let CatchUp { opened, ends, marks, first, .. } = catch_up;
        let delivered = if self.deviation == Deviation::OwnEnd { &ends } else { &marks };
        for (log, last) in delivered {
            let have = self.have.entry(*log).or_default();
            *have = (*have).max(*last);
        }
        let after = match self.deviation {
            Deviation::AfterFirstMarks => first.unwrap_or(opened.position),
            _ => opened.position,
        };
        let marks = if self.deviation == Deviation::NoCut { Positions::new() } else { marks };
        self.state = ReceiverState::Live(Live { generation: opened.generation, after, until, marks });
        if self.deviation == Deviation::EarlyCursor || after == until {
            self.cursor = Some((opened.generation, after));
        }
        Ok(())
    }

    fn entry(&mut self, position: Position, entry: &Entry) -> Result<(), String> {
        let ReceiverState::Live(live) = &mut self.state else { return Ok(()) };
        if position != live.after + 1 {
            return Err(format!("position {position} after {}", live.after));
        }
        live.after = position;
        if position >= live.until || self.deviation == Deviation::EarlyCursor {
            self.cursor = Some((live.generation, position));
        }
        let Entry::Range { conversation, first, last } = *entry else { return Ok(()) };
        let mark = live.marks.get(&conversation).copied().filter(|_| position <= live.until);
        let first = first.unwrap_or(1).max(mark.map_or(1, |mark| mark + 1));
        if first > last {
            return Ok(());
        }
        let have = self.have.entry(conversation).or_default();
        if first != *have + 1 {
            return Err(format!("{conversation} {first}..={last} at {position}, the client has {have}"));
        }
        *have = last;
        Ok(())
    }
}
