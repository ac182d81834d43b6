//! How many records a user who itself calls may read: ids are consecutive, so it could read them all
//! otherwise.

use kith_store::UserId;

use crate::{
    error::Error,
    rpc::{
        call::Call,
        user_quota::{QuotaKind, QuotaSubject, TakenQuota, UserQuota},
    },
};

/// Counts the records that users read. Cheap to clone. Costs a comparison for services, which are not
/// counted, also if they act for a user.
#[derive(Clone, Debug)]
pub struct RecordQuota(UserQuota);

/// A page that a call may read. While it is read, all is counted, so that many pages at the same time are not
/// more than the quota; after that what was [answered](Self::answered), and one record at least. A failed
/// page counts as one record.
#[derive(Debug)]
#[must_use = "a page that is dropped counts as one record"]
pub struct PageQuota {
    /// The most records on the page.
    pub size: usize,
    reserved: Option<(UserQuota, TakenQuota)>,
    answered: usize,
}

impl RecordQuota {
    /// Creates it with this limit per minute; 0: any number.
    #[must_use]
    pub fn per_minute(most: u32) -> Self {
        Self(UserQuota::new(QuotaKind::Records, most))
    }

    /// Counts records that a call names, found or not.
    ///
    /// # Errors
    /// QUOTA_EXCEEDED; then none is counted.
    pub fn count(&self, call: Call, many: usize) -> Result<(), Error> {
        let Some(user) = counted_user(call) else { return Ok(()) };
        self.0.take(QuotaSubject::User(user), many).map(drop).map_err(Error::from)
    }

    /// The page size: at most `size` records. A user's page is no larger than its whole quota.
    ///
    /// # Errors
    /// QUOTA_EXCEEDED if the user may not read as many now.
    pub fn page(&self, call: Call, size: usize) -> Result<PageQuota, Error> {
        let Some(user) = counted_user(call) else {
            return Ok(PageQuota { size, reserved: None, answered: 0 });
        };
        let size = self.0.most().map_or(size, |most| size.min(most));
        let taken = self.0.take(QuotaSubject::User(user), size.max(1))?;
        Ok(PageQuota { size, reserved: taken.map(|taken| (self.0.clone(), taken)), answered: 0 })
    }
}

/// The user whose records these are; `None`: they are not counted.
const fn counted_user(call: Call) -> Option<UserId> {
    if call.delivers { None } else { call.user_itself() }
}

impl PageQuota {
    /// Counts the records that the answer has.
    pub const fn answered(&mut self, records: usize) {
        self.answered = records;
    }
}

impl Drop for PageQuota {
    fn drop(&mut self) {
        if let Some((quota, taken)) = self.reserved.take() {
            quota.give_back(&taken, self.answered.max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::{error::Reason, rpc::call::Principal};

    fn call(by_user: bool) -> Call {
        let principal = Principal::User(UserId::new(7).unwrap());
        Call { principal, by_user, ..Call::internal(Instant::now()) }
    }

    fn left(quota: &RecordQuota) -> usize {
        (0..).find(|_| quota.count(call(true), 1).is_err()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn page_counts_what_it_answers_and_one_at_least() {
        let quota = RecordQuota::per_minute(100);
        let mut page = quota.page(call(true), 50).unwrap();
        page.answered(20);
        drop(page);
        drop(quota.page(call(true), 50).unwrap());
        let mut empty = quota.page(call(true), 50).unwrap();
        empty.answered(0);
        drop(empty);
        assert_eq!(left(&quota), 100 - 22);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_pages_stay_within_quota() {
        let quota = RecordQuota::per_minute(100);
        let pages = [50, 50].map(|size| quota.page(call(true), size).unwrap());
        let refused = quota.page(call(true), 1).unwrap_err();
        assert_eq!(refused.reason(), Reason::QuotaExceeded);
        drop(pages);
        assert_eq!(left(&quota), 98);
    }

    #[tokio::test(start_paused = true)]
    async fn page_of_a_user_is_no_larger_than_its_quota() {
        let quota = RecordQuota::per_minute(100);
        assert_eq!(quota.page(call(true), 1_000).unwrap().size, 100);
        assert_eq!(quota.page(call(false), 1_000).unwrap().size, 1_000);
        assert_eq!(RecordQuota::per_minute(0).page(call(true), 1_000).unwrap().size, 1_000);
    }
}
