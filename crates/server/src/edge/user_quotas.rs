//! Limits how many calls a user may make with its own token.

use std::sync::Arc;

use kith_service::{
    error::Error,
    rpc::{
        call::Call,
        user_quota::{QuotaKind, UserQuota},
    },
};

use kith_store::UserId;
use parking_lot::Mutex;

use crate::{auth::Rule, config::LimitsConfig};

/// Unpacked request bytes that count as one call: they cost far more to decode than a call costs.
const UNIT: usize = 16 << 10;

/// Counts users' calls before they take a slot. Services are not counted, also when they act for a user: the
/// node does not know whom they have authenticated.
#[derive(Debug)]
pub(super) struct UserQuotas {
    calls: UserQuota,
    writes: UserQuota,
}

impl UserQuotas {
    pub(super) fn new(limits: &LimitsConfig) -> Self {
        Self {
            calls: UserQuota::new(QuotaKind::Calls, limits.user_calls_per_second),
            writes: UserQuota::new(QuotaKind::Writes, limits.user_writes_per_second),
        }
    }

    /// Counts one call to a method with this rule. A refused write counts as a call.
    ///
    /// # Errors
    /// QUOTA_EXCEEDED.
    pub(super) fn count(&self, call: Call, rule: Rule) -> Result<(), Error> {
        let user = call.user_itself();
        self.calls.count(user)?;
        if rule.writes() { self.writes.count(user) } else { Ok(()) }
    }

    /// Counts the bytes in a call that has been counted as one call.
    pub(super) fn meter(&self, call: Call) -> MessageMeter {
        let counted = call.user_itself().map(|user| (self.calls.clone(), user));
        MessageMeter { counted, bytes: 0 }
    }
}

/// Counts the bytes in a user's request: each begun 16 KiB after the first count as one more call.
#[derive(Debug)]
pub(crate) struct MessageMeter {
    /// `None`: nothing is counted.
    counted: Option<(UserQuota, UserId)>,
    bytes: usize,
}

impl MessageMeter {
    /// Counts nothing.
    pub(super) const fn none() -> Self {
        Self { counted: None, bytes: 0 }
    }

    /// Counts this many bytes more, before they are decoded.
    ///
    /// # Errors
    /// QUOTA_EXCEEDED.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<(), Error> {
        let Some((quota, user)) = &self.counted else { return Ok(()) };
        let before = calls_of(self.bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        quota.count_many(*user, calls_of(self.bytes) - before)
    }
}

/// Where the edge leaves a call's meter, if the call's body has another form than the message and so counts
/// its own bytes. Clones share one place.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeterSlot(Arc<Mutex<Option<MessageMeter>>>);

impl MeterSlot {
    pub(super) fn fill(&self, meter: MessageMeter) {
        *self.0.lock() = Some(meter);
    }

    /// Counts bytes if the edge has left a meter.
    ///
    /// # Errors
    /// QUOTA_EXCEEDED.
    pub(crate) fn count(&self, bytes: usize) -> Result<(), Error> {
        self.0.lock().as_mut().map_or(Ok(()), |meter| meter.count(bytes))
    }
}

/// How many calls a request with this many bytes is.
fn calls_of(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kith_proto::r#type::v1::{Access, Action, Users};
    use kith_service::{error::Reason, rpc::call::Principal};
    use kith_store::UserId;
    use tokio::time::{Instant, advance};

    use super::*;

    fn rule(action: Action) -> Rule {
        let access = Access { action: action.into(), users: Users::Any.into(), ..Access::default() };
        Rule::of("kith.group.v1.GroupService", "Method", &access).unwrap()
    }

    fn call(user: i64, by_user: bool) -> Call {
        let principal = Principal::User(UserId::new(user).unwrap());
        Call { principal, by_user, ..Call::internal(Instant::now()) }
    }

    /// How many of 100 such calls are counted, until one call is refused.
    fn counted(quotas: &UserQuotas, call: Call, action: Action) -> usize {
        let refused = (0..100).find_map(|at| Some((at, quotas.count(call, rule(action)).err()?)));
        let Some((at, refused)) = refused else { return 100 };
        assert_eq!(refused.reason(), Reason::QuotaExceeded);
        at
    }

    #[tokio::test(start_paused = true)]
    async fn user_has_calls_of_which_few_are_writes() {
        let quotas = UserQuotas::new(&LimitsConfig::default());
        for (user, action) in [(1, Action::Write), (2, Action::Secret)] {
            assert_eq!(counted(&quotas, call(user, true), action), 10, "{action:?}");
            // One call was refused as a write, and still counts as a call.
            assert_eq!(counted(&quotas, call(user, true), Action::Read), 39);
        }
        assert_eq!(counted(&quotas, call(3, true), Action::Read), 50, "another user");
        assert_eq!(counted(&quotas, call(3, true), Action::Write), 0);
        advance(Duration::from_millis(500)).await;
        assert_eq!(counted(&quotas, call(1, true), Action::Write), 5);
        assert_eq!(counted(&quotas, call(1, true), Action::Read), 19);
    }

    #[tokio::test(start_paused = true)]
    async fn large_messages_count_as_several_calls() {
        let quotas = UserQuotas::new(&LimitsConfig::default());
        let count = |bytes: &[usize]| {
            let mut meter = quotas.meter(call(7, true));
            bytes.iter().try_for_each(|bytes| meter.count(*bytes)).is_ok()
        };
        assert!((0..1_000).all(|_| count(&[UNIT])), "each is one call, which the edge has counted");
        assert!((0..40).all(|_| count(&[UNIT + 1])));
        assert!(count(&[9; UNIT]), "eight calls more, whatever their messages");
        assert!(count(&[UNIT, UNIT, 1]), "the last two");
        assert!(!count(&[UNIT + 1]));
        assert!((0..1_000).all(|_| count(&[UNIT])));
        let mut service = quotas.meter(call(7, false));
        assert!(service.count(usize::MAX).is_ok());
        advance(Duration::from_secs(1)).await;
        assert!(count(&[1 << 30]), "what is larger than the quota is not refused for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn zero_switches_a_quota_off() {
        let limits = LimitsConfig { user_writes_per_second: 0, ..LimitsConfig::default() };
        assert_eq!(counted(&UserQuotas::new(&limits), call(7, true), Action::Write), 50);
        let limits = LimitsConfig { user_calls_per_second: 0, ..LimitsConfig::default() };
        assert_eq!(counted(&UserQuotas::new(&limits), call(7, true), Action::Read), 100);
    }
}
