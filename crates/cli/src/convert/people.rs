//! Users, friends, the blacklist and friend requests.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{
    Conversion,
    documents::{number, string, time},
    ids::IdKind,
    writer,
};

/// The longest names, remarks and messages of requests, in characters.
const NAME_MAX: usize = 128;
const REMARK_MAX: usize = 64;
const MESSAGE_MAX: usize = 200;
/// The longest text of a custom parameter, in bytes.
const PARAM_MAX: usize = 16 * 1024;

/// Pairs of users, as the other files need them.
#[derive(Default)]
pub(super) struct People {
    users: BTreeSet<i64>,
    /// When one user followed another.
    follows: BTreeMap<(i64, i64), i64>,
    /// When one user blocked another.
    blocks: BTreeMap<(i64, i64), i64>,
    remarks: BTreeMap<(i64, i64), String>,
}

impl People {
    /// Whether a user with this number was converted.
    pub(super) fn has(&self, user: i64) -> bool {
        self.users.contains(&user)
    }
}

/// Converts all of them.
pub(super) fn convert(all: &mut Conversion) -> Result<People> {
    let mut people = People::default();
    all.each("user", |all, document| user(all, &mut people, document))?;
    all.each("friend", |all, document| Ok(friend(all, &mut people, document)))?;
    all.each("black", |all, document| Ok(black(all, &mut people, document)))?;
    follows(all, &people)?;
    settings(all, &people)?;
    all.each("friend_request", |all, document| request(all, &people, document))?;
    Ok(people)
}

fn user(all: &mut Conversion, people: &mut People, document: &Value) -> Result<Result<(), String>> {
    let id = string(document, "user_id");
    if id.is_empty() {
        return Ok(Err("it has no user_id".to_owned()));
    }
    let user = all.ids.give(IdKind::User, id);
    if !people.users.insert(user) {
        return Ok(Err("its user_id is used twice".to_owned()));
    }
    let line = json!({
        "userId": user.to_string(),
        "userName": user_name(id, user),
        "nickName": writer::cut(string(document, "nickname"), NAME_MAX),
        "icon": string(document, "face_url"),
        "params": params(document, &["ex"]),
    });
    all.out.line("users", &line).map(Ok)
}

/// The id, where that can be a name; else one that is made from the number.
fn user_name(id: &str, user: i64) -> String {
    let is_name =
        id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if is_name { id.to_owned() } else { format!("user-{user}") }
}

/// Fields that are not empty, as custom parameters.
pub(super) fn params(document: &Value, fields: &[&str]) -> Value {
    let set = fields.iter().map(|field| (*field, string(document, field)));
    let params: Map<String, Value> = set
        .filter(|(_, text)| !text.is_empty() && text.len() <= PARAM_MAX)
        .map(|(field, text)| (field.to_owned(), json!(text)))
        .collect();
    Value::Object(params)
}

/// The two users of a document.
fn pair(
    all: &Conversion,
    people: &People,
    document: &Value,
    fields: [&str; 2],
) -> Result<(i64, i64), String> {
    let [one, other] = fields.map(|field| {
        let user = all.ids.of(IdKind::User, string(document, field)).filter(|user| people.has(*user));
        user.ok_or_else(|| format!("{field} is no user of the dump"))
    });
    match (one?, other?) {
        (one, other) if one == other => Err("both users are the same".to_owned()),
        pair => Ok(pair),
    }
}

fn friend(all: &Conversion, people: &mut People, document: &Value) -> Result<(), String> {
    let pair = pair(all, people, document, ["owner_user_id", "friend_user_id"])?;
    people.follows.insert(pair, time(document, "create_time").unwrap_or_default());
    let remark = writer::cut(string(document, "remark"), REMARK_MAX);
    if !remark.is_empty() {
        people.remarks.insert(pair, remark);
    }
    Ok(())
}

fn black(all: &Conversion, people: &mut People, document: &Value) -> Result<(), String> {
    let pair = pair(all, people, document, ["owner_user_id", "block_user_id"])?;
    people.blocks.insert(pair, time(document, "create_time").unwrap_or_default());
    Ok(())
}

/// Writes the follows by time. A block ends the follow of the blocked user.
fn follows(all: &mut Conversion, people: &People) -> Result<()> {
    let is_kept = |(user, target): &(i64, i64)| !people.blocks.contains_key(&(*target, *user));
    let mut follows: Vec<_> = people.follows.iter().filter(|(pair, _)| is_kept(pair)).collect();
    follows.sort_by_key(|((user, target), at)| (**at, *target, *user));
    for ((user, target), at) in follows {
        let line = json!({
            "userId": user.to_string(), "targetId": target.to_string(), "followTime": writer::time(*at),
        });
        all.out.line("follows", &line)?;
    }
    Ok(())
}

fn settings(all: &mut Conversion, people: &People) -> Result<()> {
    let pairs: BTreeSet<&(i64, i64)> = people.blocks.keys().chain(people.remarks.keys()).collect();
    for pair in pairs {
        let mut settings = json!({ "userId": pair.0.to_string(), "targetId": pair.1.to_string() });
        if let Some(at) = people.blocks.get(pair) {
            settings["blockTime"] = writer::time(*at);
        }
        if let Some(remark) = people.remarks.get(pair) {
            settings["remark"] = json!(remark);
        }
        all.out.line("settings", &json!({ "settings": settings }))?;
    }
    Ok(())
}

/// Writes a friend request that is not decided. One between friends, or against a block, has no effect.
fn request(all: &mut Conversion, people: &People, document: &Value) -> Result<Result<(), String>> {
    let pair = match pair(all, people, document, ["from_user_id", "to_user_id"]) {
        Ok(pair) => pair,
        Err(why) => return Ok(Err(why)),
    };
    let back = (pair.1, pair.0);
    let are_friends = people.follows.contains_key(&pair) && people.follows.contains_key(&back);
    let is_blocked = people.blocks.contains_key(&pair) || people.blocks.contains_key(&back);
    if number(document, "handle_result") != 0 || are_friends || is_blocked {
        return Ok(Ok(()));
    }
    let application = json!({
        "kind": "KIND_FRIEND", "applicantId": pair.0.to_string(), "userId": pair.1.to_string(),
        "message": writer::cut(string(document, "req_msg"), MESSAGE_MAX), "state": "STATE_PENDING",
    });
    all.out.line("applications", &json!({ "application": application })).map(Ok)
}
