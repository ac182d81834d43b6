//! Applications between the wire and the domain. Raw numbers and strings do not pass this module.

use kith_proto::application::v1 as wire;
use kith_store::{
    APPLICATIONS_AT_ONCE, Application, ApplicationId, ApplicationKey, ApplicationList, ApplicationPurpose,
    Decision, Edge, GroupId, Invalid, ListedApplication, Permissions, Receiver, RelationEvent,
    RelationEventKind, UserId,
};

use super::applications::ApplicationDraft;
use crate::{
    error::{Error, valid},
    rpc::{call::Principal, ids, versions::wire_time},
};

/// An application's purpose.
pub(super) fn draft(request: wire::ApplyRequest, principal: Principal) -> Result<ApplicationDraft, Error> {
    let applicant = applicant(request.applicant_id, principal)?;
    let purpose = purpose(&request, applicant)?;
    Ok(ApplicationDraft {
        purpose,
        applicant,
        message: valid("message", Application::message(&request.message))?,
        reference: valid("reference", Application::reference(&request.reference))?,
        code: request.code,
    })
}

/// The applicant: the named user, or else the acting user.
fn applicant(named: i64, principal: Principal) -> Result<UserId, Error> {
    match (named, principal) {
        (0, Principal::User(user)) => Ok(user),
        (named, _) => ids::user("applicant_id", named),
    }
}

fn purpose(request: &wire::ApplyRequest, applicant: UserId) -> Result<ApplicationPurpose, Error> {
    let group = || ids::group(request.group_id);
    let other = || {
        let edge = UserId::new(request.user_id).and_then(|other| Edge::new(applicant, other));
        valid("user_id", edge).map(|edge| edge.to)
    };
    let none = |field, id| match id {
        0 => Ok(()),
        _ => Err(Error::invalid(field, "must be 0 for this kind")),
    };
    match wire::Kind::try_from(request.kind) {
        Ok(wire::Kind::Friend) => {
            none("group_id", request.group_id).and_then(|()| Ok(ApplicationPurpose::Friend(other()?)))
        }
        Ok(wire::Kind::Join) => {
            none("user_id", request.user_id).and_then(|()| Ok(ApplicationPurpose::Join(group()?)))
        }
        Ok(wire::Kind::Invite) => Ok(ApplicationPurpose::Invite(group()?, other()?)),
        Ok(wire::Kind::Unspecified) | Err(_) => {
            Err(Error::invalid("kind", "must be KIND_FRIEND, KIND_JOIN or KIND_INVITE"))
        }
    }
}

pub(super) fn receiver(receiver: Option<wire::Receiver>) -> Result<Receiver, Error> {
    use wire::receiver::Receiver as Of;
    match receiver.and_then(|receiver| receiver.receiver) {
        Some(Of::UserId(id)) => ids::user("receiver.user_id", id).map(Receiver::User),
        Some(Of::GroupId(id)) => valid("receiver.group_id", GroupId::new(id)).map(Receiver::Group),
        None => Err(Error::invalid("receiver", "must be a user or a group")),
    }
}

pub(super) fn key(of: Option<wire::Receiver>, application_id: i64) -> Result<ApplicationKey, Error> {
    let receiver = receiver(of)?;
    Ok(ApplicationKey { receiver, id: valid("application_id", ApplicationId::new(application_id))? })
}

pub(super) fn decision(number: i32) -> Result<Decision, Error> {
    match wire::Decision::try_from(number) {
        Ok(wire::Decision::Accept) => Ok(Decision::Accept),
        Ok(wire::Decision::Refuse) => Ok(Decision::Refuse),
        Ok(wire::Decision::Unspecified) | Err(_) => {
            Err(Error::invalid("decision", "must be DECISION_ACCEPT or DECISION_REFUSE"))
        }
    }
}

/// The requested list.
pub(super) fn list(list: Option<wire::list_applications_request::List>) -> Result<ApplicationList, Error> {
    use wire::list_applications_request::List;
    match list {
        Some(List::SentBy(id)) => ids::user("sent_by", id).map(ApplicationList::Sent),
        Some(List::ReceivedBy(id)) => ids::user("received_by", id).map(ApplicationList::Received),
        Some(List::GroupId(id)) => ids::group(id).map(ApplicationList::Group),
        None => Err(Error::invalid("list", "must be sent_by, received_by or group_id")),
    }
}

/// The id after which a list begins; 0: at its beginning.
pub(super) fn after<T>(number: i64, id: fn(i64) -> Result<T, Invalid>) -> Result<Option<T>, Error> {
    (number != 0).then(|| valid("after_id", id(number))).transpose()
}

/// The applications that a call marks.
pub(super) fn ids(ids: &[i64]) -> Result<Vec<ApplicationId>, Error> {
    if ids.is_empty() || ids.len() > APPLICATIONS_AT_ONCE {
        let why = format!("must be 1 to {APPLICATIONS_AT_ONCE} ids, not {}", ids.len());
        return Err(Error::invalid("application_ids", &why));
    }
    ids.iter().map(|id| valid("application_ids", ApplicationId::new(*id))).collect()
}

/// Kinds, states and effects are stored as the contract's numbers.
pub(super) fn application_to_wire(application: &Application) -> wire::Application {
    let user_id = match application.purpose {
        ApplicationPurpose::Friend(user) | ApplicationPurpose::Invite(_, user) => user.get(),
        ApplicationPurpose::Join(_) => 0,
    };
    wire::Application {
        application_id: application.id.get(),
        kind: application.purpose.kind() as i32,
        applicant_id: application.applicant.get(),
        user_id,
        group_id: application.purpose.group().map_or(0, GroupId::get),
        message: application.message.to_string(),
        reference: application.reference.to_string(),
        state: application.state as i32,
        decider_id: application.decider.map_or(0, UserId::get),
        effect: application.effect as i32,
        create_time: Some(wire_time(application.created)),
        expire_time: Some(wire_time(application.expires)),
        decide_time: application.decided.map(wire_time),
        version: application.version.get(),
    }
}

pub(super) fn listed_to_wire(listed: &ListedApplication) -> wire::ListedApplication {
    wire::ListedApplication {
        application: Some(application_to_wire(&listed.application)),
        receive_time: listed.received.map(wire_time),
        read_time: listed.read.map(wire_time),
    }
}

pub(super) fn event_to_wire(event: &RelationEvent) -> wire::RelationEvent {
    let bits = |set: Option<Permissions>| set.map(|set| u32::from(set.bits()));
    let (deed, before, after) = match event.kind {
        RelationEventKind::Unfriended => (wire::Deed::Unfriended, None, None),
        RelationEventKind::SetPermissions { before, after } => {
            (wire::Deed::SetPermissions, bits(before), bits(after))
        }
    };
    wire::RelationEvent {
        event_id: event.id.get(),
        deed: deed.into(),
        user_id: event.edge.from.get(),
        target_id: event.edge.to.get(),
        permissions_before: before,
        permissions_after: after,
        time: Some(wire_time(event.id.moment())),
    }
}

#[cfg(test)]
mod tests {
    use kith_store::{ApplicationEffect, ApplicationKind, ApplicationState};

    use super::*;

    #[test]
    fn stored_numbers_are_those_of_the_contract() {
        for (stored, sent) in [
            (ApplicationKind::Friend, wire::Kind::Friend),
            (ApplicationKind::Join, wire::Kind::Join),
            (ApplicationKind::Invite, wire::Kind::Invite),
        ] {
            assert_eq!(stored as i32, sent as i32);
        }
        for (stored, sent) in [
            (ApplicationState::Pending, wire::State::Pending),
            (ApplicationState::Accepted, wire::State::Accepted),
            (ApplicationState::Refused, wire::State::Refused),
            (ApplicationState::Withdrawn, wire::State::Withdrawn),
            (ApplicationState::Closed, wire::State::Closed),
            (ApplicationState::Expired, wire::State::Expired),
        ] {
            assert_eq!(stored as i32, sent as i32);
        }
        for (stored, sent) in [
            (ApplicationEffect::None, wire::Effect::Unspecified),
            (ApplicationEffect::Outstanding, wire::Effect::Outstanding),
            (ApplicationEffect::Done, wire::Effect::Done),
            (ApplicationEffect::Refused, wire::Effect::Refused),
        ] {
            assert_eq!(stored as i32, sent as i32);
        }
    }

    fn asked(kind: wire::Kind, user_id: i64, group_id: i64) -> Result<ApplicationPurpose, Error> {
        let request = wire::ApplyRequest { kind: kind.into(), user_id, group_id, ..Default::default() };
        draft(request, Principal::User(UserId::new(7).unwrap())).map(|draft| draft.purpose)
    }

    #[test]
    fn each_kind_names_only_what_it_needs() {
        assert!(asked(wire::Kind::Friend, 8, 0).is_ok());
        assert!(asked(wire::Kind::Join, 0, 9).is_ok());
        assert!(asked(wire::Kind::Invite, 8, 9).is_ok());
        for (kind, user, group) in [
            (wire::Kind::Friend, 8, 9),
            (wire::Kind::Friend, 7, 0),
            (wire::Kind::Friend, 0, 0),
            (wire::Kind::Join, 8, 9),
            (wire::Kind::Join, 0, 0),
            (wire::Kind::Invite, 7, 9),
            (wire::Kind::Invite, 8, 0),
            (wire::Kind::Unspecified, 8, 9),
        ] {
            assert!(asked(kind, user, group).is_err(), "{kind:?} {user} {group}");
        }
    }
}
