//! Why a change to a notice is refused.

/// Why a change to audiences or notices was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoticeRefusal {
    /// An audience is not registered.
    #[error("one of the audiences does not exist")]
    NoAudience,
    /// The audience is registered with other reader ids.
    #[error("must be as the audience was registered: it never changes")]
    AnotherKind,
    /// The audience limit is reached.
    #[error("there are as many audiences as there may be")]
    TooManyAudiences,
    /// The audience has reached its notice limit.
    #[error("one of the audiences has as many live notices as it may")]
    TooManyNotices,
    /// The audience has reached its reader limit.
    #[error("the audience has as many readers as it may")]
    TooManyReaders,
    /// The publish time is to change, and has passed.
    #[error("the publish time has passed, and does not change any more")]
    Published,
    /// The expire time is not after the publish time.
    #[error("must be after publish_time")]
    ExpiresTooEarly,
}
