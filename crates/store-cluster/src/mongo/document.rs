//! Reading stored documents field by field, without an intermediate tree.

use kith_store::{Params, ParamsPatch, StoreError, Text, Timestamp, Version};
use mongodb::bson::{Document, RawBsonRef, RawDocument, doc};

use super::error::malformed;

/// A document field: its name and its value.
pub(super) type Field<'a> = (&'a str, RawBsonRef<'a>);

/// A document's fields, in its order.
pub(super) fn fields(document: &RawDocument) -> impl Iterator<Item = Result<Field<'_>, StoreError>> {
    document.iter().map(|field| {
        let (name, value) = field.map_err(|_| malformed("document"))?;
        Ok((name.as_str(), value))
    })
}

/// Reads a text value.
pub(super) fn text(value: RawBsonRef<'_>, field: &'static str) -> Result<Text, StoreError> {
    value.as_str().map(Text::new).ok_or_else(|| malformed(field))
}

/// Reads several texts.
pub(super) fn texts(value: RawBsonRef<'_>, field: &'static str) -> Result<Vec<Text>, StoreError> {
    let array = value.as_array().ok_or_else(|| malformed(field))?;
    array.into_iter().map(|item| text(item.map_err(|_| malformed(field))?, field)).collect()
}

/// A whole number; MongoDB may store it in 32 bits.
pub(super) fn number(value: RawBsonRef<'_>, field: &'static str) -> Result<i64, StoreError> {
    match value {
        RawBsonRef::Int64(number) => Ok(number),
        RawBsonRef::Int32(number) => Ok(number.into()),
        _ => Err(malformed(field)),
    }
}

/// A small number.
pub(super) fn small(value: RawBsonRef<'_>, field: &'static str) -> Result<u8, StoreError> {
    u8::try_from(number(value, field)?).map_err(|_| malformed(field))
}

/// Reads a kind that `of` numbers.
pub(super) fn kind<T>(
    value: RawBsonRef<'_>,
    field: &'static str,
    of: fn(i64) -> Option<T>,
) -> Result<T, StoreError> {
    of(number(value, field)?).ok_or_else(|| malformed(field))
}

/// Reads a value that is true or false.
pub(super) fn flag(value: RawBsonRef<'_>, field: &'static str) -> Result<bool, StoreError> {
    value.as_bool().ok_or_else(|| malformed(field))
}

/// Reads a time value.
pub(super) fn moment(value: RawBsonRef<'_>, field: &'static str) -> Result<Timestamp, StoreError> {
    number(value, field).map(Timestamp)
}

/// Reads a version.
pub(super) fn version(value: RawBsonRef<'_>) -> Result<Version, StoreError> {
    Version::new(number(value, "v")?).ok_or_else(|| malformed("v"))
}

/// The number in a document's field; `None`: it has no such field.
pub(super) fn number_in(document: &RawDocument, field: &'static str) -> Result<Option<i64>, StoreError> {
    let value = document.get(field).map_err(|_| malformed(field))?;
    value.map(|value| number(value, field)).transpose()
}

/// Parameters, read from their subdocument.
pub(super) fn params(value: RawBsonRef<'_>) -> Result<Params, StoreError> {
    let document = value.as_document().ok_or_else(|| malformed("params"))?;
    fields(document).map(|field| field.and_then(|(key, value)| Ok((key, text(value, "params")?)))).collect()
}

/// Parameters as a subdocument. Their keys hold neither dots nor dollars.
pub(super) fn params_document(params: &Params) -> Document {
    params.iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

/// A condition that the parameters, changed by `patch`, are within their limits, counted as by
/// [`Params::fits`]. `None`: they always are.
pub(super) fn room_for(patch: &ParamsPatch) -> Option<Document> {
    if patch.replace || patch.set.is_empty() {
        return None;
    }
    let touched: Vec<&str> =
        patch.set.iter().map(|(key, _)| key).chain(patch.unset.iter().map(String::as_str)).collect();
    let kept = doc! { "$filter": {
        "input": { "$objectToArray": { "$ifNull": ["$params", {}] } },
        "cond": { "$not": [{ "$in": ["$$this.k", { "$literal": touched }] }] },
    } };
    let bytes = doc! { "$sum": { "$map": {
        "input": "$$kept",
        "in": { "$add": [{ "$strLenBytes": "$$this.k" }, { "$strLenBytes": "$$this.v" }] },
    } } };
    let keys_left = kith_store::PARAMS_MAX.saturating_sub(patch.set.len());
    let bytes_left = kith_store::PARAMS_BYTES_MAX.saturating_sub(patch.set.bytes());
    Some(doc! { "$let": { "vars": { "kept": kept }, "in": { "$and": [
        { "$lte": [{ "$size": "$$kept" }, count(keys_left)] },
        { "$lte": [bytes, count(bytes_left)] },
    ] } } })
}

/// Puts a parameter change into the operands for `$set` and `$unset`.
pub(super) fn change_params(patch: &ParamsPatch, set: &mut Document, unset: &mut Document) {
    if patch.replace {
        set.insert("params", params_document(&patch.set));
        return;
    }
    for (key, value) in patch.set.iter() {
        set.insert(format!("params.{key}"), value);
    }
    for key in &patch.unset {
        unset.insert(format!("params.{key}"), "");
    }
}

/// A length in MongoDB's units.
pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
