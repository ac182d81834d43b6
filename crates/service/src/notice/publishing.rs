//! Changes audiences and notices. Each change is one commit. Copies on other nodes are dropped before the
//! call returns.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kith_cache::{Change, Consistency};
use kith_store::{
    Applied, Audience, AudienceId, NewAudience, NewNotice, NoticeChange, NoticeChangeResult, NoticeId,
    StoreError, Timestamp, Write,
};

use super::{NOTICES, NoticeRecords, records::notice_error};
use crate::{
    error::{Error, Reason, valid},
    rpc::{request::WriteContext, versions::cache_version},
    write::mutations::{Committed, RecordWrite, covering},
};

/// Maximum attempts to publish with an allocated id: callers may have used such an id for a notice.
const ID_TRIES: usize = 16;

impl NoticeRecords {
    /// Registers or renames an audience. Returns the audience.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, RESOURCE_EXHAUSTED, or errors of the store.
    pub(super) async fn register_audience(
        &self,
        new: NewAudience,
        context: WriteContext,
    ) -> Result<Committed<Audience>, Error> {
        let write = context.write(&self.hasher).await?;
        let (this, id) = (self.clone(), new.id);
        let work = async move {
            let (store, limit) = (Arc::clone(&this.store), this.config.audiences_max);
            let write = Box::pin(async move { store.register_audience(new, limit, write).await });
            let change = |_: &Arc<()>| Change::Invalidate { version: None };
            let job = RecordWrite { key: id, write, change };
            let written = this.mutations.write(&this.audiences, job).await.map_err(notice_error)?;
            let record = this.audience(id, &Consistency::Cached).await?;
            Ok(Committed { record, token: written.token })
        };
        self.mutations.call(context.deadline, work).await
    }

    /// Publishes a notice. Allocates an id if `id` is `None`.
    ///
    /// # Errors
    /// ALREADY_EXISTS, NOT_FOUND, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, or errors of the store.
    pub(super) async fn publish(
        &self,
        id: Option<NoticeId>,
        new: NewNotice,
        context: WriteContext,
    ) -> Result<Committed<NoticeChangeResult>, Error> {
        let write = context.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            for _ in 0..ID_TRIES {
                let chosen = match id {
                    Some(id) => id,
                    None => this.allocate().await?,
                };
                let change = NoticeChange::Publish(new.clone());
                match this.write_change(chosen, change, new.audiences.clone(), write.clone()).await {
                    Err(StoreError::IdTaken) if id.is_none() => {}
                    written => return written.map_err(notice_error),
                }
            }
            Err(Error::new(Reason::Internal, "no free id was found"))
        };
        self.mutations.call(context.deadline, work).await
    }

    /// Changes or deletes a notice.
    ///
    /// # Errors
    /// NOT_FOUND, ABORTED, FAILED_PRECONDITION, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, or errors of the store.
    pub(super) async fn change(
        &self,
        id: NoticeId,
        change: NoticeChange,
        context: WriteContext,
    ) -> Result<Committed<NoticeChangeResult>, Error> {
        let write = context.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move { this.change_now(id, change, write).await };
        self.mutations.call(context.deadline, work).await
    }

    /// Like [`Self::change`]. Must be called within
    /// [`Mutations::run`](crate::write::mutations::Mutations::run).
    ///
    /// # Errors
    /// The errors of [`Self::change`].
    pub(super) async fn change_now(
        &self,
        id: NoticeId,
        change: NoticeChange,
        write: Write,
    ) -> Result<Committed<NoticeChangeResult>, Error> {
        let known = self.notices_of(&[id], &Consistency::Cached).await?.pop().flatten();
        let mut audiences: BTreeSet<AudienceId> =
            known.iter().flat_map(|notice| notice.audiences.iter().copied()).collect();
        if let NoticeChange::Update(patch) = &change {
            audiences.extend(patch.audiences.iter().flatten());
        }
        let audiences = audiences.into_iter().collect();
        self.write_change(id, change, audiences, write).await.map_err(notice_error)
    }

    /// Writes a change. `audiences`: the audiences that it is expected to change. Some may be missing, if
    /// they come from an old copy: their copies are dropped after the write, before the call returns.
    async fn write_change(
        &self,
        id: NoticeId,
        change: NoticeChange,
        audiences: Vec<AudienceId>,
        write: Write,
    ) -> Result<Committed<NoticeChangeResult>, StoreError> {
        let (store, live_max) = (Arc::clone(&self.store), self.config.live_max);
        let of_new_slots: &[AudienceId] = if may_assign_slots(&change) { &audiences } else { &[] };
        let prepared = self.counts.prepare(of_new_slots).await;
        let is_new = Arc::<AtomicBool>::default();
        let is_new_in_write = Arc::clone(&is_new);
        let write = Box::pin(async move {
            let applied = store.change_notice(id, change, live_max, write).await;
            applied.inspect(|applied| is_new_in_write.store(!applied.replayed, Ordering::Release))
        });
        let job = RecordWrite { key: id, write, change: put_notice };
        let others = self.audiences.begin_write(&audiences).await.invalidating();
        let written = self.mutations.write_with(&self.notices, job, [others]).await?;
        if is_new.load(Ordering::Acquire) {
            self.counts.complete(prepared, &written.record.audiences).await;
        }
        let changed = written.record.audiences.iter();
        let missed: Vec<AudienceId> =
            changed.map(|changed| changed.id).filter(|id| !audiences.contains(id)).collect();
        if missed.is_empty() {
            return Ok(written);
        }
        let others = self.audiences.begin_write(&missed).await.invalidating();
        let token = match others.committed().await {
            Ok(token) => covering(Some(written.token), token),
            Err(_) => written.token,
        };
        Ok(Committed { record: written.record, token })
    }

    async fn allocate(&self) -> Result<NoticeId, Error> {
        let id = self.ids.next().await.map_err(|error| Error::store(NOTICES, &error))?;
        valid("notice_id", NoticeId::new(id))
    }

    /// Removes an audience's entries that expired an hour before `now`. Must be called within
    /// [`Mutations::run`](crate::write::mutations::Mutations::run).
    pub(super) async fn remove_expired(&self, id: AudienceId, now: Timestamp) -> Result<(), StoreError> {
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move {
            let record = store.remove_expired(id, now).await?;
            Ok(Applied { record, replayed: false })
        });
        let change = |_: &Arc<bool>| Change::Invalidate { version: None };
        let job = RecordWrite { key: id, write, change };
        self.mutations.write(&self.audiences, job).await.map(drop)
    }
}

/// Whether a change may assign slots in the audiences that are known before the write.
fn may_assign_slots(change: &NoticeChange) -> bool {
    match change {
        NoticeChange::Publish(_) => true,
        NoticeChange::Update(patch) => patch.make_unread || patch.audiences.is_some(),
        NoticeChange::Delete(_) => false,
    }
}

fn put_notice(changed: &Arc<NoticeChangeResult>) -> Change<kith_store::Notice> {
    let version = cache_version(changed.version);
    match &changed.notice {
        Some(notice) => Change::Put { value: Arc::new(notice.clone()), version },
        None => Change::Deleted { version },
    }
}
