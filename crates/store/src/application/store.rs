//! The store for applications, and their lists.

use std::{collections::BTreeSet, fmt, time::Duration};

use async_trait::async_trait;

use crate::{
    Application, ApplicationChange, ApplicationId, ApplicationKey, Applied, GroupId, PendingRequests,
    Receiver, StoreError, Timestamp, UserId, Write, at_most,
};

/// The most applications in one call that marks.
pub const APPLICATIONS_AT_ONCE: usize = 100;
/// For this long after a change, its completion is left to the node that made it.
pub const COMPLETION_GRACE: Duration = Duration::from_secs(3);

/// A list with applications, by rising id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplicationList {
    /// Applications that a user made, also invites in the name of a group.
    Sent(UserId),
    /// Applications to a user, and to the groups where it was owner or admin when they were made.
    Received(UserId),
    /// Applications to a group, and invites in its name.
    Group(GroupId),
}

impl ApplicationList {
    /// The stored form: the kind of list, and its owner.
    #[must_use]
    pub const fn numbers(self) -> (i32, i64) {
        match self {
            Self::Sent(user) => (0, user.get()),
            Self::Received(user) => (1, user.get()),
            Self::Group(group) => (2, group.get()),
        }
    }
}

/// An application's entry in a list, with the marks that the list's owner made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedApplication {
    /// The application.
    pub application: Application,
    /// When the list's owner received it first; `None`: not yet.
    pub received: Option<Timestamp>,
    /// When the list's owner read it first; `None`: not yet.
    pub read: Option<Timestamp>,
}

/// The marks that a list's owner can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApplicationMark {
    /// Marks it as received.
    Received,
    /// Read, which implies received.
    Read,
}

/// The ids in rising order, each once.
///
/// # Errors
/// [`StoreError::Overloaded`] for more than [`APPLICATIONS_AT_ONCE`].
pub fn distinct_ids(ids: &[ApplicationId]) -> Result<Vec<ApplicationId>, StoreError> {
    at_most(ids.len(), APPLICATIONS_AT_ONCE)?;
    Ok(BTreeSet::from_iter(ids.iter().copied()).into_iter().collect())
}

/// An application that may be incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DueApplication {
    /// The application.
    pub key: ApplicationKey,
    /// Where the store keeps its note.
    pub noted: (i64, i64),
}

/// The incomplete applications that a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueApplications {
    /// Some incomplete applications, the oldest first.
    pub due: Vec<DueApplication>,
    /// Where the next search begins: everything before is complete.
    pub mark: Option<Vec<u8>>,
}

/// Storage for [`Application`] records and the lists that contain them. Changes to the applications for one
/// receiver are serial, each in one atomic step. The lists are updated before a change is acknowledged, or
/// soon after if the node dies in between.
///
/// The store does not carry out an acceptance's effect: it is outstanding until
/// [`ApplicationChange::RecordEffect`], and due from [`COMPLETION_GRACE`] after the acceptance on.
#[async_trait]
pub trait ApplicationStore: Send + Sync + fmt::Debug + 'static {
    /// Makes a change in one atomic step, as [`PendingRequests::change`] decides it from the stored state,
    /// and returns the application after the change. Ignores `write.expected`: each change has its own
    /// conditions.
    ///
    /// # Errors
    /// [`StoreError::Application`] if it is refused, [`StoreError::NotFound`] if the application does not
    /// exist, [`StoreError::RequestMismatch`]: then nothing is changed. For other errors see
    /// [`StoreError::outcome`].
    async fn change_application(
        &self,
        receiver: Receiver,
        change: ApplicationChange,
        write: Write,
    ) -> Result<Applied<Application>, StoreError>;

    /// Reads one application. `None`: there is none, or it was deleted. Sees every change that was
    /// acknowledged before.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn get_application(&self, key: ApplicationKey) -> Result<Option<Application>, StoreError>;

    /// Reads how many applications to a receiver are pending. An expired application counts until it is
    /// ended.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn count_pending(&self, receiver: Receiver) -> Result<PendingRequests, StoreError>;

    /// Reads a list by rising id above `after`, at most `limit`: fewer only at the end. Costs the same at any
    /// depth, plus a small cost for each month between `after` and the first result.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn list_applications(
        &self,
        list: ApplicationList,
        after: ApplicationId,
        limit: usize,
    ) -> Result<Vec<ListedApplication>, StoreError>;

    /// Marks list entries as received or read at this time; earlier marks are kept. Returns the entries that
    /// are in the list, after the marks, by rising id; others are ignored.
    ///
    /// # Errors
    /// If the store cannot answer, some may be marked; [`StoreError::Overloaded`] for more than
    /// [`APPLICATIONS_AT_ONCE`].
    async fn mark_applications(
        &self,
        list: ApplicationList,
        ids: &[ApplicationId],
        mark: ApplicationMark,
        now: Timestamp,
    ) -> Result<Vec<ListedApplication>, StoreError>;

    /// Searches for incomplete applications, from the mark that an earlier search returned; at most `limit`.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn due_applications(
        &self,
        from: Option<&[u8]>,
        now: Timestamp,
        limit: usize,
    ) -> Result<DueApplications, StoreError>;

    /// Completes an application's data within the store, and returns it if work [is due](Application::is_due)
    /// that the caller has to do. Otherwise it is no longer due.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn resume_application(
        &self,
        due: DueApplication,
        now: Timestamp,
    ) -> Result<Option<Application>, StoreError>;

    /// Deletes up to `limit` expired entries; returns how many it deleted. A store with expiry returns 0.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn forget_applications(&self, now: Timestamp, limit: usize) -> Result<u64, StoreError>;
}
