//! Fan-out notes that Redis did not take: `{_id: {c, n, s}, t}`, the time by the server's clock.

use std::time::Duration;

use async_trait::async_trait;
use kith_store::{DueNote, FanOutNote, FanOutNoteStore, StoreError, millis};
use mongodb::{
    bson::{Document, RawDocument, doc},
    options::Hint,
};

use crate::mongo::{
    database::Mongo,
    document::{count, number_in},
    error::{malformed, read_failed, write_failed},
    record::all,
};

#[async_trait]
impl FanOutNoteStore for Mongo {
    async fn keep_fan_out_note(&self, note: &FanOutNote) -> Result<(), StoreError> {
        let _permit = self.admit()?;
        let keep = vec![doc! { "$set": { "t": { "$ifNull": ["$t", "$$NOW"] } } }];
        self.upsert(&self.fan_out_notes, doc! { "_id": id(note) }, keep.into()).await.map(drop)
    }

    async fn remove_fan_out_notes(&self, notes: &[FanOutNote]) -> Result<(), StoreError> {
        let _permit = self.admit()?;
        let ids: Vec<Document> = notes.iter().map(id).collect();
        let removed = self.fan_out_notes.delete_many(doc! { "_id": { "$in": ids } }).await;
        removed.map(drop).map_err(write_failed)
    }

    async fn due_fan_out_notes(&self, age: Duration, limit: usize) -> Result<Vec<DueNote>, StoreError> {
        let _permit = self.admit()?;
        let age = millis(age);
        let is_due = doc! { "$expr": { "$lte": ["$t", { "$subtract": ["$$NOW", age] }] } };
        let find = self.fan_out_notes.find(is_due).sort(doc! { "t": 1 }).limit(count(limit));
        let find = find.projection(doc! { "age": { "$toLong": { "$subtract": ["$$NOW", "$t"] } } });
        let find = find.hint(Hint::Name("by_time".to_owned())).max_time(self.options.command);
        all(find.await.map_err(read_failed)?, due).await
    }
}

fn id(FanOutNote { conversation, node, step }: &FanOutNote) -> Document {
    doc! { "c": conversation.to_string(), "n": node.as_str(), "s": step.cast_signed() }
}

fn due(found: &RawDocument) -> Result<DueNote, StoreError> {
    let id = found.get_document("_id").map_err(|_| malformed("_id"))?;
    let text = |field| id.get_str(field).map_err(|_| malformed("_id"));
    let note = FanOutNote {
        conversation: text("c")?.parse().map_err(|_| malformed("_id"))?,
        node: text("n")?.parse().map_err(|_| malformed("_id"))?,
        step: number_in(id, "s")?.ok_or_else(|| malformed("_id"))?.cast_unsigned(),
    };
    let age = number_in(found, "age")?.ok_or_else(|| malformed("t"))?;
    Ok(DueNote { note, age: Duration::from_millis(u64::try_from(age).unwrap_or_default()) })
}
