//! The meaning that a change stream's event has for a record.

use kith_store::{
    AudienceId, ConversationId, DialogKey, FeedRecord, GroupId, NoticeId, SeqRange, UserId, Version,
};
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, doc};

use super::{
    super::{
        database::{MESSAGES, SUMMARIES},
        dialog,
        message::document_id,
    },
    appended,
    event_fields::{document_key, field, is_within_messages, whole},
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
pub(super) static WATCHED: [WatchedCollection; 8] = [
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
            FeedRecord::Dialog(key) => Some(dialog::row::id(*key).into()),
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
        // Appends do not change the version.
        filter: Some(|| {
            doc! { "$or": [
                { "operationType": "update", "updateDescription.updatedFields.v": { "$exists": true } },
                // Matches changes by hand within messages.
                { "operationType": "update", "$expr": is_within_messages() },
                { "operationType": "replace" },
            ] }
        }),
    },
    WatchedCollection {
        name: SUMMARIES,
        record: |id| document_key(id).map(FeedRecord::Reactions),
        id: |record| match record {
            FeedRecord::Reactions(key) => Some(document_id(key.conversation, key.document).into()),
            _ => None,
        },
        operations: &["insert", "update", "replace"],
        // A summary that a transaction only locks, or removes with its messages, shows nothing else.
        filter: Some(|| {
            doc! { "$or": [
                { "operationType": "insert", "fullDocument.b": { "$exists": true } },
                { "operationType": "update", "updateDescription.updatedFields.b": { "$exists": true } },
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
/// `appends`: whether it is also asked where messages were appended.
pub(super) fn pipeline(appends: bool) -> [Document; 2] {
    let mut seen = event_filters(&WATCHED);
    let updated = doc! { "$ifNull": ["$updateDescription.updatedFields", {}] };
    let cut = doc! { "$ifNull": ["$updateDescription.truncatedArrays", []] };
    let mut fields = doc! {
        "operationType": 1, "ns": 1, "to": 1, "wallTime": 1,
        "id": "$documentKey._id",
        "inserted": "$fullDocument.v",
        "set": "$updateDescription.updatedFields.v",
        "nonce": { "$ifNull": ["$updateDescription.updatedFields.u", "$fullDocument.w"] },
        "removed": "$updateDescription.removedFields",
        "touched": { "$add": [{ "$size": { "$objectToArray": updated } }, { "$size": cut }] },
    };
    if appends {
        seen.push(appended::filter());
        fields.extend(appended::fields());
    }
    [doc! { "$match": { "$or": seen } }, doc! { "$project": fields }]
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
    /// Messages were appended.
    Appended(ConversationId, SeqRange),
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
    if let Some((conversation, seqs)) = appended::messages(event) {
        return EventMeaning::Appended(conversation, seqs);
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

/// A version as this program writes it.
pub(super) fn version(value: RawBsonRef<'_>) -> Option<Version> {
    match value {
        RawBsonRef::Int64(number @ 1..VERSION_END) => Version::new(number),
        _ => None,
    }
}

fn dialog(id: RawBsonRef<'_>) -> Option<DialogKey> {
    let id = id.as_document()?;
    let user = UserId::new(whole(field(id, "u")?)?).ok()?;
    Some(DialogKey { user, conversation: id.get_str("c").ok()?.parse().ok()? })
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
mod tests;
