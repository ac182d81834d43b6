//! Makes lines that an import has to refuse, each for its own reason, in turn.

use serde_json::{Value, json};

use super::record::{Group, User};

const USER_ID: i64 = 900_001;
const GROUP_ID: i64 = 950_001;

/// Makes bad lines that fit `users`.
pub(super) fn users(count: usize, users: &[User]) -> Vec<Vec<u8>> {
    (USER_ID..).take(count).enumerate().map(|(at, id)| user(at, id, users)).collect()
}

/// Makes bad lines that fit `groups`.
pub(super) fn groups(count: usize, groups: &[Group]) -> Vec<Vec<u8>> {
    (GROUP_ID..).take(count).enumerate().map(|(at, id)| group(at, id, groups)).collect()
}

fn user(at: usize, id: i64, users: &[User]) -> Vec<u8> {
    let name = format!("bad{id}");
    let whole = json!({ "userId": id, "userName": name });
    let (key, value) = match at % 15 {
        0 => return format!(r#"{{"userId":{id},"userName":"{name}","#).into_bytes(),
        1 => return json!({ "userId": id, "nickName": "Nameless" }).to_string().into_bytes(),
        2 => ("email", json!("nobody at example.org")),
        // The name equals an earlier user's name, in full-width or capital letters.
        3 => ("userName", json!(users.first().map_or_else(String::new, |user| disguised(&user.user_name)))),
        4 => ("shoeSize", json!(44)),
        5 => ("age", json!(1000)),
        6 => ("phone", json!("0171 2345678")),
        7 => ("userId", json!("abc")),
        8 => ("userName", json!(format!("bad\u{200B}{id}"))),
        9 => ("params", json!({ "$where": "1" })),
        10 => ("gender", json!("GENDER_SECRET")),
        11 => return b"{\"userName\":\"\xff\xfe\"}".to_vec(),
        // The id belongs to an earlier user.
        12 => ("userId", json!(users.first().map_or(0, |user| user.user_id))),
        13 => ("nickName", json!("n".repeat(129))),
        _ => return json!([whole]).to_string().into_bytes(),
    };
    with(whole, key, value)
}

fn group(at: usize, id: i64, groups: &[Group]) -> Vec<u8> {
    let whole = json!({ "groupId": id, "name": format!("Bad {id}") });
    let tags: Vec<String> = (0..17).map(|tag| format!("tag{tag}")).collect();
    let (key, value) = match at % 8 {
        0 => ("name", json!("")),
        1 => ("tags", json!(tags)),
        2 => ("visibility", json!("VISIBILITY_SECRET")),
        3 => ("members", json!([1, 2, 3])),
        4 => ("params", json!({ "code": "letmein" })),
        5 => ("creatorId", json!(-1)),
        6 => ("groupId", json!(groups.first().map_or(0, |group| group.group_id))),
        _ => return b"name: Bad".to_vec(),
    };
    with(whole, key, value)
}

fn with(mut whole: Value, key: &str, value: Value) -> Vec<u8> {
    whole[key] = value;
    whole.to_string().into_bytes()
}

/// Returns another form of the same name: full-width letters for ASCII letters, capital letters for the rest.
fn disguised(name: &str) -> String {
    let wide = |c: char| match c {
        '!'..='~' => char::from_u32(u32::from(c) + 0xFEE0).unwrap_or(c),
        _ => c,
    };
    name.to_uppercase().chars().map(wide).collect()
}
