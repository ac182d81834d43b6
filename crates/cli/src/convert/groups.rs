//! Groups, their members, and requests to join.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    Conversion,
    documents::{number, string, time},
    ids::IdKind,
    people::{People, params},
    writer,
};

const NAME_MAX: usize = 64;
const MESSAGE_MAX: usize = 200;
/// The state of a group that was dismissed, and of one that is muted.
const DISMISSED: i64 = 2;
const MUTED: i64 = 3;
/// Groups that users join without a request have this number.
const JOINED_DIRECTLY: i64 = 2;
/// The roles by their numbers.
const OWNER: i64 = 100;
const ADMIN: i64 = 60;
/// The end of a mute without one.
const NEVER: &str = "9999-12-31T23:59:59Z";

/// A group, as the other files need it.
#[derive(Default)]
pub(super) struct ConvertedGroup {
    creator: i64,
    create_time: i64,
    is_open: bool,
    members: BTreeMap<i64, MemberDocument>,
}

/// A member, as a document has it.
struct MemberDocument {
    role: i64,
    remark: String,
    joined: i64,
    muted_until: Option<i64>,
}

/// The converted groups, by number.
#[derive(Default)]
pub(super) struct ConvertedGroups(BTreeMap<i64, ConvertedGroup>);

impl ConvertedGroups {
    /// Whether the group exists.
    pub(super) fn has(&self, group: i64) -> bool {
        self.0.contains_key(&group)
    }

    /// Whether the user is a member of the group.
    pub(super) fn has_member(&self, group: i64, user: i64) -> bool {
        self.0.get(&group).is_some_and(|group| group.members.contains_key(&user))
    }
}

/// Converts all of them.
pub(super) fn convert(all: &mut Conversion, people: &People) -> Result<ConvertedGroups> {
    let mut groups = ConvertedGroups::default();
    all.each("group", |all, document| group(all, people, &mut groups, document))?;
    all.each("group_member", |all, document| Ok(member(all, people, &mut groups, document)))?;
    let from = first_numbers(all)?;
    for (id, group) in &groups.0 {
        members(all, *id, group, &from)?;
    }
    all.each("group_request", |all, document| request(all, people, &groups, document))?;
    Ok(groups)
}

fn group(
    all: &mut Conversion,
    people: &People,
    groups: &mut ConvertedGroups,
    document: &Value,
) -> Result<Result<(), String>> {
    let id = string(document, "group_id");
    if id.is_empty() {
        return Ok(Err("it has no group_id".to_owned()));
    }
    if number(document, "status") == DISMISSED {
        return Ok(Ok(()));
    }
    let group = all.ids.give(IdKind::Group, id);
    let creator = all.ids.of(IdKind::User, string(document, "creator_user_id"));
    let creator = creator.filter(|creator| people.has(*creator)).unwrap_or_default();
    let is_open = number(document, "need_verification") == JOINED_DIRECTLY;
    let create_time = time(document, "create_time").unwrap_or_default();
    let converted = ConvertedGroup { creator, create_time, is_open, members: BTreeMap::new() };
    if groups.0.insert(group, converted).is_some() {
        return Ok(Err("its group_id is used twice".to_owned()));
    }
    let name = writer::cut(string(document, "group_name"), NAME_MAX);
    let line = json!({
        "groupId": group.to_string(),
        "name": if name.is_empty() { format!("group {group}") } else { name },
        "icon": string(document, "face_url"),
        "type": "GROUP_TYPE_CHAT",
        "visibility": if is_open { "VISIBILITY_PUBLIC" } else { "VISIBILITY_PRIVATE" },
        "joinPolicy": if is_open { "JOIN_POLICY_OPEN" } else { "JOIN_POLICY_APPROVAL" },
        "creatorId": creator.to_string(),
        "params": params(document, &["introduction", "notification", "ex"]),
    });
    all.out.line("groups", &line)?;
    if number(document, "status") == MUTED {
        let mute = json!({ "groupId": group.to_string(), "muteTime": NEVER });
        all.out.line("states", &json!({ "groupMute": mute }))?;
    }
    Ok(Ok(()))
}

fn member(
    all: &Conversion,
    people: &People,
    groups: &mut ConvertedGroups,
    document: &Value,
) -> Result<(), String> {
    let no_group = || "group_id is no group of the dump".to_owned();
    let group = all.ids.of(IdKind::Group, string(document, "group_id")).ok_or_else(no_group)?;
    let group = groups.0.get_mut(&group).ok_or_else(no_group)?;
    let user = all.ids.of(IdKind::User, string(document, "user_id")).filter(|user| people.has(*user));
    let user = user.ok_or_else(|| "user_id is no user of the dump".to_owned())?;
    let member = MemberDocument {
        role: number(document, "role_level"),
        remark: writer::cut(string(document, "nickname"), NAME_MAX),
        joined: time(document, "join_time").unwrap_or(group.create_time),
        muted_until: time(document, "mute_end_time"),
    };
    group.members.insert(user, member);
    Ok(())
}

/// The lowest numbers of messages that users may read in groups.
fn first_numbers(all: &mut Conversion) -> Result<HashMap<(i64, i64), i64>> {
    let mut from = HashMap::new();
    all.each("seq_user", |all, document| {
        let group = string(document, "conversation_id").strip_prefix("sg_");
        let group = group.and_then(|group| all.ids.of(IdKind::Group, group));
        let user = all.ids.of(IdKind::User, string(document, "user_id"));
        if let (Some(group), Some(user)) = (group, user) {
            from.insert((group, user), number(document, "min_seq"));
        }
        Ok(Ok(()))
    })?;
    Ok(from)
}

/// Writes the members of a group: the creator first, whose record an import replaces, then by their joins.
fn members(
    all: &mut Conversion,
    id: i64,
    group: &ConvertedGroup,
    from: &HashMap<(i64, i64), i64>,
) -> Result<()> {
    if group.creator != 0 && !group.members.contains_key(&group.creator) {
        let member = json!({
            "groupId": id.to_string(), "userId": group.creator.to_string(), "role": "ROLE_MEMBER",
            "joinTime": writer::time(group.create_time),
        });
        all.out.line("members", &json!({ "member": { "member": member, "former": true } }))?;
    }
    let mut members: Vec<_> = group.members.iter().collect();
    members.sort_by_key(|(user, member)| (**user != group.creator, member.joined, **user));
    let mut has_owner = false;
    for (user, document) in members {
        let role = match document.role {
            OWNER if !std::mem::replace(&mut has_owner, true) => "ROLE_OWNER",
            OWNER | ADMIN => "ROLE_ADMIN",
            _ => "ROLE_MEMBER",
        };
        let mut member = json!({
            "groupId": id.to_string(), "userId": user.to_string(), "role": role, "remark": document.remark,
            "joinTime": writer::time(document.joined),
        });
        if let Some(until) = document.muted_until {
            member["muteTime"] = writer::time(until);
        }
        let first = from.get(&(id, *user)).copied().unwrap_or_default().max(0);
        let record = json!({
            "member": member, "fromSeq": first.to_string(), "joinedSeq": first.max(1).to_string(),
            "firstSeq": first.max(1).to_string(),
        });
        all.out.line("members", &json!({ "member": record }))?;
    }
    Ok(())
}

/// Writes a request to join that is not decided.
fn request(
    all: &mut Conversion,
    people: &People,
    groups: &ConvertedGroups,
    document: &Value,
) -> Result<Result<(), String>> {
    let group = all.ids.of(IdKind::Group, string(document, "group_id"));
    let Some((id, group)) = group.and_then(|id| Some((id, groups.0.get(&id)?))) else {
        return Ok(Err("group_id is no group of the dump".to_owned()));
    };
    let user = all.ids.of(IdKind::User, string(document, "user_id")).filter(|user| people.has(*user));
    let Some(user) = user else { return Ok(Err("user_id is no user of the dump".to_owned())) };
    if number(document, "handle_result") != 0 || group.is_open || group.members.contains_key(&user) {
        return Ok(Ok(()));
    }
    let application = json!({
        "kind": "KIND_JOIN", "applicantId": user.to_string(), "groupId": id.to_string(),
        "message": writer::cut(string(document, "req_msg"), MESSAGE_MAX), "state": "STATE_PENDING",
    });
    all.out.line("applications", &json!({ "application": application })).map(Ok)
}
