//! Security events: log lines with the target `kith::audit`, which no filter drops. They contain ids alone:
//! no user names, no addresses, texts or keys.

mod refusals;

use kith_service::rpc::audit_notes::AuditNotes;
use kith_store::UserId;

pub(crate) use self::refusals::RefusalLog;
use crate::auth::{CallerChange, KeyId};

/// The log target for all security events.
pub(crate) const TARGET: &str = "kith::audit";

/// A call that is a security event, as the edge knows it.
#[derive(Debug)]
pub(crate) struct CallLine<'a> {
    /// The event's name, such as `role_change`.
    pub(crate) event: &'static str,
    pub(crate) caller: &'a str,
    pub(crate) key: Option<KeyId>,
    pub(crate) acting_user: Option<UserId>,
    pub(crate) service: &'a str,
    pub(crate) method: &'a str,
    pub(crate) trace_id: Option<&'a str>,
    pub(crate) notes: &'a AuditNotes,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct CallOutcome<'a> {
    /// The gRPC code's name.
    pub(crate) code: &'static str,
    /// The reason that the error carries.
    pub(crate) reason: Option<&'a str>,
    /// Set for an import or an export.
    pub(crate) records: Option<u64>,
}

impl CallLine<'_> {
    /// Writes the line; without an end the call begins.
    pub(crate) fn write(&self, ended: Option<&CallOutcome<'_>>) {
        tracing::info!(
            target: TARGET,
            event = self.event,
            caller = self.caller,
            key_id = self.key.map(tracing::field::display),
            acting_user = self.acting_user.map(UserId::get),
            service = self.service,
            method = self.method,
            object = self.notes.object(),
            user = self.notes.user(),
            request_id = self.notes.request_id(),
            trace_id = self.trace_id,
            code = ended.map(|ended| ended.code),
            reason = ended.and_then(|ended| ended.reason),
            records = ended.and_then(|ended| ended.records),
            "security event"
        );
    }
}

/// Callers were added, removed or changed, by a reload of their files or by hand.
pub(crate) fn callers_changed(changes: &[CallerChange]) {
    let ids = |keys: &[KeyId]| {
        (!keys.is_empty()).then(|| keys.iter().map(KeyId::to_string).collect::<Vec<_>>().join(","))
    };
    for CallerChange { caller, kind, begun, ended } in changes {
        tracing::info!(
            target: TARGET,
            event = kind.event(),
            caller,
            keys_added = ids(begun),
            keys_ended = ids(ended),
            "security event"
        );
    }
}

/// The keys of token issuers changed, by a reload of their files.
pub(crate) fn issuer_keys_changed() {
    tracing::info!(target: TARGET, event = "issuer_keys_changed", "security event");
}

/// A command opened the data without a node, and did this, such as `backup`, or failed to.
pub fn command(event: &'static str, done: bool) {
    let code = if done { "OK" } else { "FAILED" };
    tracing::info!(target: TARGET, event, code, "security event");
}
