//! Messages with their numbers, and what users have read.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    Conversion,
    conversation::ConvertedConversation,
    documents::{Documents, number, string},
    groups::ConvertedGroups,
    ids::IdKind,
    people::People,
    writer,
};

/// The messages in one document.
const IN_DOCUMENT: i64 = 100;
/// The most documents of one conversation.
const DOCUMENTS_MAX: i64 = 1_000_000;
/// The most bytes of a message, and the most users that it mentions.
const BODY_MAX: usize = 64 * 1024;
const MENTIONS_MAX: usize = 50;
/// The types of messages of the product itself begin here.
const NOTIFICATIONS: i64 = 1_000;
/// The mention of all members.
const ALL: &str = "AtAllTag";
/// The option by which a user gets no notice of messages.
const NOT_NOTIFIED: i64 = 2;

/// Where the documents of each conversation are, by their index.
type DocumentPlaces = BTreeMap<ConvertedConversation, BTreeMap<i64, u64>>;

/// Converts all of them.
pub(super) fn convert(all: &mut Conversion, people: &People, groups: &ConvertedGroups) -> Result<()> {
    let mut ends = HashMap::new();
    if let Some(mut documents) = Documents::open(&all.dump, "msg")? {
        for (conversation, places) in places(all, people, groups, &mut documents)? {
            let mut log = ConvertedLog::new(conversation);
            for (index, offset) in places {
                let document = documents.at(offset)?.context("the dump has changed")?;
                if let Ok(value) = &document.value {
                    log.document(all, people, index, value)?;
                }
            }
            log.finish(all)?;
            ends.insert(conversation, log.end);
        }
    }
    dialogs(all, people, groups, &ends)
}

fn places(
    all: &mut Conversion,
    people: &People,
    groups: &ConvertedGroups,
    documents: &mut Documents,
) -> Result<DocumentPlaces> {
    let mut places = DocumentPlaces::new();
    while let Some(document) = documents.next()? {
        let named = document.value.and_then(|value| {
            let (name, index) =
                string(&value, "doc_id").rsplit_once(':').ok_or_else(|| "it has no doc_id".to_owned())?;
            let index: Option<i64> = index.parse().ok().filter(|index| (0..=DOCUMENTS_MAX).contains(index));
            let index = index.ok_or_else(|| "its doc_id has no number".to_owned())?;
            Ok((ConvertedConversation::of(all, people, groups, name), index))
        });
        match named {
            Ok((Some(conversation), index)) => {
                places.entry(conversation).or_default().insert(index, document.offset);
            }
            // The conversation has notifications, or a user or a group that does not exist any more.
            Ok((None, _)) => {}
            Err(why) => all.note_bad(documents, document.number, &why),
        }
    }
    Ok(places)
}

/// The messages of one conversation, by rising number.
struct ConvertedLog {
    conversation: ConvertedConversation,
    /// The number of the last message.
    end: i64,
    /// The number before the first message that the dump has.
    missing: i64,
    last_time: i64,
    client_ids: HashSet<(i64, String)>,
}

impl ConvertedLog {
    fn new(conversation: ConvertedConversation) -> Self {
        Self { conversation, end: 0, missing: 0, last_time: 0, client_ids: HashSet::new() }
    }

    fn document(
        &mut self,
        all: &mut Conversion,
        people: &People,
        index: i64,
        document: &Value,
    ) -> Result<()> {
        let messages = document.get("msgs").and_then(Value::as_array);
        for (at, entry) in messages.into_iter().flatten().enumerate() {
            let seq = index * IN_DOCUMENT + i64::try_from(at).unwrap_or(IN_DOCUMENT) + 1;
            let Some(message) = entry.get("msg").filter(|message| message.is_object()) else { continue };
            if seq <= self.end {
                continue;
            }
            if self.end == 0 {
                self.missing = seq - 1;
                self.last_time = number(message, "send_time").max(0);
            }
            // Numbers that the dump does not have, as empty messages.
            while self.end + 1 < seq {
                self.end += 1;
                let line = self.line(self.last_time);
                all.out.line("messages", &line)?;
            }
            self.end = seq;
            let line = self.message(all, people, message, entry.get("revoke").is_some_and(Value::is_object));
            all.out.line("messages", &line)?;
        }
        Ok(())
    }

    /// A message without content.
    fn line(&self, time: i64) -> Value {
        json!({
            "conversationId": self.conversation.id(), "seq": self.end.to_string(),
            "sendTime": writer::time(time), "kind": "MESSAGE_KIND_MESSAGE", "silent": true,
        })
    }

    fn message(&mut self, all: &Conversion, people: &People, message: &Value, is_revoked: bool) -> Value {
        self.last_time = number(message, "send_time").max(0);
        let mut line = self.line(self.last_time);
        let sender = all.ids.of(IdKind::User, string(message, "send_id")).filter(|user| people.has(*user));
        let sender = sender.filter(|user| match self.conversation {
            ConvertedConversation::Direct(one, other) => *user == one || *user == other,
            ConvertedConversation::Group(_) => true,
        });
        let sender = sender.unwrap_or_default();
        line["senderId"] = json!(sender.to_string());
        if is_revoked {
            return line;
        }
        let content_type = number(message, "content_type");
        let is_counted =
            message.get("options").and_then(|options| options.get("unreadCount")) != Some(&json!(false));
        line["silent"] = json!(content_type >= NOTIFICATIONS || !is_counted);
        line["contentType"] = json!(format!("openim/{content_type}"));
        let content = string(message, "content");
        if content.len() <= BODY_MAX {
            line["body"] = json!(STANDARD.encode(content));
        }
        let client_id = string(message, "client_msg_id");
        if is_client_id(client_id) && self.client_ids.insert((sender, client_id.to_owned())) {
            line["clientMessageId"] = json!(client_id);
        }
        let mentioned = message.get("at_user_id_list").and_then(Value::as_array).into_iter().flatten();
        let mentioned: Vec<&str> = mentioned.filter_map(Value::as_str).collect();
        line["mentionAll"] = json!(mentioned.contains(&ALL));
        let mentioned = mentioned.iter().filter_map(|id| all.ids.of(IdKind::User, id));
        line["mentionIds"] = mentioned.take(MENTIONS_MAX).map(|id| json!(id.to_string())).collect();
        line
    }

    /// Trims the numbers before the first message.
    fn finish(&self, all: &mut Conversion) -> Result<()> {
        if self.missing > 0 {
            let min_seq = (self.missing + 1).to_string();
            let trim = json!({ "conversationId": self.conversation.id(), "minSeq": min_seq });
            all.out.line("states", &json!({ "trim": trim }))?;
        }
        Ok(())
    }
}

fn is_client_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The state of a conversation that a user keeps.
#[derive(Default)]
struct DialogDocuments {
    read_seq: i64,
    /// The lowest number, in direct conversations: in groups the member has it.
    min_seq: i64,
    is_pinned: bool,
    do_not_disturb: bool,
}

fn dialogs(
    all: &mut Conversion,
    people: &People,
    groups: &ConvertedGroups,
    ends: &HashMap<ConvertedConversation, i64>,
) -> Result<()> {
    let mut dialogs: BTreeMap<(i64, ConvertedConversation), DialogDocuments> = BTreeMap::new();
    let key = |all: &Conversion, user: &str, name: &str| {
        let user = all.ids.of(IdKind::User, user)?;
        let conversation = ConvertedConversation::of(all, people, groups, name)?;
        conversation.has(groups, user).then_some((user, conversation))
    };
    all.each("seq_user", |all, document| {
        if let Some(key) = key(all, string(document, "user_id"), string(document, "conversation_id")) {
            let dialog = dialogs.entry(key).or_default();
            let end = ends.get(&key.1).copied().unwrap_or_default();
            dialog.read_seq = number(document, "read_seq").clamp(0, end);
            if matches!(key.1, ConvertedConversation::Direct(..)) {
                dialog.min_seq = number(document, "min_seq").max(0);
            }
        }
        Ok(Ok(()))
    })?;
    all.each("conversation", |all, document| {
        if let Some(key) = key(all, string(document, "owner_user_id"), string(document, "conversation_id")) {
            let dialog = dialogs.entry(key).or_default();
            dialog.is_pinned = document.get("is_pinned") == Some(&json!(true));
            dialog.do_not_disturb = matches!(key.1, ConvertedConversation::Group(_))
                && number(document, "recv_msg_opt") == NOT_NOTIFIED;
        }
        Ok(Ok(()))
    })?;
    for ((user, conversation), dialog) in dialogs {
        if let Some(line) = dialog.line(user, conversation) {
            all.out.line("dialogs", &json!({ "dialog": line }))?;
        }
    }
    Ok(())
}

impl DialogDocuments {
    /// `None`: it says nothing.
    fn line(&self, user: i64, conversation: ConvertedConversation) -> Option<Value> {
        if self.read_seq == 0 && self.min_seq == 0 && !self.is_pinned && !self.do_not_disturb {
            return None;
        }
        let mut line = json!({
            "userId": user.to_string(), "conversationId": conversation.id(),
            "readSeq": self.read_seq.to_string(), "doNotDisturb": self.do_not_disturb,
        });
        if self.min_seq > 0 {
            line["minSeq"] = json!(self.min_seq.to_string());
        }
        if self.is_pinned {
            // The dump does not say when.
            line["pinTime"] = writer::time(0);
        }
        Some(line)
    }
}
