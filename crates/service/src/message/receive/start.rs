//! The start of a stream: after a cursor, after positions, or now.

use std::{collections::VecDeque, future::ready, sync::Arc};

use futures::stream::{self, StreamExt as _};
use kith_cache::{Consistency, remote::SharedError};
use kith_delivery::{Generation, Opened, Position, ReadFrom, Reading};

use super::{
    Receiving,
    bell::Bell,
    convert::{self, StreamRequest},
    cursor::{Floors, ResumePoint},
    hub,
    logs::ReadLogs,
    range::Reader,
    receiver::{DueDelivery, DueWhat, ReceiveStream, Receiver},
};
use crate::{
    error::{Error, Reason},
    metric::RECEIVE_CATCH_UPS,
    notice::{AudienceTotals, TotalsListener, TotalsWatches},
    rpc::call::Principal,
};

/// Where a stream begins.
struct Start {
    generation: Generation,
    position: Position,
    floors: Floors,
    carried: Floors,
    due: VecDeque<DueDelivery>,
    /// `None`: never live.
    live_at: Option<Position>,
    catches_up: bool,
    begins_now: bool,
}

impl Receiving {
    /// A stream, which begins when it is polled first and other streams that begin leave it a turn. From its first response on, nothing
    /// is missed.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, RESOURCE_EXHAUSTED if there are as many as may be. Of the stream: NOT_FOUND, INVALID_ARGUMENT
    /// if the readers of an audience are no users, UNAVAILABLE if Redis does not answer, or errors of the store.
    pub(super) fn receive(&self, asked: StreamRequest, principal: Principal) -> Result<ReceiveStream, Error> {
        let cursor = self.0.cursors.verify(asked.user, &asked.cursor)?;
        let place = self.0.hub.enter(asked.user)?;
        let this = self.clone();
        // Within the stream: a call that waits for its answer takes the place of others.
        let begun = async move {
            match this.begin(&asked, cursor, &place).await {
                Ok((start, watching)) => {
                    let reader = Reader { parts: Arc::clone(&this.0), user: asked.user, principal };
                    this.receiver(start, place, reader, watching).stream()
                }
                Err(error) => stream::once(ready(Err(error.into()))).boxed(),
            }
        };
        Ok(stream::once(begun).flatten().boxed())
    }

    async fn begin(
        &self,
        asked: &StreamRequest,
        cursor: Option<ResumePoint>,
        place: &hub::ReceiverRegistration,
    ) -> Result<(Start, TotalsWatches), Error> {
        let parts = &self.0;
        let _turn = parts.hub.beginning().await;
        let users = &parts.messages.correspondents.users;
        let created = users.created(asked.user, &Consistency::Cached).await?;
        let created = created.ok_or_else(|| Error::not_found("user"))?;
        let listener: Arc<dyn TotalsListener> = Arc::<Bell>::clone(&place.bell);
        let (watching, totals) =
            parts.totals.watch(asked.user, created, &asked.notice_audiences, listener).await?;
        let opened = parts.keeper().open(&parts.inboxes().node, &[asked.user]).await.pop();
        let opened = opened.unwrap_or(Err(SharedError::Unexpected)).map_err(away)?;
        let start = self.start(asked, cursor, opened).await?;
        Ok((start.with_totals(totals), watching))
    }

    fn receiver(
        &self,
        start: Start,
        place: hub::ReceiverRegistration,
        reader: Reader,
        watching: TotalsWatches,
    ) -> Receiver {
        let Start { generation, position, floors, carried, due, live_at, catches_up, begins_now } = start;
        Receiver {
            parts: Arc::clone(&self.0),
            place,
            reader,
            generation,
            position,
            floors,
            carried,
            due,
            live_at,
            logs: ReadLogs::unknown(),
            begins_now,
            catches_up,
            over: false,
            _watching: watching,
        }
    }

    async fn start(
        &self,
        asked: &StreamRequest,
        cursor: Option<ResumePoint>,
        opened: Opened,
    ) -> Result<Start, Error> {
        let has_cursor = cursor.is_some();
        if let Some(place) = cursor
            && self.reaches_back(asked, &place, opened).await?
        {
            return Ok(Start::after(place, &asked.positions, opened));
        }
        if !asked.positions.is_empty() {
            metrics::counter!(RECEIVE_CATCH_UPS.name).increment(1);
            return self.catch_up(asked, opened).await;
        }
        if asked.now {
            return self.now(asked, opened).await;
        }
        Ok(Start::reset(opened, if has_cursor { "cursor" } else { "start" }))
    }

    /// Whether the inbox has all entries after a place.
    async fn reaches_back(
        &self,
        asked: &StreamRequest,
        place: &ResumePoint,
        opened: Opened,
    ) -> Result<bool, Error> {
        if place.generation != opened.generation || place.position > opened.position {
            return Ok(false);
        }
        let from = ReadFrom { user: asked.user, generation: place.generation, after: place.position };
        let read = self.0.keeper().read(&[from], 1).await.pop();
        let read = read.unwrap_or(Err(SharedError::Unexpected)).map_err(away)?;
        Ok(read != Reading::Reset)
    }

    async fn catch_up(&self, asked: &StreamRequest, opened: Opened) -> Result<Start, Error> {
        match self.marks(asked.user, &asked.positions, opened).await? {
            None => Ok(Start::reset(opened, "lost")),
            Some(caught) => {
                let due = caught.due(&asked.positions);
                Ok(Start {
                    position: caught.first_position,
                    floors: caught.marks.into_iter().collect(),
                    due,
                    live_at: Some(caught.last_position),
                    catches_up: true,
                    ..Start::at(opened, opened.position)
                })
            }
        }
    }

    /// All conversations get their marks first if they have none: later ones without a mark are new to the user.
    async fn now(&self, asked: &StreamRequest, opened: Opened) -> Result<Start, Error> {
        if opened.complete {
            return Ok(Start::now(opened, opened.position));
        }
        Ok(match self.marks(asked.user, &asked.positions, opened).await? {
            None => Start::reset(opened, "lost"),
            Some(caught) => Start::now(opened, caught.last_position),
        })
    }
}

impl Start {
    /// Live from a position of the inbox, without a backlog.
    fn at(opened: Opened, position: Position) -> Self {
        Self {
            generation: opened.generation,
            position,
            floors: Floors::new(),
            carried: Floors::new(),
            due: VecDeque::new(),
            live_at: Some(position),
            catches_up: false,
            begins_now: false,
        }
    }

    fn after(place: ResumePoint, positions: &Floors, opened: Opened) -> Self {
        let (floors, carried) = (positions.clone(), place.floors);
        let live_at = Some(opened.position);
        Self { floors, carried, live_at, ..Self::at(opened, place.position) }
    }

    fn now(opened: Opened, position: Position) -> Self {
        Self { begins_now: true, ..Self::at(opened, position) }
    }

    /// The same with totals of notices before all else. A stream that is reset brings none.
    fn with_totals(mut self, totals: Vec<AudienceTotals>) -> Self {
        if !matches!(self.due.front(), Some(DueDelivery { what: DueWhat::Reset(_), .. })) {
            let mut due: VecDeque<_> =
                totals.into_iter().map(|totals| DueDelivery::delivery(convert::totals(totals))).collect();
            due.append(&mut self.due);
            self.due = due;
        }
        self
    }

    fn reset(opened: Opened, why: &'static str) -> Self {
        let due = [DueDelivery { what: DueWhat::Reset(why), position: None }].into();
        Self { due, ..Self::at(opened, opened.position) }
    }
}

pub(super) fn away(_error: SharedError) -> Error {
    Error::new(Reason::StoreUnavailable, "inboxes cannot be read now: Redis does not answer")
}
