//! Changes the store from outside, behind all nodes' backs.

use std::time::Duration;

use anyhow::Result;
use mongodb::bson::doc;
use tokio::time::{Instant, sleep};

use super::site::{NAME, Site};

/// The pause between two times that requests are forgotten.
const FORGET_EVERY: Duration = Duration::from_millis(1);

/// From now on the store lets any number of users bear the same name.
pub(super) async fn share_names(site: &Site, lasts: Duration) -> Result<()> {
    let database = site.mongod.database(NAME).await?;
    // See migrations/mongodb.
    database.run_command(doc! { "dropIndexes": "users", "index": "name_key" }).await?;
    sleep(lasts).await;
    Ok(())
}

/// For this long the store forgets every request as soon as it was answered.
pub(super) async fn forget_requests(site: &Site, lasts: Duration) -> Result<()> {
    let (database, until) = (site.mongod.database(NAME).await?, Instant::now() + lasts);
    while Instant::now() < until {
        let all = doc! { "delete": "requests", "deletes": [{ "q": {}, "limit": 0 }] };
        database.run_command(all).await?;
        sleep(FORGET_EVERY).await;
    }
    Ok(())
}
