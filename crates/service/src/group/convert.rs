//! Groups between the wire and the domain. Raw numbers and strings do not pass this module.

use std::collections::BTreeSet;

use kith_proto::group::v1 as wire;
use kith_store::{
    Group, GroupId, GroupPatch, GroupType, GroupWords, JoinPolicy, NewGroup, Params, ParamsPatch,
    ReceiptVisibility, SecretChange, Text, UserId, Visibility,
};

use super::GroupKeyword;
use crate::{
    error::{Error, valid},
    rpc::{
        batch::missing,
        call::Principal,
        ids,
        params::{field_path, params, shown_params, take_param, take_updated_secrets, unknown_path},
        secret::PlainSecrets,
        versions::wire_time,
    },
};

/// Parameter that callers may not use: the invite code is the secret of this name.
pub(super) const RESERVED_PARAM: &str = "code";
/// The meaning of `*`.
const ALL_FIELDS: [&str; 9] = [
    "name",
    "icon",
    "tags",
    "type",
    "visibility",
    "join_policy",
    "history_for_new_members",
    "receipts",
    "params",
];

/// A group to be created, checked, before it has an id and an invite code.
#[derive(Clone, Debug)]
pub(super) struct GroupDraft {
    pub(super) id: Option<GroupId>,
    name: Text,
    icon: Text,
    tags: Vec<Text>,
    kind: GroupType,
    pub(super) visibility: Visibility,
    pub(super) join_policy: JoinPolicy,
    history_for_new_members: bool,
    receipts: Option<ReceiptVisibility>,
    params: Params,
    pub(super) creator: Option<UserId>,
}

impl GroupDraft {
    /// Checks a group; secrets have been taken out of `params` before.
    pub(super) fn new(group: &wire::Group, principal: Principal) -> Result<Self, Error> {
        Ok(Self {
            id: if group.group_id == 0 { None } else { Some(ids::group(group.group_id)?) },
            name: name(&group.name)?,
            icon: icon(&group.icon)?,
            tags: tags(&group.tags)?,
            kind: kind(group.r#type)?.unwrap_or(GroupType::Chat),
            visibility: visibility(group.visibility)?.unwrap_or(Visibility::Private),
            join_policy: join_policy(group.join_policy)?.unwrap_or(JoinPolicy::Approval),
            history_for_new_members: group.history_for_new_members,
            receipts: receipts(group.receipts)?,
            params: group_params(group)?,
            creator: creator(group.creator_id, principal)?,
        })
    }

    /// The group to be stored.
    pub(super) fn with(self, id: GroupId, secrets: SecretChange) -> NewGroup {
        NewGroup {
            id,
            name: self.name,
            icon: self.icon,
            tags: self.tags,
            kind: self.kind,
            visibility: self.visibility,
            join_policy: self.join_policy,
            history_for_new_members: self.history_for_new_members,
            receipts: self.receipts,
            params: self.params,
            creator: self.creator,
            secrets,
        }
    }
}

/// The group, with the parameters whose names are shown.
pub(super) fn to_wire(group: &Group, shows: impl Fn(&str) -> bool) -> wire::Group {
    wire::Group {
        group_id: group.id.get(),
        name: group.name.to_string(),
        tags: group.tags.iter().map(Text::to_string).collect(),
        r#type: i32::from(group.kind as u8),
        visibility: i32::from(group.visibility as u8),
        join_policy: i32::from(group.join_policy as u8),
        history_for_new_members: group.history_for_new_members,
        params: shown_params(&group.params, shows),
        creator_id: group.creator.map(UserId::get).unwrap_or_default(),
        version: group.version.get(),
        create_time: Some(wire_time(group.created)),
        update_time: Some(wire_time(group.updated)),
        receipts: i32::from(ReceiptVisibility::number(group.receipts)),
        icon: group.icon.to_string(),
    }
}

/// A checked change: the `group` fields that `paths` name. Secrets are separate: an empty secret is removed.
pub(super) fn patch(
    mut group: wire::Group,
    paths: &[String],
    secret_names: &BTreeSet<String>,
) -> Result<(GroupPatch, PlainSecrets), Error> {
    if paths.is_empty() {
        return Err(Error::invalid("update_mask", "must name a field"));
    }
    let secrets = take_updated_secrets(&mut group.params, paths, secret_names)?;
    let mut patch = GroupPatch::default();
    for path in paths.iter().map(|path| field_path(path)) {
        match path.as_str() {
            "*" => ALL_FIELDS.iter().try_for_each(|field| take_field(&mut patch, &group, field))?,
            "params.code" => return Err(reserved_param()),
            _ => match path.strip_prefix("params.") {
                Some(key) if secret_names.contains(key) => {}
                Some(key) => take_param(&mut patch.params, &group.params, key)?,
                None => take_field(&mut patch, &group, &path)?,
            },
        }
    }
    Ok((patch, secrets))
}

/// A request's groups.
pub(super) fn group_ids(ids: &[i64]) -> Result<Vec<GroupId>, Error> {
    ids.iter().map(|id| valid("group_ids", GroupId::new(*id))).collect()
}

/// A keyword whose text was checked, and how it is compared.
pub(super) fn keyword(text: &str, number: i32) -> Result<GroupKeyword, Error> {
    match wire::KeywordMatch::try_from(number) {
        Ok(wire::KeywordMatch::Unspecified | wire::KeywordMatch::Exact) => Ok(GroupKeyword::exact(text)),
        Ok(wire::KeywordMatch::Prefix) => Ok(GroupKeyword::prefix(text)),
        Err(_) => Err(unknown_value("match")),
    }
}

fn take_field(patch: &mut GroupPatch, group: &wire::Group, field: &str) -> Result<(), Error> {
    match field {
        "name" => patch.name = Some(name(&group.name)?),
        "icon" => patch.icon = Some(icon(&group.icon)?),
        "tags" => patch.tags = Some(tags(&group.tags)?),
        "type" => patch.kind = Some(kind(group.r#type)?.ok_or_else(|| missing("type"))?),
        "visibility" => {
            patch.visibility = Some(visibility(group.visibility)?.ok_or_else(|| missing("visibility"))?)
        }
        "join_policy" => {
            patch.join_policy = Some(join_policy(group.join_policy)?.ok_or_else(|| missing("join_policy"))?)
        }
        "history_for_new_members" => patch.history_for_new_members = Some(group.history_for_new_members),
        "receipts" => patch.receipts = Some(receipts(group.receipts)?),
        "params" => {
            patch.params = ParamsPatch { replace: true, set: group_params(group)?, unset: BTreeSet::new() };
        }
        _ => return Err(unknown_path(&ALL_FIELDS)),
    }
    Ok(())
}

fn creator(number: i64, principal: Principal) -> Result<Option<UserId>, Error> {
    let given = if number == 0 { None } else { Some(ids::user("creator_id", number)?) };
    match principal {
        Principal::Service => Ok(given),
        Principal::User(user) if given.is_none_or(|given| given == user) => Ok(Some(user)),
        Principal::User(_) => Err(Error::not_allowed("a user may create groups in the own name only")),
    }
}

fn name(given: &str) -> Result<Text, Error> {
    valid("name", GroupWords::name(given))
}

fn icon(given: &str) -> Result<Text, Error> {
    valid("icon", kith_store::icon(given))
}

fn tags(given: &[String]) -> Result<Vec<Text>, Error> {
    valid("tags", GroupWords::tags(given))
}

fn group_params(group: &wire::Group) -> Result<Params, Error> {
    if group.params.contains_key(RESERVED_PARAM) {
        return Err(reserved_param());
    }
    params(group.params.clone())
}

fn reserved_param() -> Error {
    Error::invalid("params", "must not hold code: invite codes are made by Kith")
}

fn kind(number: i32) -> Result<Option<GroupType>, Error> {
    match wire::GroupType::try_from(number) {
        Ok(wire::GroupType::Unspecified) => Ok(None),
        Ok(wire::GroupType::Chat) => Ok(Some(GroupType::Chat)),
        Ok(wire::GroupType::Channel) => Ok(Some(GroupType::Channel)),
        Err(_) => Err(unknown_value("type")),
    }
}

fn visibility(number: i32) -> Result<Option<Visibility>, Error> {
    match wire::Visibility::try_from(number) {
        Ok(wire::Visibility::Unspecified) => Ok(None),
        Ok(wire::Visibility::Public) => Ok(Some(Visibility::Public)),
        Ok(wire::Visibility::Private) => Ok(Some(Visibility::Private)),
        Err(_) => Err(unknown_value("visibility")),
    }
}

fn join_policy(number: i32) -> Result<Option<JoinPolicy>, Error> {
    match wire::JoinPolicy::try_from(number) {
        Ok(wire::JoinPolicy::Unspecified) => Ok(None),
        Ok(wire::JoinPolicy::Open) => Ok(Some(JoinPolicy::Open)),
        Ok(wire::JoinPolicy::Approval) => Ok(Some(JoinPolicy::Approval)),
        Ok(wire::JoinPolicy::Code) => Ok(Some(JoinPolicy::Code)),
        Ok(wire::JoinPolicy::Invite) => Ok(Some(JoinPolicy::Invite)),
        Err(_) => Err(unknown_value("join_policy")),
    }
}

/// Unspecified is a valid value: the node's setting applies.
fn receipts(number: i32) -> Result<Option<ReceiptVisibility>, Error> {
    ReceiptVisibility::of(i64::from(number)).ok_or_else(|| unknown_value("receipts"))
}

fn unknown_value(field: &'static str) -> Error {
    Error::invalid(field, "must be a known value")
}
