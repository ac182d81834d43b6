//! Notice records.

use serde::{Deserialize, Serialize};

use super::AudienceId;
use crate::{Invalid, Params, ParamsPatch, Text, Timestamp, Version, fold, heap_bytes, id::id, single_line};

/// The most audiences that a notice may have.
pub const NOTICE_AUDIENCES_MAX: usize = 64;
const TITLE_CHARS_MAX: usize = 200;

id! {
    /// Identifies a notice. 1 to `i64::MAX`.
    NoticeId
}

/// A notice as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The notice's id.
    pub id: NoticeId,
    /// This state's version.
    pub version: Version,
    /// 1 at first; rises by 1 with every update.
    pub revision: i64,
    /// The title, in one line.
    pub title: Text,
    /// The notice's body.
    pub body: Text,
    /// Further parameters.
    pub params: Params,
    /// Its audiences; each once, in the order of the request.
    pub audiences: Vec<AudienceId>,
    /// See [`NoticeTerms`].
    pub terms: NoticeTerms,
    /// When the record was created.
    pub created: Timestamp,
    /// When it was changed last.
    pub updated: Timestamp,
}

impl Notice {
    /// Checks a title: one line with 1 to 200 characters, see [`single_line`].
    ///
    /// # Errors
    /// When it is empty or longer, or contains a character that is not allowed.
    pub fn check_title(title: &str) -> Result<Text, Invalid> {
        let title = single_line(title, TITLE_CHARS_MAX)?;
        if fold(&title).is_empty() {
            return Err(Invalid::fixed("must not be empty"));
        }
        Ok(title)
    }

    /// The record's approximate size in memory, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let audiences = self.audiences.capacity() * size_of::<AudienceId>();
        size_of::<Self>()
            + heap_bytes(&self.title)
            + heap_bytes(&self.body)
            + self.params.weight()
            + audiences
    }
}

/// A notice's terms: its visibility and its position in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeTerms {
    /// When it becomes visible.
    pub publish: Timestamp,
    /// When it stops being visible; `None`: it is visible until it is deleted.
    pub expire: Option<Timestamp>,
    /// Whether it is listed before notices that are not pinned.
    pub pinned: bool,
    /// Whether it needs a confirmation. Never changes.
    pub must_confirm: bool,
    /// Whether readers who came after its publish time see it.
    pub for_newcomers: bool,
}

/// A notice to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNotice {
    /// See [`Notice::title`].
    pub title: Text,
    /// See [`Notice::body`].
    pub body: Text,
    /// See [`Notice::params`].
    pub params: Params,
    /// The audiences, at most [`NOTICE_AUDIENCES_MAX`], each once.
    pub audiences: Vec<AudienceId>,
    /// See [`Notice::terms`].
    pub terms: NoticeTerms,
}

/// A partial change to a notice: `None` leaves a field unchanged, `Some(None)` unsets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticePatch {
    /// See [`Notice::title`].
    pub title: Option<Text>,
    /// See [`Notice::body`].
    pub body: Option<Text>,
    /// See [`Notice::params`].
    pub params: ParamsPatch,
    /// See [`NewNotice::audiences`].
    pub audiences: Option<Vec<AudienceId>>,
    /// See [`NoticeTerms::publish`].
    pub publish: Option<Timestamp>,
    /// See [`NoticeTerms::expire`].
    pub expire: Option<Option<Timestamp>>,
    /// See [`NoticeTerms::pinned`].
    pub pinned: Option<bool>,
    /// See [`NoticeTerms::for_newcomers`].
    pub for_newcomers: Option<bool>,
    /// Whether it becomes unread for all readers.
    pub make_unread: bool,
}

impl NoticePatch {
    /// The notice after the change, except its version.
    pub(super) fn apply(&self, before: &Notice, now: Timestamp) -> Notice {
        let mut params = before.params.clone();
        params.apply(&self.params);
        let terms = NoticeTerms {
            publish: self.publish.unwrap_or(before.terms.publish),
            expire: self.expire.unwrap_or(before.terms.expire),
            pinned: self.pinned.unwrap_or(before.terms.pinned),
            must_confirm: before.terms.must_confirm,
            for_newcomers: self.for_newcomers.unwrap_or(before.terms.for_newcomers),
        };
        Notice {
            id: before.id,
            version: before.version,
            revision: before.revision.saturating_add(1),
            title: self.title.as_ref().unwrap_or(&before.title).clone(),
            body: self.body.as_ref().unwrap_or(&before.body).clone(),
            params,
            audiences: self.audiences.as_ref().unwrap_or(&before.audiences).clone(),
            terms,
            created: before.created,
            updated: now,
        }
    }
}
