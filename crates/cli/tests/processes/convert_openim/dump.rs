//! Makes a dump of OpenIM's collections, as `mongoexport` writes it.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

const DATE: &str = "2024-05-01T08:00:00.000Z";
/// Messages in each group, and between two users.
const IN_GROUP: usize = 75;
const IN_PAIR: usize = 10;
const MEMBERS: usize = 8;

/// The contents of the files.
pub(super) struct Dump {
    pub(super) users: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) pairs: usize,
}

impl Dump {
    /// Writes the files.
    pub(super) fn write(folder: &Path, users: usize) -> Self {
        fs::create_dir_all(folder).unwrap();
        let user = |at: usize| {
            if at.is_multiple_of(2) { format!("{}", 1_000 + at) } else { format!("im_user_{at}") }
        };
        let group =
            |at: usize| if at.is_multiple_of(2) { format!("{}", 900_000 + at) } else { format!("team_{at}") };
        let dump = Self {
            users: (0..users).map(user).collect(),
            groups: (0..users / 5).map(group).collect(),
            pairs: users / 2,
        };
        dump.people(folder);
        dump.of_groups(folder);
        dump.messages(folder);
        dump
    }

    fn user(&self, at: usize) -> &str {
        &self.users[at % self.users.len()]
    }

    /// Friends of a user: the next and the previous one, and for some also one that is no friend back.
    fn friends(&self, at: usize) -> Vec<usize> {
        let count = self.users.len();
        let mut friends = vec![(at + 1) % count, (at + count - 1) % count];
        if at.is_multiple_of(3) {
            friends.push((at + 2) % count);
        }
        friends
    }

    fn blocks(&self, at: usize) -> Option<usize> {
        (at.is_multiple_of(10)).then_some((at + 1) % self.users.len())
    }

    /// Friends without those who have blocked the user.
    pub(super) fn kept_friends(&self, at: usize) -> Vec<&str> {
        let friends = self.friends(at).into_iter().filter(|friend| self.blocks(*friend) != Some(at));
        friends.map(|friend| self.user(friend)).collect()
    }

    pub(super) fn blocked(&self, at: usize) -> Vec<&str> {
        self.blocks(at).map(|other| self.user(other)).into_iter().collect()
    }

    /// The users who have asked a user to be a friend.
    pub(super) fn asked_by(&self, at: usize) -> Vec<&str> {
        let from = (at + self.users.len() - 5) % self.users.len();
        if from.is_multiple_of(7) { vec![self.user(from)] } else { Vec::new() }
    }

    /// The members of a group, with roles and times of joins.
    pub(super) fn members(&self, group: usize) -> Vec<(&str, &'static str, String)> {
        let member = |at: usize| {
            let role = match at {
                0 if group.is_multiple_of(5) => "ROLE_ADMIN",
                1 if group.is_multiple_of(5) => "ROLE_OWNER",
                0 => "ROLE_OWNER",
                1 => "ROLE_ADMIN",
                _ => "ROLE_MEMBER",
            };
            (self.user(group + at), role, format!("2024-05-01T08:00:0{at}Z"))
        };
        (0..MEMBERS).map(member).collect()
    }

    pub(super) fn group_messages(&self, group: usize) -> Vec<(String, String)> {
        let message = |at: usize| {
            let body = format!("{{\"content\":\"group {group}, message {at}\"}}");
            (self.user(group + at % MEMBERS).to_owned(), STANDARD.encode(body))
        };
        (0..IN_GROUP).map(message).collect()
    }

    /// A member of a group, and what it has read.
    pub(super) fn reader(&self, group: usize) -> (&str, usize) {
        (self.user(group + 2), 40)
    }

    pub(super) fn pair(&self, pair: usize) -> (&str, &str) {
        (self.user(pair), self.user(pair + 1))
    }

    pub(super) fn direct_messages(&self, pair: usize) -> Vec<(String, String)> {
        let message = |at: usize| {
            let body = format!("{{\"content\":\"pair {pair}, message {at}\"}}");
            (self.user(pair + at % 2).to_owned(), STANDARD.encode(body))
        };
        (0..IN_PAIR).map(message).collect()
    }

    fn people(&self, folder: &Path) {
        let (mut users, mut friends) =
            (Collection::create(folder, "user"), Collection::create(folder, "friend"));
        let (mut black, mut asked) =
            (Collection::create(folder, "black"), Collection::create(folder, "friend_request"));
        friends.text("{\"owner_user_id\":");
        for (at, id) in self.users.iter().enumerate() {
            users.put(&json!({
                "_id": { "$oid": "65f0" }, "user_id": id, "nickname": format!("User {at}"), "face_url": "a.png",
                "ex": "", "create_time": { "$date": DATE },
            }));
            for friend in self.friends(at) {
                friends.put(&json!({
                    "owner_user_id": id, "friend_user_id": self.user(friend), "remark": format!("f {friend}"),
                    "create_time": { "$date": DATE },
                }));
            }
            if let Some(other) = self.blocks(at) {
                black.put(&json!({
                    "owner_user_id": id, "block_user_id": self.user(other), "create_time": { "$date": DATE },
                }));
            }
            for result in [0, -1] {
                let to = self.user(at + 5 - usize::try_from(-result).unwrap());
                if at.is_multiple_of(7) {
                    asked.put(&json!({
                        "from_user_id": id, "to_user_id": to, "handle_result": result, "req_msg": "Hi!",
                    }));
                }
            }
        }
    }

    fn of_groups(&self, folder: &Path) {
        let (mut groups, mut members) =
            (Collection::create(folder, "group"), Collection::create(folder, "group_member"));
        for (at, id) in self.groups.iter().enumerate() {
            groups.put(&json!({
                "group_id": id, "group_name": format!("Group {at}"), "creator_user_id": self.user(at),
                "status": 0, "need_verification": at % 3, "create_time": { "$date": DATE },
            }));
            for (user, role, time) in self.members(at) {
                let level = match role {
                    "ROLE_OWNER" => 100,
                    "ROLE_ADMIN" => 60,
                    _ => 20,
                };
                members.put(&json!({
                    "group_id": id, "user_id": user, "role_level": level, "nickname": "",
                    "join_time": { "$date": time }, "mute_end_time": { "$date": "1970-01-01T00:00:00Z" },
                }));
            }
        }
    }

    fn messages(&self, folder: &Path) {
        let (mut messages, mut seqs) =
            (Collection::create(folder, "msg"), Collection::create(folder, "seq_user"));
        messages.put(&json!({ "msgs": [] }));
        for (at, id) in self.groups.iter().enumerate() {
            let name = format!("sg_{id}");
            messages.log(&name, &self.group_messages(at), 3);
            let (user, read) = self.reader(at);
            seqs.put(&json!({ "user_id": user, "conversation_id": name, "min_seq": 0, "read_seq": read }));
        }
        for pair in 0..self.pairs {
            let (one, other) = self.pair(pair);
            let name = if one < other { format!("si_{one}_{other}") } else { format!("si_{other}_{one}") };
            messages.log(&name, &self.direct_messages(pair), 1);
        }
        messages.log("n_1000_1001", &self.direct_messages(0), 4);
    }
}

/// A file that is being written.
struct Collection(BufWriter<File>);

impl Collection {
    fn create(folder: &Path, name: &str) -> Self {
        Self(BufWriter::new(File::create(folder.join(format!("{name}.json"))).unwrap()))
    }

    fn text(&mut self, line: &str) {
        writeln!(self.0, "{line}").unwrap();
    }

    fn put(&mut self, document: &Value) {
        self.text(&document.to_string());
    }

    /// Messages in one document, of which the rest is empty.
    fn log(&mut self, name: &str, messages: &[(String, String)], session: i32) {
        let message = |(at, (sender, body)): (usize, &(String, String))| {
            let content = String::from_utf8(STANDARD.decode(body).unwrap()).unwrap();
            json!({ "msg": {
                "send_id": sender, "client_msg_id": format!("{name}-{at}"), "session_type": session,
                "content_type": 101, "content": content, "seq": at + 1,
                "send_time": { "$numberLong": format!("{}", 1_714_550_400_000_usize + at) },
            }, "is_read": false })
        };
        let mut all: Vec<Value> = messages.iter().enumerate().map(message).collect();
        all.resize(100, json!({ "msg": null }));
        self.put(&json!({ "doc_id": format!("{name}:0"), "msgs": all }));
    }
}
