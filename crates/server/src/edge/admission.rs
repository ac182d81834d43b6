//! What is checked of a call before it takes a slot: its deadline, its credential, the acting user, and the rule of its method.
//!
//! The one place where rights are checked: gRPC, gRPC-Web, JSON and the calls of sockets all pass it. Whose record a call
//! may read or change is decided by the domains, which see the message.

use std::sync::Arc;

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
    deadline::{self, Deadlines},
    ending::CloseSignal,
    methods::Method,
};
use crate::auth::{
    Caller, Rule,
    principal::{self, Authentication, missing},
};

const ACTING: &str = "kith-acting-user";

/// A call that may begin.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) call: Call,
    /// `None`: an anonymous client, or another node.
    caller: Option<Arc<Caller>>,
}

impl Admitted {
    /// What ends a stream of this call before its time: its caller is removed, expires, or gets other rights. Costs a lock.
    pub(super) fn ended(&self) -> Option<CloseSignal> {
        self.caller
            .as_ref()
            .map(|caller| CloseSignal::new(caller.ended.clone(), || principal::refused().into()))
    }
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
    let by_node = matches!(by, principal::Principal::Node);
    let call = Call { deadline, principal: acting, rights: by.rights(), caller: by.caller(), by_node };
    let caller = match by {
        principal::Principal::Caller(caller) => Some(caller),
        principal::Principal::Anonymous | principal::Principal::Node => None,
    };
    Ok(Admitted { call, caller })
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
