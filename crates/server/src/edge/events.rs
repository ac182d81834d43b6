//! Calls that are security events: which calls these are, and what the edge knows about them.

use http::HeaderMap;
use kith_proto::r#type::v1::{Access, Action};
use kith_service::rpc::audit_notes::AuditNotes;
use kith_store::UserId;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::codes::code_name;
use crate::{
    auth::identity::Identity,
    telemetry::audit::{CallLine, CallOutcome},
};

/// The methods that change a role, or whether a user is let in, by service.
const WRITES: [(&str, &str, Event); 5] = [
    ("kith.member.v1.MemberService", "SetRole", Event::Role),
    ("kith.group.v1.GroupService", "TransferGroup", Event::Owner),
    ("kith.user.v1.UserService", "SuspendUser", Event::Access),
    ("kith.user.v1.UserService", "ResumeUser", Event::Access),
    ("kith.user.v1.UserService", "SignOutUser", Event::Access),
];

/// The security event that a method's calls are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Nodes are changed, or what is stored is repaired.
    AdminWrite,
    Import,
    Export,
    /// An invite code is read or replaced.
    InviteCode,
    /// A member gets another role.
    Role,
    /// A group gets another owner.
    Owner,
    /// A user is suspended, resumed or signed out.
    Access,
}

impl Event {
    /// The event for a method with this access. `None`: its calls are no security events.
    pub(super) fn of(service: &str, method: &str, access: &Access) -> Option<Self> {
        match access.action() {
            Action::AdminWrite => Some(Self::AdminWrite),
            Action::Import => Some(Self::Import),
            // Systems call it several times a second; that a system begins to follow is an event (GetCursor).
            Action::Export if method == "ReadChanges" => None,
            Action::Export => Some(Self::Export),
            Action::Secret if method.ends_with("InviteCode") => Some(Self::InviteCode),
            Action::Secret | Action::Read | Action::AdminRead | Action::Unspecified => None,
            Action::Write => {
                WRITES.iter().find(|write| (write.0, write.1) == (service, method)).map(|write| write.2)
            }
        }
    }

    /// The names in its log lines: when a call begins, and when it ends.
    const fn names(self) -> (Option<&'static str>, &'static str) {
        match self {
            Self::AdminWrite => (None, "admin_write"),
            Self::Import => (Some("import_begin"), "import_end"),
            Self::Export => (Some("export_begin"), "export_end"),
            Self::InviteCode => (None, "invite_code"),
            Self::Role => (None, "role_change"),
            Self::Owner => (None, "owner_change"),
            Self::Access => (None, "access_change"),
        }
    }
}

/// A call that is a security event, until it ends.
#[derive(Debug)]
pub(super) struct EventCall {
    event: Event,
    by: Identity,
    acting_user: Option<UserId>,
    trace_id: Option<String>,
    notes: AuditNotes,
    reason: Option<String>,
}

impl EventCall {
    pub(super) fn new(event: Event, by: Identity, acting_user: Option<UserId>, headers: &HeaderMap) -> Self {
        let (trace_id, notes) = (trace_id(headers), AuditNotes::default());
        Self { event, by, acting_user, trace_id, notes, reason: None }
    }

    /// Notes for the call's handler.
    pub(super) fn notes(&self) -> AuditNotes {
        self.notes.clone()
    }

    /// Writes that it begins, where it may take long.
    pub(super) fn begin(&self, service: &str, method: &str) {
        if let (Some(name), _) = self.event.names() {
            self.line(name, service, method).write(None);
        }
    }

    pub(super) fn fail(&mut self, status: &Status) {
        self.reason = status.get_error_details().error_info().map(|info| info.reason.clone());
    }

    /// Writes that it has ended.
    pub(super) fn end(&self, service: &str, method: &str, code: Code) {
        let streams = matches!(self.event, Event::Import | Event::Export);
        let records = streams.then(|| self.notes.records());
        let ended = CallOutcome { code: code_name(code), reason: self.reason.as_deref(), records };
        self.line(self.event.names().1, service, method).write(Some(&ended));
    }

    fn line<'a>(&'a self, event: &'static str, service: &'a str, method: &'a str) -> CallLine<'a> {
        let (caller, key) = self.by.name();
        let (acting_user, trace_id, notes) = (self.acting_user, self.trace_id.as_deref(), &self.notes);
        CallLine { event, caller, key, acting_user, service, method, trace_id, notes }
    }
}

/// The trace that the caller names (W3C `traceparent`), whether spans are exported or not.
pub(super) fn trace_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("traceparent")?.to_str().ok()?.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;
    use crate::descriptors;

    #[test]
    fn events_follow_the_action_of_the_rule() {
        let pool = DescriptorPool::decode(kith_proto::DESCRIPTOR_SET).unwrap();
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let of = |method: &prost_reflect::MethodDescriptor| {
            let event = Event::of(
                method.parent_service().full_name(),
                method.name(),
                &descriptors::access(method).unwrap(),
            )?;
            Some(format!("{} {}", method.name(), event.names().1))
        };
        let mut events: Vec<_> = methods.filter_map(|method| of(&method)).collect();
        events.sort();
        let expected = [
            "ExportDialogs export_end",
            "ExportGroups export_end",
            "ExportMembers export_end",
            "ExportSettings export_end",
            "ExportUsers export_end",
            "FlushMemory admin_write",
            "GetCursor export_end",
            "GetInviteCode invite_code",
            "ImportDialogs import_end",
            "ImportFollows import_end",
            "ImportGroups import_end",
            "ImportMembers import_end",
            "ImportMessages import_end",
            "ImportSettings import_end",
            "ImportUsers import_end",
            "InvalidateKey admin_write",
            "RebuildCounts admin_write",
            "RepairEdges admin_write",
            "ResumeUser access_change",
            "Resync admin_write",
            "RotateInviteCode invite_code",
            "SetLogFilter admin_write",
            "SetRole role_change",
            "SignOutUser access_change",
            "StartEpoch admin_write",
            "SuspendUser access_change",
            "TransferGroup owner_change",
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn trace_ids_have_32_hexadecimal_digits() {
        let of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", value.parse().unwrap());
            trace_id(&headers)
        };
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").as_deref(), Some(id));
        for wrong in ["", "00", "00-4bf9-00f067aa0ba902b7-01", "00-ann@example.org-and-the-other-text-x-1-01"]
        {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(trace_id(&HeaderMap::new()), None);
    }
}
