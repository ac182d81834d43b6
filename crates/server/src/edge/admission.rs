//! Checks a call before it takes a slot: its deadline, its credential, the acting user, and its method's
//! rule.
//!
//! Rights are checked only here: gRPC, gRPC-Web, JSON and socket calls all pass it. The domains, which see
//! the message, decide whose record a call may read or change.

use http::HeaderMap;
use kith_service::{
    error::Error,
    rpc::{
        answer_size::ANSWER_BYTES,
        call::{Call, CallAccess, CallSession, Principal},
    },
};
use kith_store::UserId;
use tokio::time::{Instant, timeout_at};
use tonic::Status;

use super::{
    answer,
    deadline::{self, Deadlines},
    ending::{CloseSignal, StreamEnd},
    methods::Method,
};
use crate::auth::{
    RefusalCause, RefusedCall, Rule,
    identity::{Authentication, Identity, IdentityLookup, InProcessIdentity},
    refused,
    tokens::UnverifiedToken,
};

const ACTING: &str = "kith-acting-user";
/// Header names in W3C Trace Context and Baggage.
const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// A call that may begin.
#[derive(Debug)]
pub(super) struct AdmittedCall {
    pub(super) call: Call,
    pub(super) by: Identity,
}

impl AdmittedCall {
    /// The signal that ends this call's stream before its time: its caller is removed, expires, or gets other
    /// rights, or the key behind its user's token is removed. Costs a lock.
    pub(super) fn close_signal(&self) -> Option<CloseSignal> {
        let ended = match &self.by {
            Identity::Caller(caller) => &caller.ended,
            Identity::User(user) => &user.ended,
            Identity::Anonymous | Identity::Node => return None,
        };
        Some(CloseSignal::new(ended.clone(), refused))
    }

    /// When and how this call's stream ends at the latest: at its deadline, or with its user's token.
    pub(super) fn latest_end(&self) -> StreamEnd {
        match &self.by {
            Identity::User(user) if user.ends < self.call.deadline => {
                StreamEnd { at: user.ends, status: refused }
            }
            _ => StreamEnd { at: self.call.deadline, status: answer::deadline_exceeded },
        }
    }
}

fn refused() -> Status {
    refused::refused().into()
}

/// A call that may not begin.
#[derive(Debug)]
pub(super) struct DeniedCall {
    pub(super) status: Box<Status>,
    /// Set if its credential or its rights are the cause.
    pub(super) refused: Option<Box<RefusedCall>>,
}

impl From<Box<Status>> for DeniedCall {
    fn from(status: Box<Status>) -> Self {
        Self { status, refused: None }
    }
}

impl From<RefusedCall> for DeniedCall {
    fn from(refused: RefusedCall) -> Self {
        Self { status: Box::new(refused.error.clone().into()), refused: Some(Box::new(refused)) }
    }
}

/// The result of the checks that need no signature verification.
pub(super) enum Admission {
    Admitted(AdmittedCall),
    /// The token's signature has to be verified.
    Unverified(UnverifiedCall),
}

/// A call whose user's token has not been verified yet.
pub(super) struct UnverifiedCall {
    deadline: Instant,
    rule: Rule,
    acting: Principal,
    token: UnverifiedToken,
}

impl UnverifiedCall {
    /// Verifies the token, before the call's deadline.
    pub(super) async fn verify(self) -> Result<AdmittedCall, DeniedCall> {
        let verified = timeout_at(self.deadline, self.token.verify()).await;
        let verified = verified.map_err(|_elapsed| Box::new(answer::deadline_exceeded()))?;
        let user = verified.map_err(|rule| RefusedCall::of(RefusalCause::Token(rule)))?;
        admitted(Identity::User(user), self.rule, self.acting, self.deadline)
    }
}

/// Reads the call's metadata, and takes its credentials out of the headers. `by` is set if this process makes
/// the call.
pub(super) fn admit(
    auth: &Authentication,
    headers: &mut HeaderMap,
    by: Option<InProcessIdentity>,
    method: &Method,
    deadlines: Deadlines,
    started: Instant,
) -> Result<Admission, DeniedCall> {
    let deadline = deadline::of(headers, started, deadlines)?;
    let found = match by {
        Some(by) => Authentication::in_process(by, started).map(IdentityLookup::Identity),
        None => caller(auth, headers, method, started),
    };
    let (rule, acting) = (method.rule, acting_user(headers)?);
    match found? {
        IdentityLookup::Identity(by) => {
            if matches!(by, Identity::User(_)) {
                forget_trace(headers);
            }
            admitted(by, rule, acting, deadline).map(Admission::Admitted)
        }
        IdentityLookup::Token(token) => {
            forget_trace(headers);
            Ok(Admission::Unverified(UnverifiedCall { deadline, rule, acting, token }))
        }
    }
}

fn admitted(
    by: Identity,
    rule: Rule,
    acting: Principal,
    deadline: Instant,
) -> Result<AdmittedCall, DeniedCall> {
    let refused = |error| RefusedCall::by_rule(error, by.configured().cloned(), acting.user());
    check(&by, rule, acting).map_err(refused)?;
    Ok(AdmittedCall { call: call(&by, acting, deadline), by })
}

/// Users do not choose in which trace their calls appear, or that they are traced at all.
fn forget_trace(headers: &mut HeaderMap) {
    for name in TRACE {
        headers.remove(name);
    }
}

fn call(by: &Identity, acting: Principal, deadline: Instant) -> Call {
    let user = if let Identity::User(user) = by { Some(user) } else { None };
    Call {
        deadline,
        principal: user.map_or(acting, |user| Principal::User(user.id)),
        rights: by.rights(),
        caller: by.caller(),
        by_node: matches!(by, Identity::Node),
        by_user: user.is_some(),
        answer_bytes: ANSWER_BYTES,
        delivers: false,
        access: CallAccess { issued: user.and_then(|user| user.issued), ..CallAccess::default() },
        session: CallSession::default(),
    }
}

/// Identifies the caller. An open method asks for no credential, and looks at none.
fn caller(
    auth: &Authentication,
    headers: &mut HeaderMap,
    method: &Method,
    started: Instant,
) -> Result<IdentityLookup, RefusedCall> {
    let found = auth.identify(headers, started, || format!("{}/{}", method.service, method.name));
    match found {
        Ok(Some(IdentityLookup::Identity(by))) => Ok(IdentityLookup::Identity(by)),
        _ if method.rule.is_open() => Ok(IdentityLookup::Identity(Identity::Anonymous)),
        Ok(Some(token @ IdentityLookup::Token(_))) => Ok(token),
        Ok(None) => Err(RefusedCall::missing()),
        Err(refused) => Err(refused),
    }
}

fn check(by: &Identity, rule: Rule, acting: Principal) -> Result<(), Error> {
    match by {
        Identity::Node => rule.check_node(),
        Identity::User(_) => rule.check_user(acting != Principal::Service),
        Identity::Anonymous | Identity::Caller(_) => rule.check(by.rights(), acting),
    }
}

/// The acting user; the service itself if the metadata names none.
fn acting_user(headers: &HeaderMap) -> Result<Principal, Box<Status>> {
    let Some(value) = headers.get(ACTING) else { return Ok(Principal::Service) };
    let invalid = |why: &str| Box::new(answer::invalid_metadata(ACTING, why));
    if headers.get_all(ACTING).iter().nth(1).is_some() {
        return Err(invalid("must be given once"));
    }
    let text = value.to_str().map_err(|_| invalid("must be a whole number above 0"))?;
    let user: UserId = text.parse().map_err(|why: kith_store::Invalid| invalid(&why.to_string()))?;
    Ok(Principal::User(user))
}
