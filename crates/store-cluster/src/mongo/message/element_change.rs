//! Changes an element in place.

use kith_store::{ContentChange, MessageKind, NewContent, Recalled, Seq};
use mongodb::bson::{Bson, Document, doc};

use super::element::{MENTIONS_ALL, binary, mentioned};

/// A change's condition on the message at this index in its document.
pub(super) fn required_state(index: i64, content: &ContentChange) -> Document {
    let mut state = doc! {
        path(index, "y"): i32::from(MessageKind::Message as u8),
        path(index, "r"): { "$exists": false },
    };
    if let ContentChange::Edit(content) = content {
        // Null would match a message that was edited, too: the path is also looked for in each array element.
        let edits = match content.edits_before {
            0 => doc! { "$exists": false },
            edits => doc! { "$eq": i64::from(edits) },
        };
        state.insert(path(index, "e"), edits);
    }
    state
}

/// The update that changes the message at this index in its document, and raises the document's version.
/// `event_seq`: the number of the change's event. The change feed treats an update that sets `v` with an
/// unchanged `u` as a change by hand.
pub(super) fn change_update(index: i64, content: &ContentChange, event_seq: Seq, nonce: i64) -> Document {
    let (mut set, mut unset) = (doc! { "u": nonce }, Document::new());
    let flags = match content {
        ContentChange::Recall(recalled) => remove(index, recalled, &mut set, &mut unset),
        ContentChange::Edit(content) => replace(index, content, event_seq, &mut set, &mut unset),
    };
    let mut update = doc! { "$set": set, "$bit": { path(index, "x"): flags }, "$inc": { "v": 1_i64 } };
    if !unset.is_empty() {
        update.insert("$unset", unset);
    }
    update
}

/// Adds the content's removal to the operands for `$set` and `$unset`. Returns the new flags.
fn remove(index: i64, recalled: &Recalled, set: &mut Document, unset: &mut Document) -> Document {
    set.insert(path(index, "r"), doc! { "by": recalled.by.number(), "t": recalled.time.0 });
    unset.extend(["b", "ct", "a", "i"].map(|field| (path(index, field), Bson::from(""))));
    doc! { "and": !MENTIONS_ALL }
}

/// Adds a new content in the same way.
fn replace(
    index: i64,
    content: &NewContent,
    event_seq: Seq,
    set: &mut Document,
    unset: &mut Document,
) -> Document {
    let edited = content.edited(event_seq);
    set.insert(path(index, "b"), binary(&content.body));
    set.insert(path(index, "e"), i64::from(edited.count));
    set.insert(path(index, "et"), edited.last.0);
    set.insert(path(index, "ev"), event_seq);
    let mut put = |field, value: Option<Bson>| match value {
        Some(value) => drop(set.insert(path(index, field), value)),
        None => drop(unset.insert(path(index, field), "")),
    };
    put("ct", Some(&content.content_type).filter(|text| !text.is_empty()).map(|text| text.as_str().into()));
    put("a", Some(mentioned(&content.mentions)).filter(|_| !content.mentions.is_empty()));
    if content.mention_all {
        doc! { "or": MENTIONS_ALL }
    } else {
        doc! { "and": !MENTIONS_ALL }
    }
}

/// The path to a field in the message at this index.
fn path(index: i64, field: &str) -> String {
    format!("m.{index}.{field}")
}
