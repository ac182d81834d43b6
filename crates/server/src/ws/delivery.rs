//! Frames with conversations, and the frame after everything that was there before.

use kith_proto::message::v1::Conversation;
use serde_json::json;

use super::frame::SENT_BYTES;
use crate::json;

/// Most conversations in one frame.
const FRAME: usize = 50;
/// Most bytes that a frame's conversations may have, with a comma after each. The rest is for what is around
/// them.
const FRAME_BYTES: usize = SENT_BYTES - 128;

/// Frames with conversations. `more`: whether others follow after them.
pub(super) fn pages(conversations: &[Conversation], more: bool, left_out: i64) -> Vec<String> {
    let parts = parts(conversations.iter().map(conversation));
    let count = parts.len();
    let page = |(at, part): (usize, Vec<String>)| {
        let (more, listed) = (more || at + 1 < count, part.join(","));
        let left_out =
            if more || left_out == 0 { String::new() } else { format!(r#","leftOut":"{left_out}""#) };
        format!(r#"{{"conversations":[{listed}],"more":{more}{left_out}}}"#)
    };
    parts.into_iter().enumerate().map(page).collect()
}

/// Splits texts into parts for one frame each. There is at least one part: a user without conversations gets
/// an empty page.
fn parts(texts: impl Iterator<Item = String>) -> Vec<Vec<String>> {
    let (mut parts, mut part, mut bytes) = (Vec::new(), Vec::new(), 0);
    for text in texts {
        let added = text.len() + 1;
        if part.len() == FRAME || (bytes + added > FRAME_BYTES && !part.is_empty()) {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += added;
        part.push(text);
    }
    if !part.is_empty() || parts.is_empty() {
        parts.push(part);
    }
    parts
}

fn conversation(conversation: &Conversation) -> String {
    let value = json::value("kith.message.v1.Conversation", conversation);
    value.unwrap_or_else(|| json!({"conversationId": conversation.conversation_id})).to_string()
}

/// Everything from before has been sent, up to this cursor, except for this number of conversations.
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

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
    fn pages_are_bounded_by_bytes_and_lose_nothing() {
        let half = "x".repeat(FRAME_BYTES / 2 - 1);
        let half = half.as_str();
        let texts = [half, half, "y", half, half].map(str::to_owned);
        let split = parts(texts.clone().into_iter());
        assert_eq!(split.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
        assert!(split.iter().all(|part| part.join(",").len() <= FRAME_BYTES));
        assert_eq!(split.concat(), texts);
        let large = vec!["x".repeat(2 * SENT_BYTES), "y".to_owned()];
        assert_eq!(parts(large.into_iter()).len(), 2, "a text of any size is sent");
    }

    #[test]
    fn live_says_what_was_left_out() {
        assert_eq!(parsed(&live("c-1", 0)), json!({"live": true, "cursor": "c-1"}));
        assert_eq!(parsed(&live("", 3)), json!({"live": true, "leftOut": "3"}));
    }
}
