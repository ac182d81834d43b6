//! A replica set's members, under the names that the set gives them. The driver connects to these, and not to
//! the names in the connection string.

use std::time::Duration;

use futures::future::join_all;
use mongodb::bson::{Bson, Document};

use super::{
    Unfit,
    wire::{PORT, is_reached, resolved},
};

/// Members that are looked up; a set has at most 50.
const MEMBERS_MAX: usize = 50;

/// Why the members that this host names cannot be reached.
pub(super) async fn unfit(hello: &Document, host: &str, limit: Duration) -> Option<Unfit> {
    if hello.get_str("setName").is_err() {
        return None;
    }
    let host = host.to_owned();
    let members = unknown(&names(hello), limit).await;
    if !members.is_empty() {
        return Some(Unfit::UnknownMembers { host, members });
    }
    let Ok(primary) = hello.get_str("primary") else { return Some(Unfit::NoPrimary { host }) };
    let (name, port) = split(primary);
    let reached = is_reached(name, port, limit).await;
    (!reached).then(|| Unfit::PrimaryUnreachable { host, primary: primary.to_owned() })
}

fn names(hello: &Document) -> Vec<String> {
    let hosts = hello.get_array("hosts").map(Vec::as_slice).unwrap_or_default();
    hosts.iter().filter_map(Bson::as_str).take(MEMBERS_MAX).map(str::to_owned).collect()
}

/// Returns the members that do not resolve.
async fn unknown(members: &[String], limit: Duration) -> Vec<String> {
    let looked_up = members.iter().map(|member| async move {
        let (name, port) = split(member);
        resolved(name, port, limit).await.is_empty().then(|| member.clone())
    });
    join_all(looked_up).await.into_iter().flatten().collect()
}

/// Splits name and port; an IPv6 address is in brackets.
fn split(member: &str) -> (&str, u16) {
    let (name, port) = member.rsplit_once(':').unwrap_or((member, ""));
    (name.trim_start_matches('[').trim_end_matches(']'), port.parse().unwrap_or(PORT))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(300);

    fn host() -> String {
        "seed:1".to_owned()
    }

    async fn of(hello: Document) -> Option<Unfit> {
        unfit(&hello, "seed:1", LIMIT).await
    }

    #[tokio::test]
    async fn members_that_cannot_be_reached_are_named() {
        let members = vec!["db-2.kith.invalid:27017".to_owned()];
        let hosts = ["127.0.0.1:1", "db-2.kith.invalid:27017"].as_slice();
        let found = of(doc! { "setName": "rs0", "hosts": hosts, "primary": "127.0.0.1:1" }).await;
        assert_eq!(found, Some(Unfit::UnknownMembers { host: host(), members }));
        let hosts = ["127.0.0.1:1"].as_slice();
        let found = of(doc! { "setName": "rs0", "hosts": hosts }).await;
        assert_eq!(found, Some(Unfit::NoPrimary { host: host() }));
        let found = of(doc! { "setName": "rs0", "hosts": hosts, "primary": "127.0.0.1:1" }).await;
        assert_eq!(
            found,
            Some(Unfit::PrimaryUnreachable { host: host(), primary: "127.0.0.1:1".to_owned() })
        );
    }

    #[tokio::test]
    async fn router_has_no_members() {
        assert_eq!(of(doc! { "msg": "isdbgrid" }).await, None);
    }

    #[test]
    fn names_are_split_from_ports() {
        assert_eq!(split("db-1:27018"), ("db-1", 27018));
        assert_eq!(split("[::1]:27018"), ("::1", 27018));
        assert_eq!(split("db-1"), ("db-1", PORT));
    }
}
