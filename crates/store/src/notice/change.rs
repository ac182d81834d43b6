//! How notices change.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Audience, AudienceChange, AudienceId, NewNotice, Notice, NoticeId, NoticePatch, NoticeRefusal, Slot,
};
use crate::{StoreError, Stored, Timestamp, Version, Write};

/// A change to a notice, made in all of its audiences or in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeChange {
    /// Publishes the notice.
    Publish(NewNotice),
    /// Changes fields.
    Update(NoticePatch),
    /// Removes it from these audiences; from all, if none is named. Without an audience it is deleted.
    Delete(Vec<AudienceId>),
}

/// The records that a change writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeDecision {
    /// The notice, or its stub's version.
    pub notice: Result<Notice, Version>,
    /// The changed audiences.
    pub audiences: Vec<Audience>,
    /// The write's result.
    pub changed: NoticeChangeResult,
}

/// How a change left the notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeChangeResult {
    /// The version of the notice, or its stub.
    pub version: Version,
    /// The notice; `None`: it was deleted.
    pub notice: Option<Notice>,
    /// The audiences that were changed.
    pub audiences: Vec<ChangedAudience>,
}

/// An audience that changed with a notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedAudience {
    /// The audience's id.
    pub id: AudienceId,
    /// The audience's version after the change.
    pub version: Version,
    /// Slots that the change assigned.
    pub slots: Vec<Slot>,
}

impl NoticeChange {
    /// The audiences that the change may affect, which must be read before it is decided. Each once.
    #[must_use]
    pub fn audiences(&self, before: &Stored<Notice>) -> Vec<AudienceId> {
        let before = match before {
            Stored::Live(notice) => notice.audiences.as_slice(),
            Stored::Deleted(_) | Stored::Never => &[],
        };
        let named = match self {
            Self::Publish(new) => new.audiences.as_slice(),
            Self::Update(patch) => patch.audiences.as_deref().unwrap_or_default(),
            Self::Delete(_) => &[],
        };
        let mut all = [before, named].concat();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Decides the change to the notice `id` from its stored state and the state of [`Self::audiences`].
    ///
    /// # Errors
    /// [`StoreError::IdTaken`], [`StoreError::NotFound`], [`StoreError::Conflict`],
    /// [`StoreError::ParamsTooLarge`] or a [`NoticeRefusal`].
    pub fn decide(
        &self,
        id: NoticeId,
        before: &Stored<Notice>,
        audiences: &[Audience],
        write: &Write,
        live_max: usize,
    ) -> Result<NoticeDecision, StoreError> {
        let after = self.notice_after(id, before, write)?;
        let listed = after.as_ref().map_or(&[][..], |notice| notice.audiences.as_slice());
        if listed.iter().any(|id| !audiences.iter().any(|audience| audience.id == *id)) {
            return Err(NoticeRefusal::NoAudience.into());
        }
        let mut changed = Vec::new();
        for audience in audiences {
            if let Some(change) = self.of_audience(id, after.as_ref().ok(), audience.id) {
                changed.extend(change.apply(audience, live_max)?.map(|after| (audience, after)));
            }
        }
        Ok(decision(after, changed))
    }

    /// The notice after the change, or its stub's version.
    fn notice_after(
        &self,
        id: NoticeId,
        before: &Stored<Notice>,
        write: &Write,
    ) -> Result<Result<Notice, Version>, StoreError> {
        let before: &Arc<Notice> = match (self, before) {
            (Self::Publish(new), Stored::Never) => return published(id, new, write.now).map(Ok),
            (Self::Publish(_), _) => return Err(StoreError::IdTaken),
            (_, Stored::Live(before)) => before,
            (_, Stored::Deleted(_) | Stored::Never) => return Err(StoreError::NotFound),
        };
        if write.expected.is_some_and(|expected| expected != before.version) {
            return Err(StoreError::Conflict { current: before.version });
        }
        let version = before.version.next();
        let after = match self {
            Self::Update(patch) => updated(patch, before, write.now)?,
            Self::Delete(named) => without(before, named, write.now),
            Self::Publish(_) => return Err(StoreError::IdTaken),
        };
        if after.audiences.is_empty() { Ok(Err(version)) } else { Ok(Ok(Notice { version, ..after })) }
    }

    /// How an audience changes; `None`: it stays as it is.
    fn of_audience(
        &self,
        id: NoticeId,
        after: Option<&Notice>,
        audience: AudienceId,
    ) -> Option<AudienceChange> {
        let is_unread = matches!(self, Self::Update(patch) if patch.make_unread);
        match after.filter(|notice| notice.audiences.contains(&audience)) {
            // Removing a notice from some audiences leaves the entries in the others unchanged, also expired
            // entries.
            Some(_) if matches!(self, Self::Delete(_)) => None,
            Some(notice) => Some(AudienceChange::Put { notice: id, terms: notice.terms, is_unread }),
            None => Some(AudienceChange::Remove(id)),
        }
    }
}

fn published(id: NoticeId, new: &NewNotice, now: Timestamp) -> Result<Notice, StoreError> {
    let NewNotice { title, body, params, audiences, terms } = new.clone();
    let (version, created, updated) = (Version::FIRST, now, now);
    let notice = Notice { id, version, revision: 1, title, body, params, audiences, terms, created, updated };
    check_times(&notice)?;
    Ok(notice)
}

fn updated(patch: &NoticePatch, before: &Notice, now: Timestamp) -> Result<Notice, StoreError> {
    let after = patch.apply(before, now);
    if after.terms.publish != before.terms.publish && before.terms.publish <= now {
        return Err(NoticeRefusal::Published.into());
    }
    if !after.params.fits() {
        return Err(StoreError::ParamsTooLarge);
    }
    check_times(&after)?;
    Ok(after)
}

/// The notice without these audiences; without any, if none is named.
fn without(before: &Notice, named: &[AudienceId], now: Timestamp) -> Notice {
    let mut audiences = before.audiences.clone();
    audiences.retain(|id| !named.is_empty() && !named.contains(id));
    Notice { audiences, updated: now, ..before.clone() }
}

fn check_times(notice: &Notice) -> Result<(), NoticeRefusal> {
    let is_early = notice.terms.expire.is_some_and(|expire| expire <= notice.terms.publish);
    if is_early { Err(NoticeRefusal::ExpiresTooEarly) } else { Ok(()) }
}

fn decision(notice: Result<Notice, Version>, changed: Vec<(&Audience, Audience)>) -> NoticeDecision {
    let audience = |(before, after): &(&Audience, Audience)| ChangedAudience {
        id: after.id,
        version: after.version,
        slots: (before.next_slot..after.next_slot).collect(),
    };
    let changed_audiences = changed.iter().map(audience).collect();
    let version = notice.as_ref().map_or_else(|version| *version, |notice| notice.version);
    let kept = notice.as_ref().ok().cloned();
    NoticeDecision {
        notice,
        audiences: changed.into_iter().map(|(_, after)| after).collect(),
        changed: NoticeChangeResult { version, notice: kept, audiences: changed_audiences },
    }
}
