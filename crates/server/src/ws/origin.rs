//! Which pages may open a socket.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, Uri, header};

use crate::config::CorsConfig;

/// The pages that may open a socket. A browser asks no permission before it opens one, so the node looks itself.
#[derive(Clone, Debug)]
pub(super) struct Origins(Vec<HeaderValue>);

impl Origins {
    pub(super) fn new(config: &CorsConfig) -> Self {
        Self(config.origins.iter().filter_map(|origin| origin.parse().ok()).collect())
    }

    /// Whether a request may open a socket: one of a page of `http.cors.origins`, one of a page of this node on the loopback
    /// device, or one of no page.
    ///
    /// A page of the same origin under another name is not enough: a name of another party may lead to this machine.
    pub(super) fn may(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = given.next() else { return true };
        given.next().is_none() && (self.0.contains(origin) || is_own(origin, headers))
    }
}

fn is_own(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let Some(uri) = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok()) else { return false };
    let (Some(authority), Some(host)) = (uri.authority(), headers.get(header::HOST)) else { return false };
    host.as_bytes() == authority.as_str().as_bytes() && is_loopback(authority.host())
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(origin: Option<&'static str>, host: &'static str) -> bool {
        let origins = vec!["https://app.example".to_owned()];
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(host));
        headers.extend(origin.map(|origin| (header::ORIGIN, HeaderValue::from_static(origin))));
        Origins::new(&CorsConfig { origins, ..CorsConfig::default() }).may(&headers)
    }

    #[test]
    fn pages_that_are_listed_and_pages_of_the_node_may() {
        assert!(may(Some("https://app.example"), "kith.example"));
        for host in ["127.0.0.1:7600", "localhost:7600", "[::1]:7600"] {
            let origin = Box::leak(format!("http://{host}").into_boxed_str());
            assert!(may(Some(origin), host), "{host}");
        }
        assert!(may(None, "kith.example"), "it is no page");
    }

    #[test]
    fn other_pages_may_not() {
        assert!(!may(Some("https://other.example"), "127.0.0.1:7600"));
        assert!(!may(Some("null"), "127.0.0.1:7600"));
        assert!(!may(Some("http://127.0.0.1:9000"), "127.0.0.1:7600"), "of another port");
        assert!(!may(Some("http://rebound.example:7600"), "rebound.example:7600"), "a name that leads here");
    }
}
