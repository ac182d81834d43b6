//! How changes to applications are decided. All backends share these rules.

use serde::{Deserialize, Serialize};

use crate::{
    Application, ApplicationChange, ApplicationEffect, ApplicationKind, ApplicationRefusal, ApplicationState,
    Decision, NewApplication, StoreError, Timestamp, UserId, Version,
};

/// Counts the pending applications for one receiver. Every change to an application raises the version by
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRequests {
    /// The last change's version; [`Version::NONE`]: there never was an application.
    pub version: Version,
    /// Friend requests to a user, or applications to a group.
    pub requests: u32,
    /// Invites to groups.
    pub invites: u32,
}

/// How a change was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationTransition {
    /// The counts after the change.
    pub pending: PendingRequests,
    /// The application after the change.
    pub application: Application,
    /// The expired application that lost its slot to this application, after its end.
    pub ended: Option<Application>,
    /// Whether anything must be written.
    pub changed: bool,
}

impl ApplicationTransition {
    /// The applications to be written.
    pub fn rows(&self) -> impl Iterator<Item = &Application> {
        self.ended.iter().chain(self.changed.then_some(&self.application))
    }
}

impl PendingRequests {
    /// The number of pending applications, all kinds together.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.requests.saturating_add(self.invites)
    }

    /// Decides a change. `found` is its application: the application whose id is in the change, or the last
    /// in the slot. The caller must write the result on condition that the version is unchanged, which
    /// implies that both are.
    ///
    /// # Errors
    /// [`StoreError::Application`], or [`StoreError::NotFound`] if the application does not exist.
    pub fn change(
        self,
        found: Option<Application>,
        change: &ApplicationChange,
        now: Timestamp,
    ) -> Result<ApplicationTransition, StoreError> {
        if let ApplicationChange::Apply(new) = change {
            return self.apply(found, new, now);
        }
        let found = found.ok_or(StoreError::NotFound)?;
        match change {
            ApplicationChange::Apply(_) | ApplicationChange::ReplayOnly => Err(StoreError::NotFound),
            ApplicationChange::Decide(_, Decision::Accept, by) => {
                let accepted = self.decide(found, ApplicationState::Accepted, *by, now)?;
                Ok(with_effect(accepted, ApplicationEffect::Outstanding))
            }
            ApplicationChange::Decide(_, Decision::Refuse, by) => {
                self.decide(found, ApplicationState::Refused, *by, now)
            }
            ApplicationChange::Withdraw(_, by) => self.decide(found, ApplicationState::Withdrawn, *by, now),
            ApplicationChange::Close(_, by_then) => self.close(found, *by_then, now),
            ApplicationChange::Expire(_) => Ok(self.expire(found, now)),
            ApplicationChange::RecordEffect(_, effect) => Ok(self.record_effect(found, *effect)),
        }
    }

    fn apply(
        self,
        found: Option<Application>,
        new: &NewApplication,
        now: Timestamp,
    ) -> Result<ApplicationTransition, StoreError> {
        let before = found.filter(|found| found.state == ApplicationState::Pending);
        let (pending, ended) = match before {
            Some(open) if open.is_open(now) => return Ok(self.unchanged(open)),
            Some(expired) => {
                let ApplicationTransition { pending, application, .. } = self.expire(expired, now);
                (pending, Some(application))
            }
            None => (self, None),
        };
        if pending.total() >= new.pending_max {
            return Err(ApplicationRefusal::TooManyPending.into());
        }
        let pending = pending.counting(new.purpose.kind(), 1);
        Ok(ApplicationTransition {
            pending,
            application: made(new, pending.version, now),
            ended,
            changed: true,
        })
    }

    fn decide(
        self,
        found: Application,
        state: ApplicationState,
        by: Option<UserId>,
        now: Timestamp,
    ) -> Result<ApplicationTransition, StoreError> {
        if found.state != ApplicationState::Pending {
            return Err(ApplicationRefusal::Decided(found.state, found.decider).into());
        }
        if !found.is_open(now) {
            return Err(ApplicationRefusal::Decided(ApplicationState::Expired, None).into());
        }
        Ok(self.end(found, state, by, now))
    }

    fn close(
        self,
        found: Application,
        by_then: Timestamp,
        now: Timestamp,
    ) -> Result<ApplicationTransition, StoreError> {
        if found.state != ApplicationState::Pending || found.created > by_then {
            return Err(StoreError::NotFound);
        }
        Ok(self.end(found, ApplicationState::Closed, None, now))
    }

    fn expire(self, found: Application, now: Timestamp) -> ApplicationTransition {
        if found.state != ApplicationState::Pending || found.is_open(now) {
            return self.unchanged(found);
        }
        let at = found.expires;
        self.end(found, ApplicationState::Expired, None, at)
    }

    fn record_effect(self, found: Application, effect: ApplicationEffect) -> ApplicationTransition {
        if found.effect != ApplicationEffect::Outstanding || effect == ApplicationEffect::Outstanding {
            return self.unchanged(found);
        }
        let pending = Self { version: self.version.next(), ..self };
        let application = Application { effect, version: pending.version, ..found };
        ApplicationTransition { pending, application, ended: None, changed: true }
    }

    /// Ends a pending application, and counts it no longer.
    fn end(
        self,
        found: Application,
        state: ApplicationState,
        by: Option<UserId>,
        now: Timestamp,
    ) -> ApplicationTransition {
        let pending = self.counting(found.purpose.kind(), -1);
        let version = pending.version;
        let application = Application { state, decider: by, decided: Some(now), version, ..found };
        ApplicationTransition { pending, application, ended: None, changed: true }
    }

    fn unchanged(self, application: Application) -> ApplicationTransition {
        ApplicationTransition { pending: self, application, ended: None, changed: false }
    }

    fn counting(self, kind: ApplicationKind, more: i32) -> Self {
        let mut next = Self { version: self.version.next(), ..self };
        let count = match kind {
            ApplicationKind::Friend | ApplicationKind::Join => &mut next.requests,
            ApplicationKind::Invite => &mut next.invites,
        };
        *count = count.saturating_add_signed(more);
        next
    }
}

fn with_effect(mut transition: ApplicationTransition, effect: ApplicationEffect) -> ApplicationTransition {
    transition.application.effect = effect;
    transition
}

fn made(new: &NewApplication, version: Version, now: Timestamp) -> Application {
    Application {
        id: new.id,
        purpose: new.purpose,
        applicant: new.applicant,
        version,
        message: new.message.clone(),
        reference: new.reference.clone(),
        receivers: new.receivers.clone(),
        basis: Some(new.basis),
        state: ApplicationState::Pending,
        decider: None,
        effect: ApplicationEffect::None,
        created: now,
        expires: new.expires,
        decided: None,
        kept: new.kept,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{ApplicationBasis, ApplicationId, ApplicationPurpose, Text};

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn user(id: i64) -> UserId {
        UserId::new(id).unwrap()
    }

    fn new(low: u32) -> NewApplication {
        NewApplication {
            id: ApplicationId::at(NOW, low),
            purpose: ApplicationPurpose::Friend(user(2)),
            applicant: user(1),
            message: "Hi".into(),
            reference: Text::default(),
            receivers: vec![user(2)],
            basis: ApplicationBasis { applicant: NOW, user: Some(NOW), group: None, by_role: false },
            expires: Timestamp(NOW.0 + 1_000),
            kept: Duration::from_secs(60),
            pending_max: 2,
        }
    }

    fn applied() -> ApplicationTransition {
        PendingRequests::default().change(None, &ApplicationChange::Apply(new(1)), NOW).unwrap()
    }

    fn decide(
        transition: &ApplicationTransition,
        decision: Decision,
        by: i64,
        now: i64,
    ) -> Result<ApplicationTransition, StoreError> {
        let change = ApplicationChange::Decide(transition.application.id, decision, Some(user(by)));
        transition.pending.change(Some(transition.application.clone()), &change, Timestamp(now))
    }

    #[track_caller]
    fn refused(result: &Result<ApplicationTransition, StoreError>, why: ApplicationRefusal) {
        assert!(matches!(result, Err(StoreError::Application(refusal)) if *refusal == why), "{result:?}");
    }

    #[test]
    fn pending_application_survives_another() {
        let first = applied();
        let again = ApplicationChange::Apply(new(2));
        let second = first.pending.change(Some(first.application.clone()), &again, NOW).unwrap();
        assert!(!second.changed && second.rows().next().is_none());
        assert_eq!((second.application, second.pending), (first.application, first.pending));
    }

    #[test]
    fn first_decision_is_kept_and_returned() {
        let accepted = decide(&applied(), Decision::Accept, 2, NOW.0).unwrap();
        assert_eq!((accepted.pending.requests, accepted.pending.version.get()), (0, 2));
        assert_eq!(accepted.application.effect, ApplicationEffect::Outstanding);
        let why = ApplicationRefusal::Decided(ApplicationState::Accepted, Some(user(2)));
        refused(&decide(&accepted, Decision::Refuse, 3, NOW.0), why);
    }

    #[test]
    fn expired_application_frees_its_slot() {
        let first = applied();
        let late = NOW.0 + 1_000;
        let why = ApplicationRefusal::Decided(ApplicationState::Expired, None);
        refused(&decide(&first, Decision::Accept, 2, late), why);
        let again = ApplicationChange::Apply(NewApplication { expires: Timestamp(late + 9), ..new(2) });
        let second = first.pending.change(Some(first.application.clone()), &again, Timestamp(late)).unwrap();
        let states: Vec<_> = second.rows().map(|row| (row.id, row.state)).collect();
        let expected =
            [(first.application.id, ApplicationState::Expired), (new(2).id, ApplicationState::Pending)];
        assert_eq!((states, second.pending.requests), (expected.to_vec(), 1));
    }

    #[test]
    fn no_more_are_pending_than_may_be() {
        let full = PendingRequests { requests: 1, invites: 1, ..PendingRequests::default() };
        let change = ApplicationChange::Apply(new(1));
        refused(&full.change(None, &change, NOW), ApplicationRefusal::TooManyPending);
    }

    #[test]
    fn crossed_application_is_closed_newer_is_not() {
        let first = applied();
        let close = |then| ApplicationChange::Close(first.application.slot(), Timestamp(then));
        let found = || Some(first.application.clone());
        assert!(matches!(first.pending.change(found(), &close(NOW.0 - 1), NOW), Err(StoreError::NotFound)));
        let closed = first.pending.change(found(), &close(NOW.0), NOW).unwrap();
        assert_eq!((closed.application.state, closed.pending.requests), (ApplicationState::Closed, 0));
        let again = closed.pending.change(Some(closed.application), &close(NOW.0), NOW);
        assert!(matches!(again, Err(StoreError::NotFound)));
    }

    #[test]
    fn an_effect_is_settled_once() {
        let accepted = decide(&applied(), Decision::Accept, 2, NOW.0).unwrap();
        let settle = |effect| ApplicationChange::RecordEffect(accepted.application.id, effect);
        let change = settle(ApplicationEffect::Done);
        let done = accepted.pending.change(Some(accepted.application.clone()), &change, NOW).unwrap();
        assert_eq!((done.application.effect, done.pending.version.get()), (ApplicationEffect::Done, 3));
        let change = settle(ApplicationEffect::Refused);
        let again = done.pending.change(Some(done.application.clone()), &change, NOW).unwrap();
        assert!(!again.changed);
        assert_eq!(again.application.effect, ApplicationEffect::Done);
    }
}
