//! The meaning that a change stream's event has for a record.

use kith_store::{AudienceId, DialogKey, DocumentKey, FeedRecord, GroupId, NoticeId, UserId, Version};
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, doc};

use super::super::{
    dialog_row,
    message::{MESSAGES, document_id},
};

/// A collection whose documents are records.
pub(super) struct WatchedCollection {
    pub(super) name: &'static str,
    /// The record with an id. `None`: no record can have the id.
    pub(super) record: fn(RawBsonRef<'_>) -> Option<FeedRecord>,
    /// A record's id. `None`: it is in another collection.
    pub(super) id: fn(&FeedRecord) -> Option<Bson>,
    /// Operation types whose events concern one record.
    operations: &'static [&'static str],
    /// The events that the server sends; `None`: all.
    filter: Option<fn() -> Document>,
}

/// A new record kind needs one more row.
pub(super) static WATCHED: [WatchedCollection; 7] = [
    WatchedCollection {
        name: "users",
        record: |id| UserId::new(whole(id)?).ok().map(FeedRecord::User),
        id: |record| match record {
            FeedRecord::User(id) => Some(id.get().into()),
            _ => None,
        },
        operations: &CHANGES,
        filter: None,
    },
    WatchedCollection {
        name: "groups",
        record: |id| GroupId::new(whole(id)?).ok().map(FeedRecord::Group),
        id: |record| match record {
            FeedRecord::Group(id) => Some(id.get().into()),
            _ => None,
        },
        operations: &CHANGES,
        filter: None,
    },
    WatchedCollection {
        name: "dialogs",
        record: |id| dialog(id).map(FeedRecord::Dialog),
        id: |record| match record {
            FeedRecord::Dialog(key) => Some(dialog_row::id(*key).into()),
            _ => None,
        },
        operations: &CHANGES,
        filter: None,
    },
    WatchedCollection {
        name: "conversations",
        record: |id| id.as_str()?.parse().ok().map(FeedRecord::Conversation),
        id: |record| match record {
            FeedRecord::Conversation(id) => Some(id.to_string().into()),
            _ => None,
        },
        operations: &CHANGES,
        filter: None,
    },
    WatchedCollection {
        name: "audiences",
        record: |id| AudienceId::new(whole(id)?).ok().map(FeedRecord::Audience),
        id: |record| match record {
            FeedRecord::Audience(id) => Some(i64::from(id.get()).into()),
            _ => None,
        },
        operations: &CHANGES,
        filter: None,
    },
    WatchedCollection {
        name: "notices",
        record: |id| NoticeId::new(whole(id)?).ok().map(FeedRecord::Notice),
        id: |record| match record {
            FeedRecord::Notice(id) => Some(id.get().into()),
            _ => None,
        },
        operations: &CHANGES,
        filter: None,
    },
    WatchedCollection {
        name: MESSAGES,
        record: |id| document_key(id).map(FeedRecord::Document),
        id: |record| match record {
            FeedRecord::Document(key) => Some(document_id(key.conversation, key.document).into()),
            _ => None,
        },
        operations: &["update", "replace"],
        // Appends do not change the version, so their texts never reach the stream's reader.
        filter: Some(|| {
            doc! { "$or": [
                { "operationType": "update", "updateDescription.updatedFields.v": { "$exists": true } },
                // Matches changes by hand within messages.
                { "operationType": "update", "$expr": is_within_messages() },
                { "operationType": "replace" },
            ] }
        }),
    },
];
/// Operations on one document.
const CHANGES: [&str; 4] = ["insert", "update", "replace", "delete"];
/// Operations that end a collection.
const COLLECTION_ENDS: [&str; 2] = ["drop", "rename"];
/// Operations that end all collections.
const ALL_END: [&str; 2] = ["dropDatabase", "invalidate"];
/// The fields that are removed when a stub's name or id is released. The stub and its version are otherwise
/// unchanged.
const RELEASED: [&[&str]; 2] = [&["name_free_at", "name_key"], &["id_held"]];

/// A number from here on is no version: there must be room above it.
pub(super) const VERSION_END: i64 = 1 << 62;

/// The server is asked for record events alone, and in them for neither names nor values of people.
pub(super) fn pipeline() -> [Document; 2] {
    let seen = doc! { "$match": { "$or": event_filters(&WATCHED) } };
    let updated = doc! { "$ifNull": ["$updateDescription.updatedFields", {}] };
    let cut = doc! { "$ifNull": ["$updateDescription.truncatedArrays", []] };
    let fields = doc! { "$project": {
        "operationType": 1, "ns": 1, "to": 1, "wallTime": 1,
        "id": "$documentKey._id",
        "inserted": "$fullDocument.v",
        "set": "$updateDescription.updatedFields.v",
        "nonce": { "$ifNull": ["$updateDescription.updatedFields.u", "$fullDocument.w"] },
        "removed": "$updateDescription.removedFields",
        "touched": { "$add": [{ "$size": { "$objectToArray": updated } }, { "$size": cut }] },
    } };
    [seen, fields]
}

/// Whether an update changed a part of a message. Appends add whole messages, or set them all.
fn is_within_messages() -> Document {
    let updated = doc! { "$objectToArray": { "$ifNull": ["$updateDescription.updatedFields", {}] } };
    let updated = doc! { "$map": { "input": updated, "in": "$$this.k" } };
    let removed = doc! { "$ifNull": ["$updateDescription.removedFields", []] };
    let is_within = doc! { "$regexMatch": { "input": "$$this", "regex": r"^m\.[0-9]+\." } };
    let fields = doc! { "$concatArrays": [updated, removed] };
    doc! { "$anyElementTrue": [{ "$map": { "input": fields, "in": is_within } }] }
}

/// The events from these collections, or from all.
fn event_filters(watched: &[WatchedCollection]) -> Vec<Document> {
    let mut seen: Vec<Document> = watched.iter().map(WatchedCollection::event_filter).collect();
    let names: Vec<&str> = watched.iter().map(|watched| watched.name).collect();
    seen.push(doc! { "to.coll": { "$in": names } });
    seen.push(doc! { "operationType": { "$in": &ALL_END[..] } });
    seen
}

impl WatchedCollection {
    /// The collection's events that the server sends. It always sends the collection's end.
    fn event_filter(&self) -> Document {
        let mut seen = doc! { "ns.coll": self.name };
        if let Some(filter) = self.filter {
            seen.insert("$or", vec![doc! { "operationType": { "$in": &COLLECTION_ENDS[..] } }, filter()]);
        }
        seen
    }
}

/// An event's meaning for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventMeaning {
    /// A record was changed.
    Change(FeedRecord, VersionEffect),
    /// No record was changed.
    Nothing,
    /// All records of a kind were removed or replaced.
    End,
}

/// How a change affects the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionEffect {
    /// A write by this program raised it to this value.
    Raised(Version),
    /// A change by hand that did not touch it.
    Unchanged,
    /// A change by hand that set or removed it. It may be lower than before.
    Edited,
    /// Removed the document, by hand.
    Removed,
}

/// Decodes an event. Every change by hand to a document has a meaning.
pub(super) fn meaning(event: &RawDocument) -> EventMeaning {
    let Ok(operation) = event.get_str("operationType") else { return EventMeaning::Nothing };
    if COLLECTION_ENDS.contains(&operation) || ALL_END.contains(&operation) {
        return EventMeaning::End;
    }
    match (record(event, operation), version_effect(event, operation)) {
        (Some(record), Some(effect)) => EventMeaning::Change(record, effect),
        _ => EventMeaning::Nothing,
    }
}

/// Returns the event's effect on the version; `None`: version and record are unchanged.
fn version_effect(event: &RawDocument, operation: &str) -> Option<VersionEffect> {
    match operation {
        "insert" => Some(insert_effect(event)),
        "update" if is_release(event) => None,
        "update" => Some(update_effect(event)),
        // This program never does this.
        "replace" => Some(VersionEffect::Edited),
        "delete" => Some(VersionEffect::Removed),
        _ => None,
    }
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

/// A version as this program writes it.
pub(super) fn version(value: RawBsonRef<'_>) -> Option<Version> {
    match value {
        RawBsonRef::Int64(number @ 1..VERSION_END) => Version::new(number),
        _ => None,
    }
}

fn field<'a>(event: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    event.get(name).ok().flatten()
}

fn dialog(id: RawBsonRef<'_>) -> Option<DialogKey> {
    let id = id.as_document()?;
    let user = UserId::new(whole(field(id, "u")?)?).ok()?;
    Some(DialogKey { user, conversation: id.get_str("c").ok()?.parse().ok()? })
}

fn document_key(id: RawBsonRef<'_>) -> Option<DocumentKey> {
    let id = id.as_document()?;
    let document = whole(field(id, "d")?).filter(|document| *document >= 0)?;
    Some(DocumentKey { conversation: id.get_str("c").ok()?.parse().ok()?, document })
}

/// Returns the record that the event concerns; `None`: it concerns no record.
fn record(event: &RawDocument, operation: &str) -> Option<FeedRecord> {
    let name = event.get_document("ns").ok()?.get_str("coll").ok()?;
    let watched = WATCHED.iter().find(|watched| watched.name == name)?;
    let id = field(event, "id")?;
    watched.operations.contains(&operation).then(|| (watched.record)(id)).flatten()
}

/// This program inserts documents with the first version only: another version comes from a dump.
fn insert_effect(event: &RawDocument) -> VersionEffect {
    match field(event, "inserted").and_then(version) {
        Some(Version::FIRST) if has_nonce(event) => VersionEffect::Raised(Version::FIRST),
        Some(_) | None => VersionEffect::Edited,
    }
}

fn update_effect(event: &RawDocument) -> VersionEffect {
    match field(event, "set") {
        Some(value) if has_nonce(event) => {
            version(value).map_or(VersionEffect::Edited, VersionEffect::Raised)
        }
        Some(_) => VersionEffect::Edited,
        None if removed(event).any(|name| name == "v") => VersionEffect::Edited,
        None => VersionEffect::Unchanged,
    }
}

/// Whether the change set the number that this program sets together with the version in every write.
fn has_nonce(event: &RawDocument) -> bool {
    matches!(field(event, "nonce"), Some(RawBsonRef::Int64(_)))
}

fn is_release(event: &RawDocument) -> bool {
    let mut names: Vec<&str> = removed(event).collect();
    names.sort_unstable();
    RELEASED.contains(&&*names) && field(event, "touched").and_then(whole) == Some(0)
}

fn removed(event: &RawDocument) -> impl Iterator<Item = &str> {
    let names = event.get_array("removed").ok();
    names.into_iter().flatten().filter_map(|name| name.ok()?.as_str())
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, RawDocumentBuf, bson};

    use super::*;

    fn meaning_of(event: &Document) -> EventMeaning {
        meaning(&RawDocumentBuf::try_from(event).unwrap())
    }

    fn of_user_7(effect: VersionEffect) -> EventMeaning {
        EventMeaning::Change(FeedRecord::User(UserId::new(7).unwrap()), effect)
    }

    fn version_edited() -> EventMeaning {
        of_user_7(VersionEffect::Edited)
    }

    fn event(kind: &str, more: Document) -> Document {
        let mut event = doc! { "operationType": kind, "ns": { "db": "kith", "coll": "users" }, "id": 7_i64 };
        event.extend(more);
        event
    }

    #[test]
    fn version_with_nonce_is_believed() {
        let raised = |version| of_user_7(VersionEffect::Raised(Version::new(version).unwrap()));
        assert_eq!(meaning_of(&event("insert", doc! { "inserted": 1_i64, "nonce": 9_i64 })), raised(1));
        assert_eq!(
            meaning_of(&event("update", doc! { "set": 3_i64, "nonce": 9_i64, "touched": 3 })),
            raised(3)
        );
    }

    #[test]
    fn version_without_nonce_is_a_change_by_hand() {
        for version in [1_i64, 2, VERSION_END - 1] {
            assert_eq!(meaning_of(&event("insert", doc! { "inserted": version })), version_edited());
            assert_eq!(meaning_of(&event("update", doc! { "set": version })), version_edited());
            let other = doc! { "set": version, "nonce": "9" };
            assert_eq!(meaning_of(&event("update", other)), version_edited());
        }
    }

    #[test]
    fn insert_of_a_later_version_is_a_change_by_hand() {
        let dumped = doc! { "inserted": 2_i64, "nonce": 9_i64 };
        assert_eq!(meaning_of(&event("insert", dumped)), version_edited());
    }

    #[test]
    fn version_of_another_type_is_a_change_by_hand() {
        let values =
            [Bson::Int32(3), Bson::Double(3.0), Bson::from("3"), Bson::Null, Bson::Int64(0), Bson::Int64(-3)];
        for value in values {
            let inserted = doc! { "inserted": value.clone(), "nonce": 9_i64 };
            assert_eq!(meaning_of(&event("insert", inserted)), version_edited());
            let set = doc! { "set": value, "nonce": 9_i64 };
            assert_eq!(meaning_of(&event("update", set)), version_edited());
        }
        assert_eq!(meaning_of(&event("insert", doc! {})), version_edited());
        assert_eq!(meaning_of(&event("update", doc! { "removed": ["nick", "v"] })), version_edited());
        assert_eq!(meaning_of(&event("replace", doc! { "inserted": 3_i64 })), version_edited());
    }

    #[test]
    fn release_of_name_or_id_is_no_change_by_hand() {
        let unchanged = of_user_7(VersionEffect::Unchanged);
        for released in [bson!(["name_key", "name_free_at"]), bson!(["id_held"])] {
            let release = doc! { "removed": released, "touched": 0 };
            assert_eq!(meaning_of(&event("update", release)), EventMeaning::Nothing);
        }
        for change in [
            doc! { "touched": 1 },
            doc! { "removed": ["name_key"], "touched": 0 },
            doc! { "removed": ["id_held", "name_key"], "touched": 0 },
            doc! { "removed": ["name_key", "name_free_at"], "touched": 1 },
            doc! { "removed": ["name_key", "name_free_at", "u"], "touched": 0 },
        ] {
            assert_eq!(meaning_of(&event("update", change)), unchanged);
        }
    }

    #[test]
    fn event_of_no_record_means_nothing() {
        for id in [
            Bson::Int64(0),
            Bson::Int64(-7),
            Bson::from("7"),
            Bson::Double(7.5),
            Bson::Null,
            Bson::Double(f64::NAN),
        ] {
            assert_eq!(meaning_of(&event("delete", doc! { "id": id })), EventMeaning::Nothing);
        }
        assert_eq!(
            meaning_of(&event("delete", doc! { "ns": { "db": "kith", "coll": "secrets" } })),
            EventMeaning::Nothing
        );
        assert_eq!(meaning_of(&event("createIndexes", doc! {})), EventMeaning::Nothing);
        assert_eq!(meaning_of(&doc! {}), EventMeaning::Nothing);
    }

    #[test]
    fn ids_are_known_in_each_form_of_a_number() {
        for id in [Bson::Int64(7), Bson::Int32(7), Bson::Double(7.0)] {
            assert_eq!(meaning_of(&event("delete", doc! { "id": id })), of_user_7(VersionEffect::Removed));
        }
    }

    #[test]
    fn a_collection_that_goes_is_the_end() {
        for kind in ["drop", "rename", "dropDatabase", "invalidate"] {
            assert_eq!(meaning_of(&event(kind, doc! {})), EventMeaning::End);
        }
    }

    #[test]
    fn server_sends_events_of_records_and_ends() {
        let names = ["users", "groups", "dialogs", "conversations", "audiences", "notices", "messages"];
        let mut expected: Vec<Document> = names[..6].iter().map(|name| doc! { "ns.coll": *name }).collect();
        let ends = doc! { "operationType": { "$in": ["drop", "rename"] } };
        let changes = doc! { "$or": [
            { "operationType": "update", "updateDescription.updatedFields.v": { "$exists": true } },
            { "operationType": "update", "$expr": is_within_messages() },
            { "operationType": "replace" },
        ] };
        expected.push(doc! { "ns.coll": "messages", "$or": [ends, changes] });
        expected.push(doc! { "to.coll": { "$in": names.to_vec() } });
        expected.push(doc! { "operationType": { "$in": ["dropDatabase", "invalidate"] } });
        assert_eq!(event_filters(&WATCHED), expected);
    }

    #[test]
    fn filter_of_a_collection_lets_its_end_through() {
        let only = || doc! { "fullDocument.shown": true };
        let users = &WATCHED[0];
        let filtered = WatchedCollection { filter: Some(only), ..*users };
        let ends = doc! { "operationType": { "$in": ["drop", "rename"] } };
        assert_eq!(filtered.event_filter(), doc! { "ns.coll": "users", "$or": [ends, only()] });
    }

    #[test]
    fn records_of_each_collection_are_known() {
        let user = UserId::new(7).unwrap();
        let key = DialogKey { user, conversation: "g9".parse().unwrap() };
        for (name, id, record) in [
            ("users", Bson::Int64(7), FeedRecord::User(user)),
            ("groups", Bson::Int64(7), FeedRecord::Group(GroupId::new(7).unwrap())),
            ("dialogs", bson!({ "u": 7_i64, "c": "g9" }), FeedRecord::Dialog(key)),
            ("dialogs", bson!({ "u": 7.0, "c": "g9" }), FeedRecord::Dialog(key)),
            ("conversations", bson!("g9"), FeedRecord::Conversation(key.conversation)),
            ("audiences", Bson::Int64(7), FeedRecord::Audience(AudienceId::new(7).unwrap())),
            ("notices", Bson::Int64(7), FeedRecord::Notice(NoticeId::new(7).unwrap())),
        ] {
            let gone = event("delete", doc! { "ns": { "db": "kith", "coll": name }, "id": id });
            assert_eq!(meaning_of(&gone), EventMeaning::Change(record, VersionEffect::Removed));
        }
        let key = DocumentKey { conversation: key.conversation, document: 12 };
        let of_messages =
            doc! { "ns": { "db": "kith", "coll": "messages" }, "id": { "c": "g9", "d": 12_i64 } };
        let mut changed = event("update", doc! { "set": 2_i64, "nonce": 5_i64, "touched": 3 });
        changed.extend(of_messages.clone());
        let raised = VersionEffect::Raised(Version::new(2).unwrap());
        assert_eq!(meaning_of(&changed), EventMeaning::Change(FeedRecord::Document(key), raised));
        assert_eq!(
            meaning_of(&event("delete", of_messages)),
            EventMeaning::Nothing,
            "upkeep removes what no user may read"
        );
    }

    #[test]
    fn record_is_found_by_its_own_id() {
        let user = UserId::new(7).unwrap();
        let conversation = "d7-8".parse().unwrap();
        for record in [
            FeedRecord::User(user),
            FeedRecord::Group(GroupId::new(7).unwrap()),
            FeedRecord::Dialog(DialogKey { user, conversation }),
            FeedRecord::Conversation(conversation),
            FeedRecord::Audience(AudienceId::new(7).unwrap()),
            FeedRecord::Notice(NoticeId::new(7).unwrap()),
            FeedRecord::Document(DocumentKey { conversation, document: 12 }),
        ] {
            let ids: Vec<(&WatchedCollection, Bson)> =
                WATCHED.iter().filter_map(|watched| Some((watched, (watched.id)(&record)?))).collect();
            let [(watched, id)] = &ids[..] else { panic!("{record:?} is in one collection: {}", ids.len()) };
            let document = RawDocumentBuf::try_from(&doc! { "_id": id.clone() }).unwrap();
            assert_eq!((watched.record)(document.get("_id").unwrap().unwrap()), Some(record));
        }
    }

    #[test]
    fn invalid_dialog_ids_mean_nothing() {
        for id in [
            bson!({ "u": 0, "c": "g9" }),
            bson!({ "u": 7, "c": "x" }),
            bson!({ "u": "7", "c": "g9" }),
            bson!({ "u": 7 }),
            bson!("7,g9"),
        ] {
            let gone = event("delete", doc! { "ns": { "db": "kith", "coll": "dialogs" }, "id": id });
            assert_eq!(meaning_of(&gone), EventMeaning::Nothing);
        }
    }
}
