use kith_cache::remote::Codec;
use kith_store::{Conversation, Version};
use prost::Message;

/// Version of the format; nodes with another one treat such bytes as a miss.
const SCHEMA: u16 = 1;

/// The codec of conversations in the shared tier.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConversationCodec;

/// A conversation as bytes. Numbers of fields are never reused; a change of meaning raises [`SCHEMA`].
#[derive(Clone, PartialEq, Eq, Message)]
struct PackedConversation {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(int64, tag = "2")]
    version: i64,
    #[prost(int64, tag = "3")]
    min_seq: i64,
    #[prost(bool, tag = "4")]
    trim: bool,
    /// Written last, so that truncated bytes lack it.
    #[prost(bool, tag = "15")]
    whole: bool,
}

impl Codec<Conversation> for ConversationCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, conversation: &Conversation) -> Vec<u8> {
        PackedConversation {
            id: conversation.id.to_string(),
            version: conversation.version.get(),
            min_seq: conversation.min_seq,
            trim: conversation.trim,
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Conversation> {
        let packed = PackedConversation::decode(bytes).ok().filter(|packed| packed.whole)?;
        Some(Conversation {
            id: packed.id.parse().ok()?,
            version: Version::new(packed.version)?,
            min_seq: packed.min_seq,
            trim: packed.trim,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::record_codec::tests::assert_none_when_cut;

    #[test]
    fn conversation_comes_back_as_it_was() {
        for (id, min_seq, trim) in [("g9", 7, true), ("d7-9223372036854775807", i64::MAX, false)] {
            let version = Version::new(i64::MAX).unwrap();
            let conversation = Conversation { id: id.parse().unwrap(), version, min_seq, trim };
            let bytes = ConversationCodec.encode(&conversation);
            assert_eq!(ConversationCodec.decode(&bytes), Some(conversation));
            assert_none_when_cut(&bytes, |bytes| ConversationCodec.decode(bytes));
        }
    }

    #[test]
    fn what_is_no_conversation_is_refused() {
        let fine = PackedConversation { id: "g9".to_owned(), whole: true, ..PackedConversation::default() };
        assert!(ConversationCodec.decode(&fine.encode_to_vec()).is_some());
        for wrong in [
            PackedConversation { id: "9".to_owned(), ..fine.clone() },
            PackedConversation { version: -1, ..fine },
        ] {
            assert_eq!(ConversationCodec.decode(&wrong.encode_to_vec()), None, "{wrong:?}");
        }
    }
}
