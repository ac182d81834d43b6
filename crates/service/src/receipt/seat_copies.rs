//! Copies of groups' seats on this node.

use std::sync::Arc;

use kith_store::{ConversationId, GroupId};
use parking_lot::Mutex;

use super::weighted_copies::WeightedCopies;
use crate::{
    error::Error,
    group::member::{GroupSeats, Members},
};

/// Groups' seats, through this node's memory. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct SeatCopies {
    members: Members,
    kept: Arc<Mutex<WeightedCopies<GroupId, SeatsCell>>>,
}

/// Held while a group is read, so that one call reads it for all.
type SeatsCell = Arc<tokio::sync::Mutex<Option<Arc<GroupSeats>>>>;

impl SeatCopies {
    /// Creates it with this seat limit.
    pub(super) fn new(members: Members, seats_max: usize) -> Self {
        Self { members, kept: Arc::new(Mutex::new(WeightedCopies::new(seats_max))) }
    }

    /// A conversation's present and former users, with every change that was acknowledged before the call.
    /// The result is kept also if this future is dropped.
    pub(super) async fn of(&self, conversation: ConversationId) -> Result<Arc<GroupSeats>, Error> {
        match conversation {
            ConversationId::Offline(_) => Err(Error::not_found("conversation")),
            ConversationId::Direct(one, other) => Ok(Arc::new(GroupSeats::direct(one, other))),
            ConversationId::Group(group) => {
                if let Some(seats) = self.current(group).await? {
                    return Ok(seats);
                }
                let this = self.clone();
                // Runs in its own task: a large group may take longer than one call's deadline.
                let read = tokio::spawn(async move { this.of_group(group).await });
                read.await.unwrap_or_else(|_| Err(Error::internal()))
            }
        }
    }

    /// A group's copy, if there is one and no member has joined or left since. Cheaper than a task.
    async fn current(&self, group: GroupId) -> Result<Option<Arc<GroupSeats>>, Error> {
        let slot = self.kept.lock().get(group);
        // Held: another call reads the group.
        let known = slot.try_lock().ok().and_then(|known| known.clone());
        let Some(known) = known else { return Ok(None) };
        let is_current = self.members.are_seats_current(group, &known).await?;
        Ok(is_current.then_some(known))
    }

    async fn of_group(&self, group: GroupId) -> Result<Arc<GroupSeats>, Error> {
        let slot = self.kept.lock().get(group);
        let mut known = slot.lock().await;
        // The known seats are taken out: they have no other owner then, and are changed in place.
        let seats = self.members.seats(group, known.take()).await?;
        *known = Some(Arc::clone(&seats));
        self.kept.lock().set_weight(group, seats.seats.len());
        Ok(seats)
    }
}
