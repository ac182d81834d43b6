//! Runs nodes with two versions side by side.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

use super::site::Site;

/// The variable for a test build that acts as a newer version, see `crates/cache/src/remote/form.rs`.
const NEWER: [(&str, &str); 1] = [("KITH_FORM", "2")];
/// How copies from the newer version and from this version begin.
const MARKS: [&[u8]; 2] = [b"K\x02", b"K\x01"];
/// How long it may take until both are seen in Redis.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// Half the nodes are replaced in sequence by newer nodes, and by usual nodes again after so long. Returns
/// how many were replaced.
pub(super) async fn replace_half(site: &mut Site, lasts: Duration) -> Result<u64> {
    let newer = replace(site, &NEWER).await?;
    for mark in MARKS {
        ensure!(
            is_seen(site, mark).await?,
            "no copy begins with {mark:?}: is the program a build with fail points?"
        );
    }
    sleep(lasts).await;
    Ok(newer + replace(site, &[]).await?)
}

async fn replace(site: &mut Site, variables: &[(&str, &str)]) -> Result<u64> {
    let (half, mut replaced) = (site.members.len() / 2, 0);
    for member in &mut site.members[..half] {
        member.node.end().await?;
        member.node.run_with_variables(variables)?;
        member.node.until_trusted().await?;
        replaced += 1;
    }
    Ok(replaced)
}

/// Whether a Redis key holds something that begins so.
async fn is_seen(site: &Site, mark: &[u8]) -> Result<bool> {
    let until = Instant::now() + SEEN_WITHIN;
    while Instant::now() < until {
        let Some(key) = site.redis.ask(&["RANDOMKEY"]).await?.text() else { continue };
        // A key with another type than copies have is no text.
        let head = site.redis.ask(&["GETRANGE", &key, "0", "1"]).await;
        if head.ok().and_then(|head| head.text()).is_some_and(|head| head.as_bytes() == mark) {
            return Ok(true);
        }
    }
    Ok(false)
}
