//! The fields of a change stream's event: expressions by which the server reads them, and values in them.

use kith_store::DocumentKey;
use mongodb::bson::{Document, RawBsonRef, RawDocument, doc};

/// Whether an update changed a part of a message. Appends add whole messages, or set them all.
pub(super) fn is_within_messages() -> Document {
    let updated = updated_names();
    let removed = doc! { "$ifNull": ["$updateDescription.removedFields", []] };
    let is_within = doc! { "$regexMatch": { "input": "$$this", "regex": r"^m\.[0-9]+\." } };
    let fields = doc! { "$concatArrays": [updated, removed] };
    doc! { "$anyElementTrue": [{ "$map": { "input": fields, "in": is_within } }] }
}

/// The names of the fields that an update set.
pub(super) fn updated_names() -> Document {
    let updated = doc! { "$objectToArray": { "$ifNull": ["$updateDescription.updatedFields", {}] } };
    doc! { "$map": { "input": updated, "in": "$$this.k" } }
}

pub(super) fn field<'a>(event: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    event.get(name).ok().flatten()
}

/// A whole number, in any form that may be written by hand.
pub(super) fn whole(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int64(number) => Some(number),
        RawBsonRef::Int32(number) => Some(number.into()),
        // An id that a shell wrote. A float that is not exact is not a record's id.
        RawBsonRef::Double(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            format!("{number}").parse().ok()
        }
        _ => None,
    }
}

pub(super) fn document_key(id: RawBsonRef<'_>) -> Option<DocumentKey> {
    let id = id.as_document()?;
    let document = whole(field(id, "d")?).filter(|document| *document >= 0)?;
    Some(DocumentKey { conversation: id.get_str("c").ok()?.parse().ok()?, document })
}
