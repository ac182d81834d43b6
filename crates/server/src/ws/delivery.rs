//! Frames of conversations and deliveries.

use kith_proto::message::v1::{Conversation, Delivery, Message, Missed, delivery::What};
use serde_json::{Value, json};

use crate::json;

/// Conversations in one frame.
const FRAME: usize = 50;

/// Frames of conversations. `more`: whether others follow after them.
pub(super) fn pages(conversations: &[Conversation], more: bool, left_out: i64) -> Vec<String> {
    let parts = conversations.chunks(FRAME).collect::<Vec<_>>();
    // A user without conversations gets one empty page.
    let parts = if parts.is_empty() { vec![&conversations[..0]] } else { parts };
    let count = parts.len();
    let page = |(at, part): (usize, &[Conversation])| {
        let more = more || at + 1 < count;
        let listed: Vec<_> = part.iter().map(conversation).collect();
        let mut page = json!({"conversations": listed, "more": more});
        if !more && left_out > 0 {
            page["leftOut"] = left_out.to_string().into();
        }
        page.to_string()
    };
    parts.into_iter().enumerate().map(page).collect()
}

fn conversation(conversation: &Conversation) -> Value {
    let name = "kith.message.v1.Conversation";
    json::value(name, conversation).unwrap_or_else(|| json!({"conversationId": conversation.conversation_id}))
}

/// One delivery with the cursor after it. What has no JSON form is named, so that the peer pulls it and reads why.
pub(super) fn delivered(delivery: &Delivery, cursor: &str) -> String {
    let value = json::value("kith.message.v1.Delivery", delivery).or_else(|| {
        let Some(What::Message(message)) = &delivery.what else { return None };
        let what = Some(What::Missed(missed(message)));
        json::value("kith.message.v1.Delivery", &Delivery { what })
    });
    let mut value = value.unwrap_or_else(|| json!({}));
    if !cursor.is_empty() {
        value["cursor"] = cursor.into();
    }
    value.to_string()
}

/// All that was there before has been sent, up to this cursor, except for this number of conversations.
pub(super) fn live(cursor: &str, left_out: i64) -> String {
    let mut frame = json!({"live": true});
    if left_out > 0 {
        frame["leftOut"] = left_out.to_string().into();
    }
    if !cursor.is_empty() {
        frame["cursor"] = cursor.into();
    }
    frame.to_string()
}

fn missed(message: &Message) -> Missed {
    Missed { conversation_id: message.conversation_id.clone(), from_seq: message.seq, to_seq: message.seq }
}

#[cfg(test)]
mod tests {
    use kith_proto::message::v1::{Note, note};
    use prost_types::Timestamp;

    use super::*;

    fn listed(count: usize) -> Vec<Conversation> {
        let one = |at| Conversation { conversation_id: format!("g{at}"), ..Default::default() };
        (1..=count).map(one).collect()
    }

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_last_page_of_all_says_so() {
        let more: Vec<_> =
            pages(&listed(120), false, 3).iter().map(|page| parsed(page)["more"] == true).collect();
        assert_eq!(more, [true, true, false]);
        assert_eq!(parsed(&pages(&listed(120), false, 3)[2])["leftOut"], "3");
        assert!(pages(&listed(120), true, 0).iter().all(|page| parsed(page)["more"] == true));
        assert_eq!(pages(&[], false, 0), [r#"{"conversations":[],"more":false}"#]);
    }

    #[test]
    fn delivery_carries_its_cursor() {
        let what = Some(What::Note(Note { what: Some(note::What::FollowerAdded(Default::default())) }));
        let text = delivered(&Delivery { what }, "c-1");
        assert_eq!(parsed(&text), json!({"note": {"followerAdded": {}}, "cursor": "c-1"}));
    }

    #[test]
    fn live_says_what_was_left_out() {
        assert_eq!(parsed(&live("c-1", 0)), json!({"live": true, "cursor": "c-1"}));
        assert_eq!(parsed(&live("", 3)), json!({"live": true, "leftOut": "3"}));
    }

    #[test]
    fn messages_without_a_json_form_are_named() {
        let send_time = Some(Timestamp { seconds: 253_402_300_800, nanos: 0 });
        let message = Message { conversation_id: "g9".into(), seq: 4, send_time, ..Default::default() };
        let text = delivered(&Delivery { what: Some(What::Message(message)) }, "");
        let missed = json!({"conversationId": "g9", "fromSeq": "4", "toSeq": "4"});
        assert_eq!(parsed(&text), json!({ "missed": missed }));
    }
}
