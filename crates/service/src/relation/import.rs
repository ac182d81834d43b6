//! Imports follows.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use kith_proto::{relation::v1 as wire, r#type::v1::ImportResult};
use kith_store::{Edge, ImportedFollow, Timestamp};

use super::{Follows, convert::edge, follows::store_error};
use crate::{
    error::Error,
    rpc::{
        batch::{self, Limits},
        versions::past_moment,
    },
};

/// Where the messages of one import are placed in lists: each at a later millisecond than the one before.
#[derive(Debug, Default)]
pub(super) struct ImportPlaces(AtomicI64);

impl ImportPlaces {
    /// The present time, or the next millisecond after that of the message before.
    fn next(&self) -> Timestamp {
        let now = Timestamp::now().0;
        let place = |last: i64| now.max(last.saturating_add(1));
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(place(last)));
        Timestamp(place(last.unwrap_or_else(|last| last)))
    }
}

/// Imports the valid records in one message together, and returns a result for each.
pub(super) async fn import(
    follows: Follows,
    limits: Limits,
    places: Arc<ImportPlaces>,
    records: Vec<wire::ImportFollow>,
) -> Vec<ImportResult> {
    let now = places.next();
    let checked: Vec<_> = records.iter().map(|record| imported(record, now)).collect();
    let fine: Vec<ImportedFollow> =
        checked.iter().filter_map(|checked| checked.as_ref().ok()).copied().collect();
    let written = if fine.is_empty() { Ok(()) } else { follows.import(fine, now, limits).await };
    let result = |(record, checked): (&wire::ImportFollow, Result<ImportedFollow, Error>)| {
        let outcome = checked.and_then(|follow| written.clone().map(|()| follow.edge.from.get()));
        batch::import_result(record.record, outcome)
    };
    records.iter().zip(checked).map(result).collect()
}

fn imported(record: &wire::ImportFollow, now: Timestamp) -> Result<ImportedFollow, Error> {
    let edge = edge(record.user_id, record.target_id, "target_id")?;
    let since = match &record.follow_time {
        Some(time) => past_moment("follow_time", time)?,
        None => now,
    };
    Ok(ImportedFollow { edge, since })
}

impl Follows {
    async fn import(
        &self,
        follows: Vec<ImportedFollow>,
        now: Timestamp,
        limits: Limits,
    ) -> Result<(), Error> {
        let this = self.clone();
        let deadline = limits.import_deadline();
        let work = async move {
            let edges: Vec<Edge> = follows.iter().map(|follow| follow.edge).collect();
            let store = Arc::clone(&this.store);
            let write = Box::pin(async move { store.import_follows(&follows, now).await });
            let lists = this.lists.begin_write(&edges).await;
            let written = this.mutations.write_all_with(&this.cache, edges, [lists], write).await;
            written.map(drop).map_err(store_error)
        };
        self.mutations.call(deadline, work).await
    }
}
