//! How many calls a user may make by a token of its own.

use kith_service::{
    error::Error,
    rpc::{
        call::Call,
        user_quota::{QuotaKind, UserQuota},
    },
};

use crate::{auth::Rule, config::LimitsConfig};

/// Counts calls of users before they take a slot. Services are not counted, also when they act for a user: the node does not know
/// whom they have authenticated.
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

    /// Counts one call of a method with this rule. A write that is refused counts as a call.
    ///
    /// # Errors
    /// QUOTA_EXCEEDED.
    pub(super) fn count(&self, call: Call, rule: Rule) -> Result<(), Error> {
        let user = call.user_itself();
        self.calls.count(user)?;
        if rule.writes() { self.writes.count(user) } else { Ok(()) }
    }
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

    /// How many of 100 calls of this kind are counted, until one is refused.
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
            // One was refused as a write, and is a call.
            assert_eq!(counted(&quotas, call(user, true), Action::Read), 39);
        }
        assert_eq!(counted(&quotas, call(3, true), Action::Read), 50, "another user");
        assert_eq!(counted(&quotas, call(3, true), Action::Write), 0);
        advance(Duration::from_millis(500)).await;
        assert_eq!(counted(&quotas, call(1, true), Action::Write), 5);
        assert_eq!(counted(&quotas, call(1, true), Action::Read), 19);
    }

    #[tokio::test(start_paused = true)]
    async fn services_are_not_counted_also_for_a_user() {
        let quotas = UserQuotas::new(&LimitsConfig::default());
        assert_eq!(counted(&quotas, call(7, false), Action::Write), 100);
        assert_eq!(counted(&quotas, Call::internal(Instant::now()), Action::Write), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn zero_switches_a_quota_off() {
        let limits = LimitsConfig { user_writes_per_second: 0, ..LimitsConfig::default() };
        assert_eq!(counted(&UserQuotas::new(&limits), call(7, true), Action::Write), 50);
        let limits = LimitsConfig { user_calls_per_second: 0, ..LimitsConfig::default() };
        assert_eq!(counted(&UserQuotas::new(&limits), call(7, true), Action::Read), 100);
    }
}
