//! The backlog for a stream that begins without a usable cursor.
//!
//! The ends of all conversations are read from the store after the inbox was opened, and become its marks.
//! The backlog is sent from the log up to the marks that the inbox returns; entries of the inbox are above
//! them, once it is read up to the last call.

use std::collections::{HashSet, VecDeque};

use kith_delivery::{Mark, MarkOutcome, OpenedInbox, Position};
use kith_store::{ConversationId, Seq, UserId};

use super::{
    super::AtLeast,
    ReceiversInner, Receiving,
    cursor::SeqFloors,
    range::DueRange,
    receiver::{DueContent, DueDelivery},
    start::inboxes_unavailable,
};
use crate::error::Error;

/// Attempts to find conversations that another receiver knew of.
const ROUNDS: usize = 3;

/// The marks for all a user's conversations.
#[derive(Debug)]
pub(super) struct CatchUp {
    /// The inbox's position when it was opened. The stream continues after it.
    pub(super) first_position: Position,
    /// The position after the last call. Up to it, entries are cut by the marks.
    pub(super) last_position: Position,
    pub(super) marks: Vec<(ConversationId, Seq)>,
    /// How many conversations have no mark, because there are too many.
    pub(super) left_out: usize,
}

impl Receiving {
    /// Marks all a user's conversations up to their ends. `None`: the inbox has ended in between.
    ///
    /// # Errors
    /// UNAVAILABLE if Redis does not answer, or errors of the store.
    pub(super) async fn marks(
        &self,
        user: UserId,
        positions: &SeqFloors,
        opened: OpenedInbox,
    ) -> Result<Option<CatchUp>, Error> {
        let first_position = opened.position;
        let mut catch_up =
            CatchUp { first_position, last_position: first_position, marks: Vec::new(), left_out: 0 };
        for _ in 0..ROUNDS {
            let ends = self.ends(user, positions, &mut catch_up).await?;
            let Some(known) = self.mark(user, opened, &ends, &mut catch_up).await? else { return Ok(None) };
            let has_all = usize::try_from(known).is_ok_and(|known| known <= catch_up.marks.len());
            if opened.complete || has_all {
                break;
            }
            // Another receiver began at the same time, and knew more conversations.
        }
        Ok(Some(catch_up))
    }

    /// Marks conversations. Returns how many have a mark; `None`: the inbox has ended.
    async fn mark(
        &self,
        user: UserId,
        opened: OpenedInbox,
        ends: &[Mark],
        catch_up: &mut CatchUp,
    ) -> Result<Option<u64>, Error> {
        let size = self.0.limits().marks_at_once.max(1);
        let calls = ends.len().div_ceil(size).max(1);
        let (mut some, mut conversations) = (ends.chunks(size), 0);
        for call in 1..=calls {
            let ends = some.next().unwrap_or_default();
            let marked = self.0.keeper().mark(user, opened.generation, ends, call == calls).await;
            let MarkOutcome::Marks(marked) = marked.map_err(inboxes_unavailable)? else { return Ok(None) };
            self.0.inboxes().publish(marked.wakes);
            (catch_up.last_position, conversations) = (marked.position, marked.conversations);
            catch_up.marks.extend(ends.iter().map(|mark| mark.conversation).zip(marked.marks));
        }
        Ok(Some(conversations))
    }

    /// The ends of all a user's conversations that are not marked yet, and of conversations that it has left
    /// and that have a position.
    async fn ends(
        &self,
        user: UserId,
        positions: &SeqFloors,
        catch_up: &mut CatchUp,
    ) -> Result<Vec<Mark>, Error> {
        let ReceiversInner { dialogs, messages, .. } = &*self.0;
        let mut known: HashSet<ConversationId> = catch_up.marks.iter().map(|(known, _)| *known).collect();
        let (mut conversations, left_out) = dialogs.conversations(user).await?;
        catch_up.left_out = left_out;
        conversations.retain(|conversation| known.insert(*conversation));
        let left: Vec<_> = positions.keys().copied().filter(|left| !known.contains(left)).collect();
        let bounds = messages.seen_bounds(Some(user), &left).await?;
        let readable = left.into_iter().zip(bounds).filter(|(_, bounds)| bounds.is_ok());
        conversations.extend(readable.map(|(left, _)| left));
        let ends = messages.logs.ends(&conversations, &AtLeast::default()).await?;
        let ends = conversations.into_iter().zip(ends);
        Ok(ends.map(|(conversation, end)| Mark { conversation, end: end.seq }).collect())
    }
}

impl CatchUp {
    /// The messages that a client with these positions lacks. For a conversation without a position, only
    /// that there are messages.
    pub(super) fn due(&self, positions: &SeqFloors) -> VecDeque<DueDelivery> {
        let due = self.marks.iter().filter_map(|(conversation, mark)| {
            let position = positions.get(conversation).copied();
            let first = position.unwrap_or_default().saturating_add(1);
            (first <= *mark).then(|| DueRange {
                conversation: *conversation,
                first: Some(first),
                last: *mark,
                from_log: false,
                pull_only: position.is_none(),
                fresh: None,
            })
        });
        due.map(|range| DueDelivery { content: DueContent::Range(Box::new(range)), position: None }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_gets_what_is_above_its_positions() {
        let marks = [("g1", 5), ("g2", 5), ("g3", 5), ("g4", 0)];
        let marks = marks.map(|(conversation, mark)| (conversation.parse().unwrap(), mark)).into();
        let catch_up = CatchUp { first_position: 1, last_position: 2, marks, left_out: 0 };
        let positions = [("g1", 3), ("g2", 5)].map(|(id, seq)| (id.parse().unwrap(), seq)).into();
        let due = catch_up.due(&positions).into_iter().map(|due| match due.content {
            DueContent::Range(range) => {
                (range.conversation.to_string(), range.first.unwrap(), range.last, range.pull_only)
            }
            other => panic!("{other:?}"),
        });
        let due: Vec<_> = due.collect();
        assert_eq!(due, [("g1".to_owned(), 4, 5, false), ("g3".to_owned(), 1, 5, true)]);
    }
}
