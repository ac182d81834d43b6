//! Dialogs as documents: `{_id: {u: user, c: conversation}, v, sv, read, ur, min, max, pin, hide, dnd, mark,
//! ext, day, w, u}`. `ur` has the first and the last number of each unread range in turn: `[3, 5, 9, 9]`.
//! Unset values are absent fields. `w` is a random number from the insert, `u` a random number from the last
//! update.

use kith_store::{
    ConversationId, Dialog, DialogKey, DialogPatch, MinSeq, ReadRanges, Seq, SeqRange, StoreError, Timestamp,
    UserId, Version,
};
use mongodb::bson::{Binary, Bson, Document, RawBsonRef, RawDocument, doc, spec::BinarySubtype};

use crate::mongo::{
    document::{fields, flag, moment, number, version},
    error::malformed,
};

/// The id of a dialog.
pub(in crate::mongo) fn id(key: DialogKey) -> Document {
    doc! { "u": key.user.get(), "c": key.conversation.to_string() }
}

/// Reads the id of a dialog.
pub(super) fn key(value: RawBsonRef<'_>) -> Result<DialogKey, StoreError> {
    let id = value.as_document().ok_or_else(|| malformed("_id"))?;
    let user = id.get("u").ok().flatten().ok_or_else(|| malformed("_id"))?;
    let user = UserId::new(number(user, "_id")?).map_err(|_| malformed("_id"))?;
    let conversation: ConversationId =
        id.get_str("c").map_err(|_| malformed("_id"))?.parse().map_err(|_| malformed("_id"))?;
    Ok(DialogKey { user, conversation })
}

/// Reads the id in a document.
pub(super) fn key_in(document: &RawDocument) -> Result<DialogKey, StoreError> {
    key(document.get("_id").ok().flatten().ok_or_else(|| malformed("_id"))?)
}

/// Reads a dialog.
pub(super) fn dialog(document: &RawDocument) -> Result<Dialog, StoreError> {
    let mut dialog = Dialog::absent(key_in(document)?);
    let (mut read_seq, mut unread) = (None, Vec::new());
    for field in fields(document) {
        let (name, value) = field?;
        match name {
            "v" => dialog.version = version(value)?,
            "sv" => dialog.settings_version = version(value)?,
            "read" => read_seq = Some(number(value, "read")?),
            "ur" => unread = ranges(value)?,
            "min" => dialog.min_seq = Some(number(value, "min")?),
            "max" => dialog.max_seq = Some(number(value, "max")?),
            "pin" => dialog.pinned = Some(moment(value, "pin")?),
            "hide" => dialog.hidden_seq = Some(number(value, "hide")?),
            "dnd" => dialog.do_not_disturb = flag(value, "dnd")?,
            "mark" => dialog.marked_unread = flag(value, "mark")?,
            "ext" => dialog.ext = bytes(value)?,
            "day" => dialog.day = number(value, "day")?,
            _ => {}
        }
    }
    let read_seq = read_seq.filter(|_| dialog.version != Version::NONE).ok_or_else(|| malformed("read"))?;
    dialog.read = ReadRanges::new(read_seq, unread).ok_or_else(|| malformed("ur"))?;
    Ok(dialog)
}

/// The stored form of unread ranges; `None`: none.
pub(super) fn packed(read: &ReadRanges) -> Option<Bson> {
    let numbers: Vec<Seq> = read.unread().iter().flat_map(|range| [range.first, range.last]).collect();
    (!numbers.is_empty()).then(|| numbers.into())
}

/// The shared part of every write to a dialog: it creates a missing dialog, and raises the version.
///
/// The update consists of operators and is not a pipeline: MongoDB logs a pipeline's change to a small
/// document as a replacement, in which the change feed could not detect whether the version was raised.
#[derive(Debug)]
pub(super) struct DialogUpdate {
    /// Operand of `$set`.
    pub(super) set: Document,
    /// Operand of `$unset`.
    pub(super) unset: Vec<&'static str>,
    /// Operand of `$max`.
    pub(super) max: Document,
    /// Operand of `$inc`.
    pub(super) inc: Document,
    /// Operand of `$setOnInsert`.
    pub(super) made: Document,
}

impl DialogUpdate {
    /// A write that changes no setting.
    pub(super) fn new(now: Timestamp) -> Self {
        let nonce: i64 = rand::random();
        Self {
            set: doc! { "u": nonce },
            unset: Vec::new(),
            max: doc! { "day": Dialog::day_of(now) },
            inc: doc! { "v": 1_i64 },
            made: doc! { "w": nonce },
        }
    }

    /// A change of settings.
    pub(super) fn settings(patch: &DialogPatch, now: Timestamp) -> Self {
        let mut update = Self::new(now);
        update.inc.insert("sv", 1_i64);
        update.made.insert("read", 0_i64);
        match patch.min_seq {
            Some(MinSeq::Set(min)) => update.put("min", min.map(Bson::from)),
            Some(MinSeq::Raise(least)) => drop(update.max.insert("min", least)),
            None => {}
        }
        let flag = |set: bool| set.then_some(Bson::Boolean(true));
        let changes = [
            ("max", patch.max_seq.map(|max| max.map(Bson::from))),
            ("pin", patch.pinned.map(|pinned| pinned.map(|pinned| pinned.0.into()))),
            ("hide", patch.hidden_seq.map(|hidden| hidden.map(Bson::from))),
            ("dnd", patch.do_not_disturb.map(flag)),
            ("mark", patch.marked_unread.map(flag)),
            ("ext", patch.ext.as_deref().map(binary)),
        ];
        for (field, change) in changes {
            if let Some(value) = change {
                update.put(field, value);
            }
        }
        update
    }

    /// Sets a field, or removes it.
    pub(super) fn put(&mut self, field: &'static str, value: Option<Bson>) {
        match value {
            Some(value) => drop(self.set.insert(field, value)),
            None => self.unset.push(field),
        }
    }

    /// The update document with all operators.
    pub(super) fn into_document(self) -> Document {
        let mut update =
            doc! { "$set": self.set, "$max": self.max, "$inc": self.inc, "$setOnInsert": self.made };
        let unset: Document =
            self.unset.into_iter().map(|field| (field.to_owned(), Bson::from(""))).collect();
        if !unset.is_empty() {
            update.insert("$unset", unset);
        }
        update
    }
}

fn binary(bytes: &[u8]) -> Option<Bson> {
    let binary = || Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() };
    (!bytes.is_empty()).then(|| Bson::Binary(binary()))
}

fn bytes(value: RawBsonRef<'_>) -> Result<Vec<u8>, StoreError> {
    value.as_binary().map(|binary| binary.bytes.to_vec()).ok_or_else(|| malformed("ext"))
}

fn ranges(value: RawBsonRef<'_>) -> Result<Vec<SeqRange>, StoreError> {
    let array = value.as_array().ok_or_else(|| malformed("ur"))?;
    let numbers: Vec<Seq> = array
        .into_iter()
        .map(|item| number(item.map_err(|_| malformed("ur"))?, "ur"))
        .collect::<Result<_, _>>()?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(malformed("ur"));
    }
    Ok(pairs.iter().map(|[first, last]| SeqRange { first: *first, last: *last }).collect())
}
