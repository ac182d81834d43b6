//! The JSON of deliveries, made once for all sockets on the node that get the same delivery.

use std::sync::Arc;

use ahash::RandomState;
use kith_proto::message::v1::{Delivery, Message, Missed, delivery::What};
use parking_lot::Mutex;
use prost::Message as _;

use crate::json;

/// Places for texts. A message to a group is sent to all its sockets within some ms.
const PLACES: usize = 512;
/// Most bytes in a delivery whose text is kept, so that all texts take some MiB.
const KEPT_BYTES: usize = 8 << 10;
const DELIVERY: &str = "kith.message.v1.Delivery";

/// Texts by the bytes in their deliveries, so that a text is never used for other content: a message before
/// its recall, or a message with the client id that only its sender sees.
#[derive(Debug)]
pub(super) struct DeliveryTexts {
    hashes: RandomState,
    places: Box<[Mutex<Option<KeptText>>]>,
}

#[derive(Debug)]
struct KeptText {
    delivery: Vec<u8>,
    text: Arc<str>,
}

impl Default for DeliveryTexts {
    fn default() -> Self {
        let places = std::iter::repeat_with(Mutex::default).take(PLACES).collect();
        Self { hashes: RandomState::new(), places }
    }
}

impl DeliveryTexts {
    /// The frame for a delivery with the cursor after it. If `cursor` is empty, the frame has none.
    pub(super) fn frame(&self, delivery: &Delivery, cursor: &str) -> String {
        let text = self.text(delivery);
        if cursor.is_empty() {
            return text.as_ref().to_owned();
        }
        let open = text.strip_suffix('}').unwrap_or_default();
        let comma = if open == "{" { "" } else { "," };
        format!(r#"{open}{comma}"cursor":{}}}"#, serde_json::Value::from(cursor))
    }

    fn text(&self, delivery: &Delivery) -> Arc<str> {
        let bytes = delivery.encode_to_vec();
        if bytes.len() > KEPT_BYTES {
            return text_of(delivery);
        }
        let index = usize::try_from(self.hashes.hash_one(&bytes) % PLACES as u64).unwrap_or(0);
        let place = &self.places[index];
        if let Some(kept) = place.lock().as_ref().filter(|kept| kept.delivery == bytes) {
            return Arc::clone(&kept.text);
        }
        let text = text_of(delivery);
        *place.lock() = Some(KeptText { delivery: bytes, text: Arc::clone(&text) });
        text
    }
}

/// A delivery without a JSON form is named, so that the peer pulls it and reads why.
fn text_of(delivery: &Delivery) -> Arc<str> {
    let value = json::value(DELIVERY, delivery).or_else(|| {
        let Some(What::Message(message)) = &delivery.what else { return None };
        json::value(DELIVERY, &Delivery { what: Some(What::Missed(missed(message))) })
    });
    value.map_or_else(|| "{}".into(), |value| value.to_string().into())
}

fn missed(message: &Message) -> Missed {
    Missed { conversation_id: message.conversation_id.clone(), from_seq: message.seq, to_seq: message.seq }
}

#[cfg(test)]
mod tests {
    use kith_proto::message::v1::{Note, note};
    use prost_types::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn of(message: Message) -> Delivery {
        Delivery { what: Some(What::Message(message)) }
    }

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn delivery_carries_its_cursor() {
        let (texts, note) = (DeliveryTexts::default(), note::What::FollowerAdded(Default::default()));
        let delivery = Delivery { what: Some(What::Note(Note { what: Some(note) })) };
        for _ in 0..2 {
            for cursor in ["c-1", "c\"2"] {
                let expected = json!({"note": {"followerAdded": {}}, "cursor": cursor});
                assert_eq!(parsed(&texts.frame(&delivery, cursor)), expected);
            }
        }
        assert_eq!(parsed(&texts.frame(&delivery, "")), json!({"note": {"followerAdded": {}}}));
        assert_eq!(texts.frame(&Delivery { what: None }, "c"), r#"{"cursor":"c"}"#);
    }

    /// Interleaving: a socket is behind, the message is recalled, and the socket gets it under the same
    /// number.
    #[test]
    fn other_content_of_a_number_is_another_text() {
        let texts = DeliveryTexts::default();
        let sent =
            Message { conversation_id: "g9".into(), seq: 57, body: "secret".into(), ..Default::default() };
        let own = Message { client_message_id: "mine".into(), ..sent.clone() };
        let recalled = Message { body: Default::default(), ..sent.clone() };
        for message in [sent, own, recalled].into_iter().cycle().take(9) {
            let delivery = of(message);
            assert_eq!(parsed(&texts.frame(&delivery, "")), json::value(DELIVERY, &delivery).unwrap());
        }
    }

    #[test]
    fn same_delivery_is_made_once() {
        let (texts, delivery) = (DeliveryTexts::default(), of(Message { seq: 1, ..Default::default() }));
        assert!(Arc::ptr_eq(&texts.text(&delivery), &texts.text(&delivery)));
        let large = of(Message { body: vec![b'x'; KEPT_BYTES].into(), ..Default::default() });
        assert!(!Arc::ptr_eq(&texts.text(&large), &texts.text(&large)), "a large one is not kept");
    }

    #[test]
    fn messages_without_a_json_form_are_named() {
        let send_time = Some(Timestamp { seconds: 253_402_300_800, nanos: 0 });
        let message = Message { conversation_id: "g9".into(), seq: 4, send_time, ..Default::default() };
        let text = DeliveryTexts::default().frame(&of(message), "");
        let missed = json!({"conversationId": "g9", "fromSeq": "4", "toSeq": "4"});
        assert_eq!(parsed(&text), json!({ "missed": missed }));
    }
}
