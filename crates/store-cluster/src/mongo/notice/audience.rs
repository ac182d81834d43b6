//! The document of an audience: `{_id, v, name, users, created, next, e, w, u}`. `e` has its entries, 33
//! bytes each, in the order in which they are listed.

use kith_store::{
    Audience, AudienceId, NewAudience, StoreError, Text, Timestamp, Version, pack_entries, unpack_entries,
};
use mongodb::bson::{Binary, Document, RawDocument, RawDocumentBuf, doc, rawdoc, spec::BinarySubtype};

use crate::mongo::{
    document::{fields, flag, moment, number, number_in, text, version},
    error::malformed,
};

/// Reads an audience.
pub(super) fn audience(document: &RawDocument) -> Result<Audience, StoreError> {
    let id = number_in(document, "_id")?.ok_or_else(|| malformed("_id"))?;
    let mut audience = Audience {
        id: AudienceId::new(id).map_err(|_| malformed("_id"))?,
        version: Version::NONE,
        name: Text::default(),
        of_users: false,
        created: Timestamp(0),
        next_slot: 0,
        entries: Vec::new(),
    };
    for field in fields(document) {
        let (name, value) = field?;
        match name {
            "v" => audience.version = version(value)?,
            "name" => audience.name = text(value, "name")?,
            "users" => audience.of_users = flag(value, "users")?,
            "created" => audience.created = moment(value, "created")?,
            "next" => {
                audience.next_slot = u32::try_from(number(value, "next")?).map_err(|_| malformed("next"))?;
            }
            "e" => {
                let bytes = value.as_binary().ok_or_else(|| malformed("e"))?.bytes;
                audience.entries = unpack_entries(bytes).ok_or_else(|| malformed("e"))?;
            }
            _ => {}
        }
    }
    if audience.version == Version::NONE { Err(malformed("v")) } else { Ok(audience) }
}

/// The document of a new audience, which has no entries.
pub(super) fn new_audience(new: &NewAudience, created: Timestamp) -> RawDocumentBuf {
    rawdoc! {
        "_id": i64::from(new.id.get()),
        "v": Version::FIRST.get(),
        "name": new.name.as_str(),
        "users": new.of_users,
        "created": created.0,
        "next": 0_i64,
        "e": binary(Vec::new()),
        "w": rand::random::<i64>(),
    }
}

/// Writes an audience's variable part, if it still has this version, and raises the version.
pub(super) fn audience_update(after: &Audience, before: Version) -> (Document, Document) {
    let filter = doc! { "_id": i64::from(after.id.get()), "v": before.get() };
    let set = doc! {
        "name": after.name.as_str(),
        "next": i64::from(after.next_slot),
        "e": binary(pack_entries(&after.entries)),
        "u": rand::random::<i64>(),
    };
    (filter, doc! { "$set": set, "$inc": { "v": 1_i64 } })
}

fn binary(bytes: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes }
}
