//! A stream's start: after a cursor, after positions, or now.

use std::{any::Any, collections::VecDeque, future::ready, sync::Arc};

use futures::stream::{self, StreamExt as _};
use kith_cache::{Consistency, remote::SharedError};
use kith_delivery::{Generation, OpenedInbox, Position, ReadFrom, ReadOutcome};

use super::{
    ReceiverLiveness, Receiving,
    convert::{self, StreamRequest},
    cursor::{ResumePoint, SeqFloors},
    hub,
    range::Reader,
    receiver::{DueContent, DueDelivery, ReceiveStream, Receiver},
    tracked_logs::TrackedLogs,
    waker::ReceiverWaker,
};
use crate::{
    error::{Error, Reason},
    metric::RECEIVE_CATCH_UPS,
    notice::{AudienceTotals, TotalsListener, TotalsWatches},
    rpc::call::Principal,
    user::{AccessDenial, LiveAccess, Users},
};

/// Where a stream begins.
struct StreamStart {
    generation: Generation,
    position: Position,
    floors: SeqFloors,
    carried: SeqFloors,
    due: VecDeque<DueDelivery>,
    /// `None`: never live.
    live_at: Option<Position>,
    catches_up: bool,
    begins_now: bool,
    /// See [`Receiver::backlog_left_out`].
    left_out: usize,
}

impl Receiving {
    /// A stream. It begins when it is first polled and has a permit to start. From its first response on,
    /// nothing is missed. `liveness`: whether its client answers, as its connection says it.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, RESOURCE_EXHAUSTED if there are already the most receivers. The stream ends with
    /// NOT_FOUND, INVALID_ARGUMENT if an audience's readers are not users, UNAVAILABLE if Redis does not
    /// answer, or errors of the store.
    pub(super) async fn receive(
        &self,
        request: StreamRequest,
        principal: Principal,
        liveness: Arc<ReceiverLiveness>,
    ) -> Result<ReceiveStream, Error> {
        let (user, account) = (request.user, self.account(&request).await?);
        let cursor = self.resume_point(&request, account)?;
        let registration = self.0.hub.register(user, liveness)?;
        let this = self.clone();
        // Within the stream: a call that waits for its answer would hold a slot that other calls need.
        let started = async move {
            match this.open(&request, cursor, &registration).await {
                Ok((start, watching)) => {
                    let reader = Reader { parts: Arc::clone(&this.0), user, account, principal };
                    let device = request.device.as_deref();
                    let session = device.map(|device| this.0.sessions.begin(user, device));
                    this.receiver(start, registration, reader, watching, session).stream()
                }
                Err(error) => stream::once(ready(Err(error.into()))).boxed(),
            }
        };
        // Boxed, so that the memory of the start is given back after it.
        let stream = stream::once(Box::pin(started)).flatten().boxed();
        if principal != Principal::Service {
            // The edge ends it with its user's access.
            return Ok(stream);
        }
        Ok(until_ended(stream, self.users().accesses().enter(user, None, account)))
    }

    fn users(&self) -> &Users {
        &self.0.messages.dependencies.users
    }

    /// The receiving account's number. `None`: it cannot be read now; a stream without a cursor begins
    /// nevertheless.
    async fn account(&self, request: &StreamRequest) -> Result<Option<u32>, Error> {
        match self.users().accesses().check(request.user, None, false).await {
            Ok(account) => account.map(Some).map_err(AccessDenial::error),
            Err(_) if request.cursor.is_empty() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The resume point of a request's cursor.
    fn resume_point(
        &self,
        request: &StreamRequest,
        account: Option<u32>,
    ) -> Result<Option<ResumePoint>, Error> {
        match self.0.cursors.verify(request.user, account.unwrap_or_default(), &request.cursor) {
            // It belongs to another past, as after a move to another cluster: the positions say what the
            // client has.
            Err(_) if !request.positions.is_empty() => Ok(None),
            verified => verified,
        }
    }

    async fn open(
        &self,
        request: &StreamRequest,
        cursor: Option<ResumePoint>,
        registration: &hub::ReceiverRegistration,
    ) -> Result<(StreamStart, TotalsWatches), Error> {
        let parts = &self.0;
        let _permit = parts.hub.start_permit().await;
        let created = self.users().created(request.user, &Consistency::Cached).await?;
        let created = created.ok_or_else(|| Error::not_found("user"))?;
        let listener: Arc<dyn TotalsListener> = Arc::<ReceiverWaker>::clone(&registration.waker);
        let (watching, totals) =
            parts.totals.watch(request.user, created, &request.notice_audiences, listener).await?;
        let opened = parts.keeper().open(&parts.inboxes().node, &[request.user]).await.pop();
        let opened = opened.unwrap_or(Err(SharedError::Unexpected)).map_err(inboxes_unavailable)?;
        let start = self.start(request, cursor, opened).await?;
        let (generation, after) = (start.generation, start.backlog_end());
        registration.waker.liveness().begin(registration.number, generation, after);
        let confirmed = parts.hub.confirmed(request.user, generation);
        parts.note_confirmed(confirmed.as_slice()).await;
        Ok((start.with_totals(totals), watching))
    }

    fn receiver(
        &self,
        start: StreamStart,
        registration: hub::ReceiverRegistration,
        reader: Reader,
        watching: TotalsWatches,
        session: Option<Box<dyn Any + Send + Sync>>,
    ) -> Receiver {
        let backlog_end = start.backlog_end();
        let StreamStart {
            generation,
            position,
            floors,
            carried,
            due,
            live_at,
            catches_up,
            begins_now,
            left_out,
        } = start;
        Receiver {
            parts: Arc::clone(&self.0),
            registration,
            reader,
            generation,
            position,
            backlog_end,
            floors,
            carried,
            due,
            live_at,
            logs: TrackedLogs::unknown(),
            backlog_left_out: left_out,
            begins_now,
            catches_up,
            ended: false,
            _watching: watching,
            _session: session,
        }
    }

    async fn start(
        &self,
        request: &StreamRequest,
        cursor: Option<ResumePoint>,
        opened: OpenedInbox,
    ) -> Result<StreamStart, Error> {
        let has_cursor = cursor.is_some();
        if let Some(point) = cursor
            && self.reaches_back(request, &point, opened).await?
        {
            return Ok(StreamStart::after(point, &request.positions, opened));
        }
        if !request.positions.is_empty() {
            metrics::counter!(RECEIVE_CATCH_UPS.name).increment(1);
            return self.catch_up(request, opened).await;
        }
        if request.now {
            return self.now(request, opened).await;
        }
        Ok(StreamStart::reset(opened, if has_cursor { "cursor" } else { "start" }))
    }

    /// Whether the inbox has all entries after a resume point.
    async fn reaches_back(
        &self,
        request: &StreamRequest,
        point: &ResumePoint,
        opened: OpenedInbox,
    ) -> Result<bool, Error> {
        if point.generation != opened.generation || point.position > opened.position {
            return Ok(false);
        }
        let from = ReadFrom { user: request.user, generation: point.generation, after: point.position };
        let read = self.0.keeper().read(&[from], 1).await.pop();
        let read = read.unwrap_or(Err(SharedError::Unexpected)).map_err(inboxes_unavailable)?;
        Ok(read != ReadOutcome::Reset)
    }

    async fn catch_up(&self, request: &StreamRequest, opened: OpenedInbox) -> Result<StreamStart, Error> {
        match self.marks(request.user, &request.positions, opened).await? {
            None => Ok(StreamStart::reset(opened, "lost")),
            Some(catch_up) => {
                let due = catch_up.due(&request.positions);
                Ok(StreamStart {
                    position: catch_up.first_position,
                    floors: catch_up.marks.into_iter().collect(),
                    due,
                    live_at: Some(catch_up.last_position),
                    catches_up: true,
                    left_out: catch_up.left_out,
                    ..StreamStart::at(opened, opened.position)
                })
            }
        }
    }

    /// All conversations get their marks first if they have none: later ones without a mark are new to the
    /// user.
    async fn now(&self, request: &StreamRequest, opened: OpenedInbox) -> Result<StreamStart, Error> {
        if opened.complete {
            return Ok(StreamStart::now(opened, opened.position));
        }
        Ok(match self.marks(request.user, &request.positions, opened).await? {
            None => StreamStart::reset(opened, "lost"),
            Some(catch_up) => StreamStart::now(opened, catch_up.last_position),
        })
    }
}

impl StreamStart {
    /// The backlog's last entry: users without a receiver were named for its messages.
    fn backlog_end(&self) -> Position {
        self.live_at.unwrap_or(self.position)
    }

    /// Live from an inbox position, without a backlog.
    fn at(opened: OpenedInbox, position: Position) -> Self {
        Self {
            generation: opened.generation,
            position,
            floors: SeqFloors::new(),
            carried: SeqFloors::new(),
            due: VecDeque::new(),
            live_at: Some(position),
            catches_up: false,
            begins_now: false,
            left_out: 0,
        }
    }

    fn after(point: ResumePoint, positions: &SeqFloors, opened: OpenedInbox) -> Self {
        let (floors, carried) = (positions.clone(), point.floors);
        let live_at = Some(opened.position);
        Self { floors, carried, live_at, ..Self::at(opened, point.position) }
    }

    fn now(opened: OpenedInbox, position: Position) -> Self {
        Self { begins_now: true, ..Self::at(opened, position) }
    }

    /// Adds notice totals, which come before all else. A stream that is reset brings none.
    fn with_totals(mut self, totals: Vec<AudienceTotals>) -> Self {
        if !matches!(self.due.front(), Some(DueDelivery { content: DueContent::Reset(_), .. })) {
            let mut due: VecDeque<_> =
                totals.into_iter().map(|totals| DueDelivery::delivery(convert::totals(totals))).collect();
            due.append(&mut self.due);
            self.due = due;
        }
        self
    }

    fn reset(opened: OpenedInbox, why: &'static str) -> Self {
        let due = [DueDelivery { content: DueContent::Reset(why), position: None }].into();
        Self { due, ..Self::at(opened, opened.position) }
    }
}

/// The stream until its user is let in no more.
fn until_ended(stream: ReceiveStream, live: LiveAccess) -> ReceiveStream {
    let ended = live.ended().clone().cancelled_owned();
    let last = async move { live.ended().is_cancelled().then(|| Err(live.error().into())) };
    stream.take_until(ended).chain(stream::once(last).filter_map(ready)).boxed()
}

pub(super) fn inboxes_unavailable(_error: SharedError) -> Error {
    Error::new(Reason::StoreUnavailable, "inboxes cannot be read now: Redis does not answer")
}
