//! What is checked of a call before it takes a slot: its deadline, its credential, the acting user, and the rule of its method.
//!
//! The one place where rights are checked: gRPC, gRPC-Web, JSON and the calls of sockets all pass it. Whose record a call
//! may read or change is decided by the domains, which see the message.

use http::HeaderMap;
use kith_service::{
    error::Error,
    rpc::call::{Call, Principal},
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
    Cause, Refused, Rule,
    principal::{self, Authentication, Found, InProcess},
    tokens::Unverified,
};

const ACTING: &str = "kith-acting-user";
/// Names of W3C Trace Context and of Baggage.
const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// A call that may begin.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) call: Call,
    pub(super) by: principal::Principal,
}

impl Admitted {
    /// What ends a stream of this call before its time: its caller is removed, expires, or gets other rights; the key of its
    /// user's token is removed. Costs a lock.
    pub(super) fn ended(&self) -> Option<CloseSignal> {
        let ended = match &self.by {
            principal::Principal::Caller(caller) => &caller.ended,
            principal::Principal::User(user) => &user.ended,
            principal::Principal::Anonymous | principal::Principal::Node | principal::Principal::Gateway => {
                return None;
            }
        };
        Some(CloseSignal::new(ended.clone(), refused))
    }

    /// When and how a stream of this call ends at the latest: at its deadline, or with the token of its user.
    pub(super) fn last(&self) -> StreamEnd {
        match &self.by {
            principal::Principal::User(user) if user.ends < self.call.deadline => {
                StreamEnd { at: user.ends, status: refused }
            }
            _ => StreamEnd { at: self.call.deadline, status: answer::deadline_exceeded },
        }
    }
}

fn refused() -> Status {
    principal::refused().into()
}

/// A call that may not begin.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) status: Box<Status>,
    /// Set if its credential or its rights are the cause.
    pub(super) refused: Option<Box<Refused>>,
}

impl From<Box<Status>> for Denied {
    fn from(status: Box<Status>) -> Self {
        Self { status, refused: None }
    }
}

impl From<Refused> for Denied {
    fn from(refused: Refused) -> Self {
        Self { status: Box::new(refused.error.clone().into()), refused: Some(Box::new(refused)) }
    }
}

/// What came of the first look at a call.
pub(super) enum Admission {
    Admitted(Admitted),
    /// The signature of a token has to be verified.
    Waiting(Waiting),
}

/// A call of a user whose token has not been verified yet.
pub(super) struct Waiting {
    deadline: Instant,
    rule: Rule,
    acting: Principal,
    token: Unverified,
}

impl Waiting {
    /// Verifies the token, before the deadline of the call.
    pub(super) async fn verify(self) -> Result<Admitted, Denied> {
        let verified = timeout_at(self.deadline, self.token.verify()).await;
        let verified = verified.map_err(|_elapsed| Box::new(answer::deadline_exceeded()))?;
        let user = verified.map_err(|_cause| Refused::of(Cause::Token))?;
        admitted(principal::Principal::User(user), self.rule, self.acting, self.deadline)
    }
}

/// Reads what the call says of itself, and takes its credentials out of the headers. `by`: who makes it, if it is one of this
/// process.
pub(super) fn admit(
    auth: &Authentication,
    headers: &mut HeaderMap,
    by: Option<InProcess>,
    method: &Method,
    deadlines: Deadlines,
    started: Instant,
) -> Result<Admission, Denied> {
    let deadline = deadline::of(headers, started, deadlines)?;
    let found = match by {
        Some(by) => Authentication::in_process(by, started).map(Found::Principal),
        None => caller(auth, headers, method, started),
    };
    let (rule, acting) = (method.rule, acting_user(headers)?);
    match found? {
        Found::Principal(by) => {
            if matches!(by, principal::Principal::User(_)) {
                forget_trace(headers);
            }
            admitted(by, rule, acting, deadline).map(Admission::Admitted)
        }
        Found::Token(token) => {
            forget_trace(headers);
            Ok(Admission::Waiting(Waiting { deadline, rule, acting, token }))
        }
    }
}

fn admitted(
    by: principal::Principal,
    rule: Rule,
    acting: Principal,
    deadline: Instant,
) -> Result<Admitted, Denied> {
    let refused = |error| Refused::by_rule(error, by.configured().cloned(), acting.user());
    check(&by, rule, acting).map_err(refused)?;
    Ok(Admitted { call: call(&by, acting, deadline), by })
}

/// Users do not choose in which trace their calls appear, or that they are traced at all.
fn forget_trace(headers: &mut HeaderMap) {
    for name in TRACE {
        headers.remove(name);
    }
}

fn call(by: &principal::Principal, acting: Principal, deadline: Instant) -> Call {
    use principal::Principal as By;
    let user = if let By::User(user) = by { Some(user.id) } else { None };
    Call {
        deadline,
        principal: user.map_or(acting, Principal::User),
        rights: by.rights(),
        caller: by.caller(),
        by_node: matches!(by, By::Node),
        by_user: user.is_some(),
    }
}

/// Who calls. What is open asks for no credential, and looks at none.
fn caller(
    auth: &Authentication,
    headers: &mut HeaderMap,
    method: &Method,
    started: Instant,
) -> Result<Found, Refused> {
    let found = auth.of(headers, started, || format!("{}/{}", method.service, method.name));
    match found {
        Ok(Some(Found::Principal(by))) => Ok(Found::Principal(by)),
        _ if method.rule.is_open() => Ok(Found::Principal(principal::Principal::Anonymous)),
        Ok(Some(token @ Found::Token(_))) => Ok(token),
        Ok(None) => Err(Refused::missing()),
        Err(refused) => Err(refused),
    }
}

fn check(by: &principal::Principal, rule: Rule, acting: Principal) -> Result<(), Error> {
    use principal::Principal as By;
    match by {
        By::Node => rule.check_node(),
        By::User(_) => rule.check_user(acting != Principal::Service),
        By::Anonymous | By::Caller(_) | By::Gateway => rule.check(by.rights(), acting),
    }
}

/// Who acts; the service itself when nothing is said.
fn acting_user(headers: &HeaderMap) -> Result<Principal, Box<Status>> {
    let Some(value) = headers.get(ACTING) else { return Ok(Principal::Service) };
    let wrong = |why: &str| Box::new(answer::invalid_metadata(ACTING, why));
    if headers.get_all(ACTING).iter().nth(1).is_some() {
        return Err(wrong("must be given once"));
    }
    let text = value.to_str().map_err(|_| wrong("must be a whole number above 0"))?;
    let user: UserId = text.parse().map_err(|why: kith_store::Invalid| wrong(&why.to_string()))?;
    Ok(Principal::User(user))
}
