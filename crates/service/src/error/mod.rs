//! Call errors, and the only place where they become a gRPC status.

pub mod damage;
mod link;
mod reason;
mod table;

use std::{borrow::Cow, fmt::Display, time::Duration};

use kith_cache::CacheError;
use kith_presence::PresenceError;
use kith_proto::r#type::v1::ResultError;
use kith_store::{ApplicationRefusal, Invalid, MemberRefusal, NoticeRefusal, Outcome, StoreError};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

pub use link::docs_at;
pub use reason::{Reason, ReasonEntry, Retry};

/// The trailer by which a server says when its client may repeat a call (gRFC A6).
const PUSHBACK: &str = "grpc-retry-pushback-ms";
/// Longest wait of [`PUSHBACK`]. A client library holds the call back for it, so a longer wait would end as
/// DEADLINE_EXCEEDED, and its caller would not see the reason.
const PUSHBACK_MAX: Duration = Duration::from_secs(1);

/// The `google.rpc.ErrorInfo.domain` in every error.
pub const ERROR_DOMAIN: &str = "kith";

/// A call's error. Its text names the invalid field or state, but never a value, a secret or a driver.
///
/// Functions of this crate that return it and name no errors in their docs return the store's errors only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    reason: Reason,
    message: Cow<'static, str>,
    field: Option<Cow<'static, str>>,
    /// Further `google.rpc.ErrorInfo.metadata`.
    facts: Vec<(&'static str, String)>,
    outcome: Outcome,
    /// When to retry, if that is later than the table says.
    wait: Option<Duration>,
}

impl Error {
    /// An error that changed nothing.
    pub fn new(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reason,
            message: message.into(),
            field: None,
            facts: Vec::new(),
            outcome: Outcome::NotApplied,
            wait: None,
        }
    }

    /// An invalid field. `why` follows its name: "must be above 0".
    pub fn invalid(field: impl Into<Cow<'static, str>>, why: &(impl Display + ?Sized)) -> Self {
        let field = field.into();
        Self::new(Reason::InvalidField, format!("{field} {why}")).at(field)
    }

    /// Nothing of this kind exists under the id or name.
    #[must_use]
    pub fn not_found(kind: &'static str) -> Self {
        Self::new(Reason::NotFound, format!("no such {kind}"))
    }

    /// The acting user may not do this.
    #[must_use]
    pub fn not_allowed(why: &'static str) -> Self {
        Self::new(Reason::NotAllowed, why)
    }

    /// Invalid metadata. `why` follows its name: "must be given once".
    #[must_use]
    pub fn metadata(name: &'static str, why: &str) -> Self {
        Self::new(Reason::InvalidMetadata, format!("{name} {why}")).at(name)
    }

    /// A fault of Kith. Callers get no details.
    #[must_use]
    pub const fn internal() -> Self {
        let message = Cow::Borrowed("something went wrong within Kith");
        Self {
            reason: Reason::Internal,
            message,
            field: None,
            facts: Vec::new(),
            outcome: Outcome::NotApplied,
            wait: None,
        }
    }

    /// The deadline passed.
    #[must_use]
    pub fn deadline() -> Self {
        Self::new(Reason::DeadlineExceeded, "the deadline passed")
    }

    /// Converts a store error of a write or read of a `kind` (user, group).
    #[must_use]
    pub fn store(kind: &'static str, error: &StoreError) -> Self {
        let found = match error {
            StoreError::NotFound => Self::not_found(kind),
            StoreError::Conflict { current } => {
                Self::new(Reason::VersionConflict, format!("the {kind} has version {current}"))
                    .at("expected_version")
            }
            StoreError::IdTaken => {
                Self::new(Reason::IdTaken, format!("{kind}_id is taken")).at(format!("{kind}_id"))
            }
            StoreError::IdHeld => Self::new(
                Reason::StateForbids,
                format!("{kind}_id was deleted a moment ago: it is free again once all of it has ended, after about a minute"),
            )
            .at(format!("{kind}_id")),
            StoreError::NameTaken => Self::new(Reason::NameTaken, "user_name is taken").at("user_name"),
            StoreError::Blocked => Self::new(Reason::StateForbids, "the other user does not allow it"),
            StoreError::Member(refusal) => refused(*refusal),
            StoreError::Application(refusal) => not_to_be_decided(*refusal),
            StoreError::TooManyRanges(refusal) => Self::new(Reason::TooManyRanges, refusal.to_string()),
            StoreError::Notice(refusal) => notice_refused(*refusal),
            StoreError::RequestMismatch => {
                Self::new(Reason::RequestIdReused, "request_id was used with another body").at("request_id")
            }
            StoreError::ParamsTooLarge => {
                Self::new(Reason::InvalidField, "params would be more or larger than they may be")
                    .at("params")
            }
            StoreError::Unavailable { .. } => {
                Self::new(Reason::StoreUnavailable, "the store is not available")
            }
            StoreError::NotConfigured { setting } => Self::new(
                Reason::NotConfigured,
                format!("not available on this cluster: {setting} is not set"),
            )
            .with("setting", *setting),
            StoreError::Full { .. } => Self::new(Reason::StoreFull, "the store has no room left"),
            StoreError::Overloaded => Self::new(Reason::Overloaded, "too much work waits for the store"),
            StoreError::Corrupt { source } => {
                damage::note(kind, source);
                Self::new(Reason::StoreDamaged, format!("the stored {kind} cannot be read: it is damaged"))
            }
            StoreError::NewerSchema { .. } | StoreError::HalfRestored | StoreError::Internal { .. } => {
                Self::internal()
            }
        };
        Self { outcome: error.outcome(), ..found }
    }

    /// Converts a tier error of a read of a `kind`.
    #[must_use]
    pub fn cache(kind: &'static str, error: &CacheError) -> Self {
        match error {
            CacheError::Load(load) => match (load.downcast_ref(), load.downcast_ref()) {
                (Some(error), _) => Self::store(kind, error),
                (None, Some(error)) => Self::presence(*error),
                (None, None) => Self::internal(),
            },
            CacheError::Timeout => Self::new(Reason::StoreUnavailable, "the store did not answer in time"),
            CacheError::Overloaded => Self::new(Reason::Overloaded, "too many reads wait for the store"),
            _ => Self::internal(),
        }
    }

    /// Converts an error of the presence storage.
    #[must_use]
    pub fn presence(error: PresenceError) -> Self {
        match error {
            PresenceError::Unavailable => {
                Self::new(Reason::StoreUnavailable, "presence is not available: Redis does not answer")
            }
            PresenceError::TooManySessions => {
                Self::new(Reason::TooManySessions, "the user has as many sessions as it may")
            }
            PresenceError::TooManyGateways => {
                Self::new(Reason::TooManySessions, "there are as many gateways as there may be")
            }
            PresenceError::Unexpected => Self::internal(),
        }
    }

    /// Names the field at fault.
    #[must_use]
    pub fn at(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Like `field`, but for a nested field.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        match self.field {
            Some(field) => Self { field: Some(format!("{outer}.{field}").into()), ..self },
            None => self,
        }
    }

    /// Adds metadata for programs: a fixed name, and no personal data.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.facts.push((name, value.into()));
        self
    }

    /// May be retried after this time, rounded up to seconds, and no earlier than the reason says.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        self.wait = self.reason.retry_after().map(|least| least.max(Duration::from_secs(seconds)));
        self
    }

    /// The reason, for callers to branch on.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the error as the answer for one batch item.
    #[must_use]
    pub fn to_result(&self) -> ResultError {
        ResultError {
            code: self.reason.code() as i32,
            reason: self.reason.name().to_owned(),
            field: self.field.as_deref().unwrap_or_default().to_owned(),
            message: self.message.clone().into_owned(),
            metadata: self.info().collect(),
        }
    }

    /// The `google.rpc.ErrorInfo.metadata`: the outcome, if a write may have been applied; if it was not,
    /// whether the same request may be sent again.
    fn info(&self) -> impl Iterator<Item = (String, String)> {
        let outcome = match self.outcome {
            Outcome::Unknown => Some("unknown"),
            Outcome::NotApplied => self.reason.retry_after().map(|_| "not_applied"),
        };
        let facts = self.facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        facts.chain(outcome.map(|outcome| ("outcome".to_owned(), outcome.to_owned())))
    }

    /// When the same request may be sent again; `None`: never.
    fn retry_after(&self) -> Option<Duration> {
        self.wait.or(self.reason.retry_after())
    }

    /// The value of [`PUSHBACK`]; below 0: a client library does not repeat the call. Only for the code that
    /// has reasons of both kinds: clients count a value below 0 as a node failure.
    fn pushback(&self) -> Option<String> {
        let wait = self.retry_after().filter(|wait| *wait <= PUSHBACK_MAX);
        let text = wait.map_or("-1".to_owned(), |wait| wait.as_millis().to_string());
        (self.reason.code() == Code::ResourceExhausted).then_some(text)
    }

    fn details(&self) -> ErrorDetails {
        let metadata: std::collections::HashMap<_, _> = self.info().collect();
        let mut details = ErrorDetails::with_error_info(self.reason.name(), ERROR_DOMAIN, metadata);
        if let (Some(field), Code::InvalidArgument) = (&self.field, self.reason.code()) {
            details.add_bad_request_violation(field.as_ref(), self.message.as_ref());
        }
        if let Some(after) = self.retry_after() {
            details.set_retry_info(Some(after));
        }
        details.add_help_link(format!("kith errors {}", self.reason.name()), self.reason.link());
        details
    }
}

/// Returns a field's value, or the error that names the field.
pub(crate) fn valid<T>(field: &'static str, value: Result<T, Invalid>) -> Result<T, Error> {
    value.map_err(|why| Error::invalid(field, &why))
}

/// The result when records are ended: without a store for them, a cluster has nothing to end.
pub(crate) fn or_none<T: Default>(ended: Result<T, Error>) -> Result<T, Error> {
    match ended {
        Err(error) if error.reason == Reason::NotConfigured => Ok(T::default()),
        ended => ended,
    }
}

fn refused(refusal: MemberRefusal) -> Error {
    match refusal {
        MemberRefusal::NotAMember => Error::not_found("member"),
        MemberRefusal::RoleTooLow => Error::not_allowed("the role of the acting user does not allow it"),
        MemberRefusal::Full
        | MemberRefusal::OwnerStays
        | MemberRefusal::HasOwner
        | MemberRefusal::TooManyBans(_) => Error::new(Reason::StateForbids, refusal.to_string()),
        MemberRefusal::Banned => Error::new(Reason::Banned, refusal.to_string()),
        MemberRefusal::BanIsOver => Error::invalid("ban_until", &refusal),
    }
}

fn not_to_be_decided(refusal: ApplicationRefusal) -> Error {
    match refusal {
        ApplicationRefusal::Decided(state, by) => {
            let error =
                Error::new(Reason::StateForbids, format!("the application is {} already", state.name()));
            let error = error.with("state", state.name());
            match by {
                Some(user) => error.with("decider_id", user.to_string()),
                None => error,
            }
        }
        ApplicationRefusal::TooManyPending => Error::new(Reason::TooManyPending, refusal.to_string()),
    }
}

fn notice_refused(refusal: NoticeRefusal) -> Error {
    let invalid = |field: &'static str| Error::invalid(field, &refusal);
    match refusal {
        NoticeRefusal::NoAudience => Error::not_found("audience"),
        NoticeRefusal::AnotherKind => invalid("of_users"),
        NoticeRefusal::ExpiresTooEarly => invalid("expire_time"),
        NoticeRefusal::Published => Error::new(Reason::StateForbids, refusal.to_string()),
        NoticeRefusal::TooManyAudiences | NoticeRefusal::TooManyNotices => {
            Error::new(Reason::TooManyNotices, refusal.to_string())
        }
        NoticeRefusal::TooManyReaders => Error::new(Reason::TooManyReaders, refusal.to_string()),
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error.reason {
            Reason::Internal => tracing::error!(outcome = ?error.outcome, "a call failed within Kith"),
            Reason::StoreUnavailable | Reason::StoreFull => {
                tracing::warn!(reason = error.reason.name(), outcome = ?error.outcome, "the store failed a call");
            }
            _ => {}
        }
        let mut status =
            Self::with_error_details(error.reason.code(), error.message.clone(), error.details());
        if let Some(pushback) = error.pushback().and_then(|text| text.parse().ok()) {
            status.metadata_mut().insert(PUSHBACK, pushback);
        }
        status
    }
}

#[cfg(test)]
mod tests;
