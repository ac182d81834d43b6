//! Encodes log documents for the shared tier. Bytes that are truncated or have another form are a cache miss,
//! never a shorter document.

use kith_cache::remote::Codec;
use kith_delivery::entry;
use kith_store::{DocumentKey, LogDocument, Message as LogMessage, Version};
use prost::{Message, bytes::Bytes};

/// The format's version; nodes with another version treat such bytes as a miss.
const SCHEMA: u16 = 1;

/// The document codec for the shared tier.
#[derive(Clone, Copy, Debug)]
pub(in crate::message) struct DocumentCodec;

/// A document as bytes. Field numbers are never reused; a changed meaning raises [`SCHEMA`].
#[derive(Clone, PartialEq, Eq, Message)]
struct PackedDocument {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int64, tag = "2")]
    version: i64,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    entries: Vec<Bytes>,
    /// This field is written last, so that truncated bytes lack it.
    #[prost(bool, tag = "15")]
    whole: bool,
}

impl Codec<LogDocument> for DocumentCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, document: &LogDocument) -> Vec<u8> {
        let entries: Option<Vec<Bytes>> = document.messages.iter().map(entry::encode).collect();
        PackedDocument {
            key: document.key.to_string(),
            version: document.version.get(),
            // A document without all its messages is invalid.
            whole: entries.is_some(),
            entries: entries.unwrap_or_default(),
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<LogDocument> {
        let packed = PackedDocument::decode(bytes).ok().filter(|packed| packed.whole)?;
        let key: DocumentKey = packed.key.parse().ok()?;
        let messages = (key.first()..).zip(&packed.entries).map(|(seq, bytes)| entry::decode(bytes, seq));
        let messages: Vec<LogMessage> = messages.collect::<Option<_>>()?;
        Some(LogDocument { key, version: Version::new(packed.version)?, messages })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::sample::stored, *};

    fn document() -> LogDocument {
        let key: DocumentKey = "g9/2".parse().unwrap();
        let messages = (key.first()..).take(100).map(|seq| stored(seq, 3)).collect();
        LogDocument { key, version: Version::new(i64::MAX).unwrap(), messages }
    }

    #[test]
    fn document_comes_back_as_it_was() {
        let document = document();
        let bytes = DocumentCodec.encode(&document);
        assert_eq!(DocumentCodec.decode(&bytes), Some(document));
        assert!((0..bytes.len()).all(|end| DocumentCodec.decode(&bytes[..end]).is_none()));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let fine = PackedDocument::decode(&DocumentCodec.encode(&document())[..]).unwrap();
        assert!(DocumentCodec.decode(&fine.encode_to_vec()).is_some());
        for wrong in [
            PackedDocument { key: "g9".to_owned(), ..fine.clone() },
            PackedDocument { version: -1, ..fine.clone() },
            PackedDocument { entries: vec![Bytes::from_static(b"no entry")], ..fine },
        ] {
            assert_eq!(DocumentCodec.decode(&wrong.encode_to_vec()), None, "{wrong:?}");
        }
    }
}
