//! Converts user access between the wire and the domain.

use std::time::Duration;

use kith_proto::user::v1 as wire;
use kith_store::{AccessChange, Suspension, Timestamp, UserAccess};

use crate::{
    error::{Error, valid},
    rpc::versions::{moment, wire_time},
};

/// How far in the future a sign-out may be: clocks differ, and a later sign-out would lock the user out.
const AHEAD_MAX: Duration = Duration::from_secs(60);

/// The suspension that a request asks for.
pub(crate) fn suspension(request: &wire::SuspendUserRequest) -> Result<AccessChange, Error> {
    let until = request.until.as_ref().map(|until| moment("until", until)).transpose()?;
    if until.is_some_and(|until| until <= Timestamp::now()) {
        return Err(Error::invalid("until", "must be in the future"));
    }
    valid("reason", Suspension::new(until, &request.reason)).map(AccessChange::Suspend)
}

/// The latest issue time for tokens that a request refuses.
pub(crate) fn sign_out_time(request: &wire::SignOutUserRequest) -> Result<AccessChange, Error> {
    let now = Timestamp::now();
    let before = request.issued_before.as_ref().map(|time| moment("issued_before", time)).transpose()?;
    let before = before.unwrap_or(now);
    if before > now.after(AHEAD_MAX) {
        return Err(Error::invalid("issued_before", "must be at most a minute in the future"));
    }
    Ok(AccessChange::RefuseTokens(Timestamp(before.0 - 1)))
}

/// The access as services see it. A suspension that has ended is not shown.
pub(crate) fn to_wire(access: &UserAccess) -> wire::UserAccess {
    let suspension = access.suspension.as_ref().filter(|_| access.is_suspended(Timestamp::now()));
    let from = Some(access.tokens_from).filter(|from| *from != Timestamp(0));
    wire::UserAccess {
        user_id: access.user.get(),
        suspended: suspension.is_some(),
        suspended_until: suspension.and_then(|suspension| suspension.until).map(wire_time),
        suspension_reason: suspension.map(|suspension| suspension.reason.to_string()).unwrap_or_default(),
        tokens_issued_from: from.map(|from| wire_time(Timestamp(from.0.saturating_add(1)))),
    }
}
