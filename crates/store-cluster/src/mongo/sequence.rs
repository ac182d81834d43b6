//! Sequences: `{_id: name, last}`, where each sequence's last block ends.

use std::collections::HashMap;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use kith_store::{SEQUENCES_READ, Seq, SeqRange, SequenceName, SequenceStore, StoreError, at_most};
use mongodb::{
    bson::{RawDocument, doc},
    options::ReadConcern,
};

use super::{
    database::Mongo,
    document::number_in,
    error::{malformed, read_failed},
};

#[async_trait]
impl SequenceStore for Mongo {
    /// A driver that sends it a second time gets the first answer.
    async fn take_seqs(&self, name: &SequenceName, count: u32, above: Seq) -> Result<SeqRange, StoreError> {
        let _permit = self.admit()?;
        let from = doc! { "$max": ["$last", above] };
        let take = vec![doc! { "$set": { "last": { "$add": [from, i64::from(count)] } } }];
        let after = self.upsert(&self.sequences, doc! { "_id": name.as_str() }, take.into()).await?;
        let last = last_in(&after)?;
        Ok(SeqRange { first: last - i64::from(count) + 1, last })
    }

    async fn max_seqs(&self, names: &[SequenceName]) -> Result<Vec<Seq>, StoreError> {
        at_most(names.len(), SEQUENCES_READ)?;
        let _permit = self.admit()?;
        let ids: Vec<&str> = names.iter().map(SequenceName::as_str).collect();
        let filter = doc! { "_id": { "$in": ids } };
        let concern = ReadConcern::linearizable();
        let mut found = self.cursor(&self.sequences, filter, Some("_id_"), SEQUENCES_READ, concern).await?;
        let mut last = HashMap::with_capacity(names.len());
        while let Some(document) = found.try_next().await.map_err(read_failed)? {
            let id = document.get_str("_id").map_err(|_| malformed("_id"))?;
            last.insert(id.to_owned(), last_in(&document)?);
        }
        Ok(names.iter().map(|name| last.get(name.as_str()).copied().unwrap_or(0)).collect())
    }
}

fn last_in(document: &RawDocument) -> Result<Seq, StoreError> {
    number_in(document, "last")?.ok_or_else(|| malformed("last"))
}
