//! Notifies other domains about changed applications.

use std::fmt::Debug;

use kith_store::{ApplicationKey, UserId};

/// Is notified when an application was made, decided or withdrawn: after it is stored. Not when it is closed,
/// since a block or a deleted account may be the cause, of which the other side must not learn.
pub trait ApplicationListener: Debug + Send + Sync {
    /// `users` are the applicant and those who may decide. Does not block.
    fn changed(&self, users: Vec<UserId>, application: ApplicationKey);
}
