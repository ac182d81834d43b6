use std::{collections::BTreeSet, fmt, time::Duration};

use async_trait::async_trait;

use crate::{
    Application, ApplicationChange, ApplicationId, ApplicationKey, Applied, GroupId, PendingRequests,
    Receiver, StoreError, Timestamp, UserId, Write,
};

/// Most applications that one call marks.
pub const APPLICATIONS_AT_ONCE: usize = 100;
/// A change as young as this is left to the node that made it.
pub const LEFT_TO_WHO_CHANGED: Duration = Duration::from_secs(3);

/// A list of applications, by rising id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplicationList {
    /// Those that a user has made; of invites: that it made in the name of groups.
    Sent(UserId),
    /// Those that a user has received: to itself, and to groups that it owned or was an admin of when they were made.
    Received(UserId),
    /// Those of a group: to be let in, and invites in its name.
    Group(GroupId),
}

impl ApplicationList {
    /// As it is stored: which kind of list, and whose.
    #[must_use]
    pub const fn numbers(self) -> (i32, i64) {
        match self {
            Self::Sent(user) => (0, user.get()),
            Self::Received(user) => (1, user.get()),
            Self::Group(group) => (2, group.get()),
        }
    }
}

/// An entry of an application in a list, with the marks of the list's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedApplication {
    /// As it is.
    pub application: Application,
    /// When the owner of the list got it first; `None`: not yet.
    pub received: Option<Timestamp>,
    /// When the owner of the list read it first; `None`: not yet.
    pub read: Option<Timestamp>,
}

/// What the owner of a list notes about an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApplicationMark {
    /// That it has come.
    Received,
    /// That it was read, and so has come.
    Read,
}

/// The ids, rising, each once.
///
/// # Errors
/// [`StoreError::Overloaded`] for more than [`APPLICATIONS_AT_ONCE`].
pub fn distinct_ids(ids: &[ApplicationId]) -> Result<Vec<ApplicationId>, StoreError> {
    if ids.len() > APPLICATIONS_AT_ONCE {
        return Err(StoreError::Overloaded);
    }
    Ok(BTreeSet::from_iter(ids.iter().copied()).into_iter().collect())
}

/// An application of which something may have been left undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DueApplication {
    /// Which.
    pub key: ApplicationKey,
    /// Where the store has noted it.
    pub noted: (i64, i64),
}

/// What may have been left undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueApplications {
    /// Some of it, the oldest first.
    pub due: Vec<DueApplication>,
    /// Where the next search looks: nothing more is left elsewhere.
    pub mark: Option<Vec<u8>>,
}

/// Durable home of [`Application`] records and of the lists that they stand in. What is decided about those to one receiver
/// is decided in one order, each by one step; the lists follow before a change is acknowledged, and soon where the node dies
/// between.
///
/// What an acceptance brings about is not done here: it is outstanding until [`ApplicationChange::Settle`], and due from
/// [`LEFT_TO_WHO_CHANGED`] after the acceptance on.
#[async_trait]
pub trait ApplicationStore: Send + Sync + fmt::Debug + 'static {
    /// Makes a change in one atomic step, as [`PendingRequests::change`] decides it from the stored state, and returns
    /// the application after the change. Ignores `write.expected`: each change has its own conditions.
    ///
    /// # Errors
    /// [`StoreError::Application`] if it is refused, [`StoreError::NotFound`] if the application does not exist,
    /// [`StoreError::RequestMismatch`]: then nothing is changed. Else see [`StoreError::outcome`].
    async fn change_application(
        &self,
        receiver: Receiver,
        change: ApplicationChange,
        write: Write,
    ) -> Result<Applied<Application>, StoreError>;

    /// Reads one application. `None`: there is none, or it is forgotten. Sees every change that was acknowledged before.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn get_application(&self, key: ApplicationKey) -> Result<Option<Application>, StoreError>;

    /// Reads how many are pending with a receiver. One that has run out counts until it is ended.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn count_pending(&self, receiver: Receiver) -> Result<PendingRequests, StoreError>;

    /// Reads a list by rising id above `after`, at most `limit`: fewer only at the end. Costs the same at any depth, and
    /// something for each month between `after` and the first that is found.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn list_applications(
        &self,
        list: ApplicationList,
        after: ApplicationId,
        limit: usize,
    ) -> Result<Vec<ListedApplication>, StoreError>;

    /// Marks entries of a list as received or read at this moment; earlier marks stay. Returns the entries that are in
    /// the list, after the marks, by rising id; others are ignored.
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

    /// Looks for what may have been left undone, from where an earlier search said on; at most `limit`.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn due_applications(
        &self,
        from: Option<&[u8]>,
        now: Timestamp,
        limit: usize,
    ) -> Result<DueApplications, StoreError>;

    /// Completes what is incomplete of an application within the store, and returns it if something [is
    /// due](Application::is_due) that the caller has to do; else it is no longer due.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn resume_application(
        &self,
        due: DueApplication,
        now: Timestamp,
    ) -> Result<Option<Application>, StoreError>;

    /// Deletes up to `limit` expired entries; returns how many it deleted. A store that does so by itself returns 0.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn forget_applications(&self, now: Timestamp, limit: usize) -> Result<u64, StoreError>;
}
