use kith_store::DocumentKey;
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
    assert_eq!(meaning_of(&event("update", doc! { "set": 3_i64, "nonce": 9_i64, "touched": 3 })), raised(3));
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
    let names = [
        "users",
        "groups",
        "dialogs",
        "conversations",
        "audiences",
        "notices",
        "messages",
        "reaction_summaries",
    ];
    let mut expected: Vec<Document> = names[..6].iter().map(|name| doc! { "ns.coll": *name }).collect();
    let ends = doc! { "operationType": { "$in": ["drop", "rename"] } };
    let changes = doc! { "$or": [
        { "operationType": "update", "updateDescription.updatedFields.v": { "$exists": true } },
        { "operationType": "update", "$expr": is_within_messages() },
        { "operationType": "replace" },
    ] };
    expected.push(doc! { "ns.coll": "messages", "$or": [ends.clone(), changes] });
    let counts = doc! { "$or": [
        { "operationType": "insert", "fullDocument.b": { "$exists": true } },
        { "operationType": "update", "updateDescription.updatedFields.b": { "$exists": true } },
        { "operationType": "replace" },
    ] };
    expected.push(doc! { "ns.coll": "reaction_summaries", "$or": [ends, counts] });
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
    let of_messages = doc! { "ns": { "db": "kith", "coll": "messages" }, "id": { "c": "g9", "d": 12_i64 } };
    let mut changed = event("update", doc! { "set": 2_i64, "nonce": 5_i64, "touched": 3 });
    changed.extend(of_messages.clone());
    let raised = VersionEffect::Raised(Version::new(2).unwrap());
    assert_eq!(meaning_of(&changed), EventMeaning::Change(FeedRecord::Document(key), raised));
    assert_eq!(
        meaning_of(&event("delete", of_messages)),
        EventMeaning::Nothing,
        "upkeep removes what no user may read"
    );
    let of_counts =
        doc! { "ns": { "db": "kith", "coll": "reaction_summaries" }, "id": { "c": "g9", "d": 12_i64 } };
    changed.extend(of_counts.clone());
    assert_eq!(meaning_of(&changed), EventMeaning::Change(FeedRecord::Reactions(key), raised));
    assert_eq!(meaning_of(&event("delete", of_counts)), EventMeaning::Nothing);
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

#[test]
fn appends_are_asked_for_if_delivered() {
    let [seen, fields] = pipeline(false);
    assert_eq!(seen, doc! { "$match": { "$or": event_filters(&WATCHED) } });
    let [seen_with, fields_with] = pipeline(true);
    let or = |seen: &Document| seen.get_document("$match").unwrap().get_array("$or").unwrap().len();
    assert_eq!(or(&seen_with), or(&seen) + 1);
    let names =
        |fields: &Document| fields.get_document("$project").unwrap().keys().cloned().collect::<Vec<String>>();
    assert_eq!(names(&fields_with), [names(&fields), vec!["appended".into(), "size".into()]].concat());
}
