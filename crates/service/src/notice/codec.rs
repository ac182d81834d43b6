use kith_cache::remote::Codec;
use kith_store::{
    Audience, AudienceId, Notice, NoticeId, NoticeReader, NoticeTerms, ReadBits, Timestamp, Version,
    pack_entries, unpack_entries,
};
use prost::Message;

use crate::write::record_codec::{Param, packed_params};

/// Version of the format; nodes with another one treat such bytes as a miss.
const SCHEMA: u16 = 1;

/// The codec of audiences in the shared tier.
#[derive(Clone, Copy, Debug)]
pub(super) struct AudienceCodec;

/// The codec of notices.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoticeCodec;

/// The codec of readers.
#[derive(Clone, Copy, Debug)]
pub struct ReaderCodec;

/// An audience as bytes. Numbers of fields are never reused; a change of meaning raises [`SCHEMA`]. The same holds for
/// the records below.
#[derive(Clone, PartialEq, Eq, Message)]
struct PackedAudience {
    #[prost(int32, tag = "1")]
    id: i32,
    #[prost(int64, tag = "2")]
    version: i64,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(bool, tag = "4")]
    of_users: bool,
    #[prost(sint64, tag = "5")]
    created: i64,
    #[prost(uint32, tag = "6")]
    next_slot: u32,
    #[prost(bytes = "vec", tag = "7")]
    entries: Vec<u8>,
    /// Written last, so that truncated bytes lack it.
    #[prost(bool, tag = "15")]
    whole: bool,
}

#[derive(Clone, PartialEq, Message)]
struct PackedNotice {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    version: i64,
    #[prost(int64, tag = "3")]
    revision: i64,
    #[prost(string, tag = "4")]
    title: String,
    #[prost(string, tag = "5")]
    body: String,
    #[prost(message, repeated, tag = "6")]
    params: Vec<Param>,
    #[prost(int32, repeated, tag = "7")]
    audiences: Vec<i32>,
    #[prost(sint64, tag = "8")]
    publish: i64,
    #[prost(sint64, optional, tag = "9")]
    expire: Option<i64>,
    #[prost(bool, tag = "10")]
    pinned: bool,
    #[prost(bool, tag = "11")]
    must_confirm: bool,
    #[prost(bool, tag = "12")]
    for_newcomers: bool,
    #[prost(sint64, tag = "13")]
    created: i64,
    #[prost(sint64, tag = "14")]
    updated: i64,
    #[prost(bool, tag = "15")]
    whole: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct PackedReader {
    #[prost(int32, tag = "1")]
    audience: i32,
    #[prost(int64, tag = "2")]
    reader: i64,
    #[prost(int64, tag = "3")]
    version: i64,
    #[prost(uint32, tag = "4")]
    ordinal: u32,
    #[prost(sint64, tag = "5")]
    since: i64,
    #[prost(uint32, repeated, tag = "6")]
    pages: Vec<u32>,
    #[prost(fixed64, repeated, tag = "7")]
    words: Vec<u64>,
    #[prost(bool, tag = "15")]
    whole: bool,
}

impl Codec<Audience> for AudienceCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, audience: &Audience) -> Vec<u8> {
        PackedAudience {
            id: audience.id.get(),
            version: audience.version.get(),
            name: audience.name.to_string(),
            of_users: audience.of_users,
            created: audience.created.0,
            next_slot: audience.next_slot,
            entries: pack_entries(&audience.entries),
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Audience> {
        let packed = PackedAudience::decode(bytes).ok().filter(|packed| packed.whole)?;
        Some(Audience {
            id: AudienceId::new(packed.id.into()).ok()?,
            version: Version::new(packed.version)?,
            name: packed.name.into(),
            of_users: packed.of_users,
            created: Timestamp(packed.created),
            next_slot: packed.next_slot,
            entries: unpack_entries(&packed.entries)?,
        })
    }
}

impl Codec<Notice> for NoticeCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, notice: &Notice) -> Vec<u8> {
        let NoticeTerms { publish, expire, pinned, must_confirm, for_newcomers } = notice.terms;
        PackedNotice {
            id: notice.id.get(),
            version: notice.version.get(),
            revision: notice.revision,
            title: notice.title.to_string(),
            body: notice.body.to_string(),
            params: packed_params(&notice.params),
            audiences: notice.audiences.iter().map(|id| id.get()).collect(),
            publish: publish.0,
            expire: expire.map(|expire| expire.0),
            pinned,
            must_confirm,
            for_newcomers,
            created: notice.created.0,
            updated: notice.updated.0,
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Notice> {
        let packed = PackedNotice::decode(bytes).ok().filter(|packed| packed.whole)?;
        let audiences = packed.audiences.into_iter().map(|id| AudienceId::new(id.into()).ok());
        Some(Notice {
            id: NoticeId::new(packed.id).ok()?,
            version: Version::new(packed.version)?,
            revision: packed.revision,
            title: packed.title.into(),
            body: packed.body.into(),
            params: packed.params.into_iter().map(Param::into_pair).collect(),
            audiences: audiences.collect::<Option<_>>()?,
            terms: NoticeTerms {
                publish: Timestamp(packed.publish),
                expire: packed.expire.map(Timestamp),
                pinned: packed.pinned,
                must_confirm: packed.must_confirm,
                for_newcomers: packed.for_newcomers,
            },
            created: Timestamp(packed.created),
            updated: Timestamp(packed.updated),
        })
    }
}

impl Codec<NoticeReader> for ReaderCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, reader: &NoticeReader) -> Vec<u8> {
        PackedReader {
            audience: reader.key.audience.get(),
            reader: reader.key.reader.get(),
            version: reader.version.get(),
            ordinal: reader.ordinal,
            since: reader.since.0,
            pages: reader.bits.words().map(|(page, _)| page).collect(),
            words: reader.bits.words().map(|(_, word)| word).collect(),
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<NoticeReader> {
        let packed = PackedReader::decode(bytes).ok().filter(|packed| packed.whole)?;
        if packed.pages.len() != packed.words.len() {
            return None;
        }
        Some(NoticeReader {
            key: format!("{},{}", packed.audience, packed.reader).parse().ok()?,
            version: Version::new(packed.version)?,
            ordinal: packed.ordinal,
            since: Timestamp(packed.since),
            bits: ReadBits::new(packed.pages.into_iter().zip(packed.words)),
        })
    }
}

#[cfg(test)]
mod tests {
    use kith_store::AudienceEntry;

    use super::*;
    use crate::write::record_codec::tests::assert_none_when_cut;

    const LAST: Version = match Version::new(i64::MAX) {
        Some(last) => last,
        None => Version::NONE,
    };

    #[test]
    fn audience_comes_back_as_it_was() {
        let entry = AudienceEntry {
            notice: NoticeId::new(9).unwrap(),
            slot: 4,
            confirm_slot: Some(5),
            publish: Timestamp(-7),
            expire: None,
            pinned: true,
            for_newcomers: false,
        };
        let audience = Audience {
            id: AudienceId::new(i64::from(i32::MAX)).unwrap(),
            version: LAST,
            name: "Kunden".into(),
            of_users: true,
            created: Timestamp(-1),
            next_slot: u32::MAX,
            entries: vec![entry, AudienceEntry { expire: Some(Timestamp(3)), ..entry }],
        };
        let bytes = AudienceCodec.encode(&audience);
        assert_eq!(AudienceCodec.decode(&bytes), Some(audience));
        assert_none_when_cut(&bytes, |bytes| AudienceCodec.decode(bytes));
    }

    #[test]
    fn notice_comes_back_as_it_was() {
        for expire in [None, Some(Timestamp(0)), Some(Timestamp(i64::MAX))] {
            let notice = Notice {
                id: NoticeId::new(i64::MAX).unwrap(),
                version: LAST,
                revision: 3,
                title: "Titel".into(),
                body: "a\nb".into(),
                params: [("a", "b")].into_iter().collect(),
                audiences: [1, 7].map(|id| AudienceId::new(id).unwrap()).to_vec(),
                terms: NoticeTerms {
                    publish: Timestamp(5),
                    expire,
                    pinned: true,
                    must_confirm: false,
                    for_newcomers: true,
                },
                created: Timestamp(1),
                updated: Timestamp(2),
            };
            let bytes = NoticeCodec.encode(&notice);
            assert_eq!(NoticeCodec.decode(&bytes), Some(notice));
            assert_none_when_cut(&bytes, |bytes| NoticeCodec.decode(bytes));
        }
    }

    #[test]
    fn reader_comes_back_as_it_was() {
        for slots in [&[][..], &[0, 63, 64, u32::MAX]] {
            let reader = NoticeReader {
                key: "7,9223372036854775807".parse().unwrap(),
                version: LAST,
                ordinal: u32::MAX,
                since: Timestamp(-5),
                bits: ReadBits::default().with(slots),
            };
            let bytes = ReaderCodec.encode(&reader);
            assert_eq!(ReaderCodec.decode(&bytes), Some(reader));
            assert_none_when_cut(&bytes, |bytes| ReaderCodec.decode(bytes));
        }
    }

    #[test]
    fn what_is_no_reader_is_refused() {
        let fine = PackedReader {
            audience: 1,
            reader: 1,
            pages: vec![1],
            words: vec![1],
            whole: true,
            ..PackedReader::default()
        };
        assert!(ReaderCodec.decode(&fine.encode_to_vec()).is_some());
        for wrong in [
            PackedReader { audience: 0, ..fine.clone() },
            PackedReader { version: -1, ..fine.clone() },
            PackedReader { words: Vec::new(), ..fine },
        ] {
            assert_eq!(ReaderCodec.decode(&wrong.encode_to_vec()), None, "{wrong:?}");
        }
    }
}
