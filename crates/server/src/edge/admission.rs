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
    body::StreamEnd,
    close_signal::CloseSignal,
    deadline::{self, Deadlines},
    methods::Method,
};
use crate::auth::{
    Rule,
    principal::{self, Authentication, missing},
};

const ACTING: &str = "kith-acting-user";

/// A call that may begin.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) call: Call,
    by: principal::Principal,
}

impl Admitted {
    /// What ends a stream of this call before its time: its caller is removed, expires, or gets other rights; the key of its
    /// user's token is removed. Costs a lock.
    pub(super) fn ended(&self) -> Option<CloseSignal> {
        let ended = match &self.by {
            principal::Principal::Caller(caller) => &caller.ended,
            principal::Principal::User(user) => &user.ended,
            principal::Principal::Anonymous | principal::Principal::Node => return None,
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

/// Reads what the call says of itself, and takes its credentials out of the headers.
pub(super) fn admit(
    auth: &Authentication,
    headers: &mut HeaderMap,
    method: &Method,
    deadlines: Deadlines,
    started: Instant,
) -> Result<Admitted, Box<Status>> {
    let deadline = deadline::of(headers, started, deadlines)?;
    let by = caller(auth, headers, method).map_err(boxed)?;
    let acting = acting_user(headers)?;
    check(&by, method.rule, acting).map_err(boxed)?;
    Ok(Admitted { call: call(&by, acting, deadline), by })
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
) -> Result<principal::Principal, Error> {
    match auth.of(headers, || format!("{}/{}", method.service, method.name)) {
        Ok(Some(by)) => Ok(by),
        Ok(None) | Err(_) if method.rule.is_open() => Ok(principal::Principal::Anonymous),
        Ok(None) => Err(missing()),
        Err(refused) => Err(refused),
    }
}

fn check(by: &principal::Principal, rule: Rule, acting: Principal) -> Result<(), Error> {
    match by {
        principal::Principal::Node => rule.check_node(),
        principal::Principal::User(_) => rule.check_user(acting != Principal::Service),
        principal::Principal::Anonymous | principal::Principal::Caller(_) => rule.check(by.rights(), acting),
    }
}

fn boxed(error: Error) -> Box<Status> {
    Box::new(error.into())
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
