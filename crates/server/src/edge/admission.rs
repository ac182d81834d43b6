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
use tokio::time::Instant;
use tonic::Status;

use super::{
    answer,
    close_signal::CloseSignal,
    deadline::{self, Deadlines},
    methods::Method,
};
use crate::auth::{
    Refused, Rule,
    principal::{self, Authentication},
};

const ACTING: &str = "kith-acting-user";

/// A call that may begin.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) call: Call,
    pub(super) by: principal::Principal,
}

impl Admitted {
    /// What ends a stream of this call before its time: its caller is removed, expires, or gets other rights. Costs a lock.
    pub(super) fn ended(&self) -> Option<CloseSignal> {
        self.by
            .configured()
            .map(|caller| CloseSignal::new(caller.ended.clone(), || principal::refused().into()))
    }
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

/// Reads what the call says of itself, and takes its credentials out of the headers.
pub(super) fn admit(
    auth: &Authentication,
    headers: &mut HeaderMap,
    method: &Method,
    deadlines: Deadlines,
    started: Instant,
) -> Result<Admitted, Denied> {
    let deadline = deadline::of(headers, started, deadlines)?;
    let by = caller(auth, headers, method)?;
    let acting = acting_user(headers)?;
    let refused = |error| Refused::by_rule(error, by.configured().cloned(), acting.user());
    check(&by, method.rule, acting).map_err(refused)?;
    let by_node = matches!(by, principal::Principal::Node);
    let call = Call { deadline, principal: acting, rights: by.rights(), caller: by.caller(), by_node };
    Ok(Admitted { call, by })
}

/// Who calls. What is open asks for no credential, and looks at none.
fn caller(
    auth: &Authentication,
    headers: &mut HeaderMap,
    method: &Method,
) -> Result<principal::Principal, Refused> {
    match auth.of(headers, || format!("{}/{}", method.service, method.name)) {
        Ok(Some(by)) => Ok(by),
        Ok(None) | Err(_) if method.rule.is_open() => Ok(principal::Principal::Anonymous),
        Ok(None) => Err(Refused::missing()),
        Err(refused) => Err(refused),
    }
}

fn check(by: &principal::Principal, rule: Rule, acting: Principal) -> Result<(), Error> {
    match by {
        principal::Principal::Node => rule.check_node(),
        principal::Principal::Anonymous | principal::Principal::Caller(_) => rule.check(by.rights(), acting),
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
