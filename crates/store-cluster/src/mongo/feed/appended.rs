//! Appended messages in a change stream's events: where they are, without anything of their contents.

use kith_store::{ConversationId, DOCUMENT, SeqRange};
use mongodb::bson::{Document, RawDocument, doc};

use super::{
    super::database::MESSAGES,
    event_fields::{document_key, field, is_within_messages, updated_names, whole},
};

/// A name that an append sets: the array in a new or filled document, or a message at the array's end.
const WHOLE: &str = r"^m(\.[0-9]+)?$";

/// The events that may append messages.
pub(super) fn filter() -> Document {
    let is_whole = doc! { "$regexMatch": { "input": "$$this", "regex": WHOLE } };
    let sets_whole = doc! { "$anyElementTrue": [{ "$map": { "input": updated_names(), "in": is_whole } }] };
    doc! { "ns.coll": MESSAGES, "$or": [
        { "operationType": "insert" },
        { "operationType": "update", "$expr": sets_whole },
    ] }
}

/// The fields that [`messages`] reads: the names that an append set, and the size of the array if it was set
/// whole. Absent in events that change messages, because these raise the version or were made by hand.
pub(super) fn fields() -> Document {
    let is_insert = doc! { "$eq": ["$operationType", "insert"] };
    let is_whole = doc! { "$regexMatch": { "input": "$$this", "regex": WHOLE } };
    let names = doc! { "$filter": { "input": updated_names(), "cond": is_whole } };
    let sets_version = doc! { "$in": ["v", updated_names()] };
    let is_update = doc! { "$eq": ["$operationType", "update"] };
    let is_append = doc! { "$and": [
        { "$eq": ["$ns.coll", MESSAGES] },
        { "$or": [
            is_insert.clone(),
            { "$and": [is_update, { "$not": sets_version }, { "$not": is_within_messages() }] },
        ] },
    ] };
    let names = doc! { "$cond": [is_insert, ["m"], names] };
    let array = doc! { "$ifNull": ["$updateDescription.updatedFields.m", "$fullDocument.m"] };
    let size = doc! { "$cond": [{ "$isArray": array.clone() }, { "$size": array }, 0] };
    doc! { "appended": { "$cond": [is_append, names, "$$REMOVE"] }, "size": size }
}

/// The messages that an event appended. If it filled a document that could not take all, the event does not
/// show where they begin: the range begins with the document then, and repeats messages. `None`: it appended
/// none, or to a log of Kith's own.
pub(super) fn messages(event: &RawDocument) -> Option<(ConversationId, SeqRange)> {
    let names = event.get_array("appended").ok()?;
    let key = document_key(field(event, "id")?)?;
    let size = field(event, "size").and_then(whole).unwrap_or(0);
    let mut seqs = None::<SeqRange>;
    for name in names.into_iter().filter_map(|name| name.ok()?.as_str()) {
        let (first, last) = match name.strip_prefix("m.") {
            Some(index) => index.parse().map(|index: i64| (index, index)).ok()?,
            None => (0, size - 1),
        };
        let known = seqs.get_or_insert(SeqRange { first, last });
        *known = SeqRange { first: known.first.min(first), last: known.last.max(last) };
    }
    let seqs = seqs.filter(|seqs| seqs.first <= seqs.last && seqs.last < DOCUMENT)?;
    let seq = |index| key.first().checked_add(index);
    Some((key.conversation, SeqRange { first: seq(seqs.first)?, last: seq(seqs.last)? }))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::RawDocumentBuf;

    use super::*;

    fn seqs(conversation: &str, document: i64, more: Document) -> Option<(i64, i64)> {
        let mut event = doc! { "operationType": "update", "id": { "c": conversation, "d": document } };
        event.extend(more);
        let (_, seqs) = messages(&RawDocumentBuf::try_from(&event).unwrap())?;
        Some((seqs.first, seqs.last))
    }

    #[test]
    fn numbers_follow_from_the_places() {
        let two = doc! { "appended": ["m.9", "m.10"], "size": 0 };
        assert_eq!(seqs("g9", 0, two.clone()), Some((10, 11)));
        assert_eq!(seqs("g9", 3, two), Some((310, 311)));
        assert_eq!(seqs("d7-8", 1, doc! { "appended": ["m"], "size": 100 }), Some((101, 200)));
        assert_eq!(seqs("d7-8", 1, doc! { "appended": ["m"], "size": 1 }), Some((101, 101)));
    }

    #[test]
    fn event_without_appended_messages_has_none() {
        for event in [
            doc! {},
            doc! { "appended": [], "size": 0 },
            doc! { "appended": ["m"], "size": 0 },
            doc! { "appended": ["m.100"] },
            doc! { "appended": ["m.x"] },
            doc! { "appended": ["m"], "size": 101 },
        ] {
            assert_eq!(seqs("g9", 0, event.clone()), None, "{event}");
        }
        assert_eq!(seqs("g9", i64::MAX / DOCUMENT, doc! { "appended": ["m.99"] }), None);
    }

    #[test]
    fn logs_of_kith_are_left_out() {
        assert_eq!(seqs("o1", 0, doc! { "appended": ["m.1"] }), None);
    }
}
