//! Finds a node's unencrypted links to stores on other machines.

use std::net::IpAddr;

use super::{Backend, Config};

/// Returns a line for each link to another machine that carries data in plaintext, with the setting to
/// change. Addresses are not repeated: they may contain a password.
#[must_use]
pub fn plain_links(config: &Config) -> Vec<String> {
    if config.store.backend != Backend::Cluster {
        return Vec::new();
    }
    let mut links = Vec::new();
    if config.redis.url.as_ref().is_some_and(|url| is_plain_redis(url.expose())) {
        links.push(
            "the link to Redis is not encrypted (redis.url): write rediss:// where Redis speaks TLS"
                .to_owned(),
        );
    }
    if config.store.mongodb.uri.as_ref().is_some_and(|uri| is_plain_mongodb(uri.expose())) {
        links.push(
            "the link to MongoDB is not encrypted (store.mongodb.uri): write tls=true where MongoDB speaks TLS".to_owned(),
        );
    }
    if config.store.cql.contact_points.iter().any(|point| !is_this_machine(point)) {
        links.push(
            "the link to CQL is not encrypted (store.cql.contact_points), and kith has no TLS for it: keep it in a \
             network of your own"
                .to_owned(),
        );
    }
    links
}

fn is_plain_redis(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    !scheme.starts_with("rediss") && !hosts(rest).all(is_this_machine)
}

fn is_plain_mongodb(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once("://") else { return false };
    let options = rest.split_once('?').map_or("", |(_, options)| options).split('&');
    let given = options.filter_map(|option| option.split_once('=')).find_map(|(name, value)| {
        let is_tls = name.eq_ignore_ascii_case("tls") || name.eq_ignore_ascii_case("ssl");
        is_tls.then(|| value.eq_ignore_ascii_case("true"))
    });
    // Found by a name service, hosts are spoken to with TLS unless the address says otherwise.
    let has_tls = given.unwrap_or(scheme == "mongodb+srv");
    !has_tls && !hosts(rest).all(is_this_machine)
}

/// The hosts with their ports, after the credentials and before the path.
fn hosts(rest: &str) -> impl Iterator<Item = &str> {
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default().split(',')
}

/// Whether `HOST:PORT` is on the loopback device, or a socket on this machine.
fn is_this_machine(address: &str) -> bool {
    let host = address
        .rsplit_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok())
        .map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.ends_with(".sock")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    fn links(redis: &str, mongodb: &str, cql: &str) -> usize {
        let mut config = Config::default();
        config.store.backend = Backend::Cluster;
        config.redis.url = Some(Secret::new(redis.to_owned()));
        config.store.mongodb.uri = Some(Secret::new(mongodb.to_owned()));
        config.store.cql.contact_points = vec![cql.to_owned()];
        let links = plain_links(&config);
        assert!(
            links.iter().all(|link| !link.contains("hunter2") && !link.contains("10.0.0.7")),
            "{links:?}"
        );
        links.len()
    }

    #[test]
    fn plaintext_to_other_machines_is_named() {
        assert_eq!(
            links(
                "redis://:hunter2@10.0.0.7:6379",
                "mongodb://a:hunter2@10.0.0.7,db/?replicaSet=r",
                "10.0.0.7:9042"
            ),
            3
        );
        assert_eq!(links("redis-cluster://a:6379", "mongodb+srv://a.example/?tls=false", "c:9042"), 3);
    }

    #[test]
    fn encrypted_and_local_links_are_not_named() {
        assert_eq!(links("rediss://a:6379", "mongodb://a,b/?TLS=true", "127.0.0.1:9042"), 0);
        assert_eq!(links("rediss-cluster://a:6379", "mongodb+srv://a.example/", "[::1]:9042"), 0);
        assert_eq!(
            links("redis://localhost:6379/0", "mongodb://127.0.0.1:27017/?ssl=false", "localhost:9042"),
            0
        );
        assert_eq!(plain_links(&Config::default()), Vec::<String>::new());
    }
}
