//! Counts contents that the servers still have.

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use kith_lab_servers::resp::Value;
use mongodb::{
    Database,
    bson::{Document, doc},
};

use super::{ERASED, SECRET};
use crate::faults::{Site, site::NAME};

/// Counts the keys whose values have a text: lists, hashes and strings.
const COUNT: &str = "
local count = 0
for _, key in ipairs(redis.call('KEYS', '*')) do
    local kind, parts = redis.call('TYPE', key).ok, {}
    if kind == 'list' then parts = redis.call('LRANGE', key, 0, -1) end
    if kind == 'hash' then parts = redis.call('HVALS', key) end
    if kind == 'string' then parts = { redis.call('GET', key) } end
    for _, part in ipairs(parts) do
        if string.find(part, ARGV[1], 1, true) then
            count = count + 1
            break
        end
    end
end
return count";

/// How many Redis keys have content from the user.
pub(super) async fn contents_in_redis(site: &Site) -> Result<u64> {
    match site.redis.ask(&["EVAL", COUNT, "0", SECRET]).await? {
        Value::Number(count) => Ok(u64::try_from(count)?),
        other => anyhow::bail!("a count is {other:?}"),
    }
}

/// How many messages in the store have any part of their contents.
pub(super) async fn contents_in_store(site: &Site) -> Result<u64> {
    let database = site.mongod.database(NAME).await?;
    let mut documents = database.collection::<Document>("messages").find(doc! {}).await?;
    let mut count = 0;
    while let Some(document) = documents.try_next().await? {
        for element in document.get_array("m")? {
            let element = element.as_document().context("an element is no document")?;
            let has_content = ["b", "h", "i", "ct", "a"].iter().any(|field| element.contains_key(field));
            count += u64::from(element.get_i64("f")? == ERASED && has_content);
        }
    }
    Ok(count)
}

/// The node that erases.
pub(super) async fn holder(database: &Database) -> Result<String> {
    let lease = doc! { "_id": "message_erasures" };
    let found = database.collection::<Document>("leases").find_one(lease).await?;
    Ok(found.context("no node has the lease of erasures")?.get_str("holder")?.to_owned())
}
