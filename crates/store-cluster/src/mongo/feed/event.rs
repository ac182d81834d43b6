//! What an event of a change stream says of a record.

use kith_store::{FeedRecord, GroupId, UserId, Version};
use mongodb::bson::{Document, RawBsonRef, RawDocument, doc};

const USERS: &str = "users";
const GROUPS: &str = "groups";
/// What the release of the name or of the id of a stub removes. The stub stays what it was, and its version too.
const RELEASED: [&[&str]; 2] = [&["name_free_at", "name_key"], &["id_held"]];

/// A number from here on is no version: there must be room above it.
pub(super) const VERSION_END: i64 = 1 << 62;

/// What the server is asked for: events of records alone, and of them neither names nor values of people.
pub(super) fn pipeline() -> [Document; 2] {
    let records = doc! { "$in": [USERS, GROUPS] };
    let seen = doc! { "$match": { "$or": [
        { "ns.coll": records.clone() },
        { "to.coll": records },
        { "operationType": { "$in": ["dropDatabase", "invalidate"] } },
    ] } };
    let updated = doc! { "$ifNull": ["$updateDescription.updatedFields", {}] };
    let cut = doc! { "$ifNull": ["$updateDescription.truncatedArrays", []] };
    let told = doc! { "$project": {
        "operationType": 1, "ns": 1, "to": 1,
        "id": "$documentKey._id",
        "inserted": "$fullDocument.v",
        "set": "$updateDescription.updatedFields.v",
        "nonce": { "$ifNull": ["$updateDescription.updatedFields.u", "$fullDocument.w"] },
        "removed": "$updateDescription.removedFields",
        "touched": { "$add": [{ "$size": { "$objectToArray": updated } }, { "$size": cut }] },
    } };
    [seen, told]
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A change of a record.
    Change(FeedRecord, Claim),
    /// Nothing of a record.
    Nothing,
    /// All records of a kind have gone, or become others.
    End,
}

/// What a change did to the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// A write of this program raised it to this.
    Raised(Version),
    /// A change by hand that did not touch it.
    Left,
    /// A change by hand that set or removed it. It may be lower than before.
    Lost,
    /// Removed the document, by hand.
    Gone,
}

/// Reads an event. Whatever a hand may have done to a document, it says something.
pub(super) fn told(event: &RawDocument) -> Told {
    let claim = match event.get_str("operationType") {
        Ok("insert") => of_insert(event),
        Ok("update") if is_release(event) => return Told::Nothing,
        Ok("update") => of_update(event),
        // This program never does.
        Ok("replace") => Claim::Lost,
        Ok("delete") => Claim::Gone,
        Ok("drop" | "rename" | "dropDatabase" | "invalidate") => return Told::End,
        Ok(_) | Err(_) => return Told::Nothing,
    };
    match record(event) {
        Some(record) => Told::Change(record, claim),
        None => Told::Nothing,
    }
}

/// A whole number, in whichever form a hand may have written it.
pub(super) fn whole(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int64(number) => Some(number),
        RawBsonRef::Int32(number) => Some(number.into()),
        // An id that a shell wrote. What a float cannot hold exactly names no record of ours.
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

/// `None`: the id is none that a record can have.
fn record(event: &RawDocument) -> Option<FeedRecord> {
    let id = whole(field(event, "id")?)?;
    match event.get_document("ns").ok()?.get_str("coll").ok()? {
        USERS => UserId::new(id).ok().map(FeedRecord::User),
        GROUPS => GroupId::new(id).ok().map(FeedRecord::Group),
        _ => None,
    }
}

/// This program inserts documents of the first version only: another one comes out of a dump.
fn of_insert(event: &RawDocument) -> Claim {
    match field(event, "inserted").and_then(version) {
        Some(Version::FIRST) if has_nonce(event) => Claim::Raised(Version::FIRST),
        Some(_) | None => Claim::Lost,
    }
}

fn of_update(event: &RawDocument) -> Claim {
    match field(event, "set") {
        Some(value) if has_nonce(event) => version(value).map_or(Claim::Lost, Claim::Raised),
        Some(_) => Claim::Lost,
        None if removed(event).any(|name| name == "v") => Claim::Lost,
        None => Claim::Left,
    }
}

/// Whether the change set the number that every write of this program sets beside the version.
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

    fn told_of(event: &Document) -> Told {
        told(&RawDocumentBuf::try_from(event).unwrap())
    }

    fn of_user_7(claim: Claim) -> Told {
        Told::Change(FeedRecord::User(UserId::new(7).unwrap()), claim)
    }

    fn event(kind: &str, more: Document) -> Document {
        let mut event = doc! { "operationType": kind, "ns": { "db": "kith", "coll": "users" }, "id": 7_i64 };
        event.extend(more);
        event
    }

    #[test]
    fn version_with_nonce_is_believed() {
        let raised = |version| of_user_7(Claim::Raised(Version::new(version).unwrap()));
        assert_eq!(told_of(&event("insert", doc! { "inserted": 1_i64, "nonce": 9_i64 })), raised(1));
        assert_eq!(told_of(&event("update", doc! { "set": 3_i64, "nonce": 9_i64, "touched": 3 })), raised(3));
    }

    #[test]
    fn version_without_nonce_is_a_change_by_hand() {
        for version in [1_i64, 2, VERSION_END - 1] {
            assert_eq!(told_of(&event("insert", doc! { "inserted": version })), of_user_7(Claim::Lost));
            assert_eq!(told_of(&event("update", doc! { "set": version })), of_user_7(Claim::Lost));
            let other = doc! { "set": version, "nonce": "9" };
            assert_eq!(told_of(&event("update", other)), of_user_7(Claim::Lost));
        }
    }

    #[test]
    fn insert_of_a_later_version_is_a_change_by_hand() {
        let dumped = doc! { "inserted": 2_i64, "nonce": 9_i64 };
        assert_eq!(told_of(&event("insert", dumped)), of_user_7(Claim::Lost));
    }

    #[test]
    fn version_of_another_type_is_a_change_by_hand() {
        let values =
            [Bson::Int32(3), Bson::Double(3.0), Bson::from("3"), Bson::Null, Bson::Int64(0), Bson::Int64(-3)];
        for value in values {
            let inserted = doc! { "inserted": value.clone(), "nonce": 9_i64 };
            assert_eq!(told_of(&event("insert", inserted)), of_user_7(Claim::Lost));
            let set = doc! { "set": value, "nonce": 9_i64 };
            assert_eq!(told_of(&event("update", set)), of_user_7(Claim::Lost));
        }
        assert_eq!(told_of(&event("insert", doc! {})), of_user_7(Claim::Lost));
        assert_eq!(told_of(&event("update", doc! { "removed": ["nick", "v"] })), of_user_7(Claim::Lost));
        assert_eq!(told_of(&event("replace", doc! { "inserted": 3_i64 })), of_user_7(Claim::Lost));
    }

    #[test]
    fn release_of_name_or_id_is_no_change_by_hand() {
        let left = of_user_7(Claim::Left);
        for released in [bson!(["name_key", "name_free_at"]), bson!(["id_held"])] {
            let release = doc! { "removed": released, "touched": 0 };
            assert_eq!(told_of(&event("update", release)), Told::Nothing);
        }
        for change in [
            doc! { "touched": 1 },
            doc! { "removed": ["name_key"], "touched": 0 },
            doc! { "removed": ["id_held", "name_key"], "touched": 0 },
            doc! { "removed": ["name_key", "name_free_at"], "touched": 1 },
            doc! { "removed": ["name_key", "name_free_at", "u"], "touched": 0 },
        ] {
            assert_eq!(told_of(&event("update", change)), left);
        }
    }

    #[test]
    fn what_is_no_record_tells_nothing() {
        for id in [
            Bson::Int64(0),
            Bson::Int64(-7),
            Bson::from("7"),
            Bson::Double(7.5),
            Bson::Null,
            Bson::Double(f64::NAN),
        ] {
            assert_eq!(told_of(&event("delete", doc! { "id": id })), Told::Nothing);
        }
        assert_eq!(
            told_of(&event("delete", doc! { "ns": { "db": "kith", "coll": "secrets" } })),
            Told::Nothing
        );
        assert_eq!(told_of(&event("createIndexes", doc! {})), Told::Nothing);
        assert_eq!(told_of(&doc! {}), Told::Nothing);
    }

    #[test]
    fn ids_are_known_in_each_form_of_a_number() {
        for id in [Bson::Int64(7), Bson::Int32(7), Bson::Double(7.0)] {
            assert_eq!(told_of(&event("delete", doc! { "id": id })), of_user_7(Claim::Gone));
        }
    }

    #[test]
    fn a_collection_that_goes_is_the_end() {
        for kind in ["drop", "rename", "dropDatabase", "invalidate"] {
            assert_eq!(told_of(&event(kind, doc! {})), Told::End);
        }
    }
}
