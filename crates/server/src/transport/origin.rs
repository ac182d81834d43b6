//! Pages that may call this node.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, Request, Uri, header, uri::Authority};
use kith_service::error::{Error, Reason};
use tonic::Status;

use crate::config::CorsConfig;

/// The pages that may call. A browser names the page in `origin`; other programs send no such header.
///
/// That `origin` and `host` are equal is never a reason to accept a page: another party's name may resolve to
/// this machine, and its page then has the same origin as the node.
#[derive(Clone, Debug)]
pub(super) struct Origins {
    listed: Vec<HeaderValue>,
    /// The page that the node itself serves; `None`: none.
    own: Option<OwnPage>,
}

/// The node's page, as a browser on this machine names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnPage {
    /// Whether the port speaks TLS.
    pub(super) tls: bool,
    /// The node's port.
    pub(super) port: u16,
}

impl Origins {
    pub(super) fn new(config: &CorsConfig, own: Option<OwnPage>) -> Self {
        let listed = config.origins.iter().filter_map(|origin| origin.parse().ok()).collect();
        Self { listed, own }
    }

    /// Whether a request may be answered: from a page in `http.cors.origins`, from this node's page on the
    /// loopback device, or not from a page.
    pub(super) fn allow(&self, headers: &HeaderMap) -> bool {
        let Some(origin) = headers.get(header::ORIGIN) else { return true };
        let given_once = headers.get_all(header::ORIGIN).iter().nth(1).is_none();
        given_once && (self.listed.contains(origin) || self.own.is_some_and(|own| own.is_page(origin)))
    }
}

impl OwnPage {
    fn is_page(self, origin: &HeaderValue) -> bool {
        let Some(uri) = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok()) else { return false };
        let (scheme, usual) = if self.tls { ("https", 443) } else { ("http", 80) };
        uri.scheme_str() == Some(scheme)
            && uri.port_u16().unwrap_or(usual) == self.port
            && uri.host().is_some_and(is_loopback)
    }
}

/// The answer to a page that may not call.
pub(super) fn refused() -> Status {
    let text = "pages of this origin may not call the node; http.cors.origins lists those that may";
    Error::new(Reason::OriginRefused, text).into()
}

/// Whether a host is this machine by its very name: a loopback address, or `localhost`.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether every host in a request is this machine. A request without a host does not come from a browser.
pub(crate) fn names_this_machine<B>(request: &Request<B>) -> bool {
    let is_local = |authority: &Authority| is_loopback(authority.host());
    let given = |host: &HeaderValue| Authority::try_from(host.as_bytes()).is_ok_and(|host| is_local(&host));
    let hosts = request.headers().get_all(header::HOST);
    request.uri().authority().is_none_or(is_local) && hosts.iter().all(given)
}

/// Whether a request comes from no page, or from a page that a browser loaded from the host that the request
/// names, without TLS. Only where [`names_this_machine`] holds, no other party's page can do that.
pub(crate) fn is_of_the_same_origin(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let is_same = |origin: &HeaderValue| {
        origin.as_bytes().strip_prefix(b"http://").is_some_and(|origin| Some(origin) == host)
    };
    headers.get_all(header::ORIGIN).iter().all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(uri: &str, hosts: &[&'static str]) -> bool {
        let mut request = Request::get(uri).body(()).unwrap();
        let hosts = hosts.iter().map(|host| (header::HOST, HeaderValue::from_static(host)));
        request.headers_mut().extend(hosts);
        names_this_machine(&request)
    }

    #[test]
    fn requests_for_this_machine_are_answered() {
        for host in ["127.0.0.1:7601", "localhost:7601", "LOCALHOST", "[::1]:7601", "127.9.9.9"] {
            assert!(names("/metrics", &[host]), "{host}");
        }
        assert!(names("/metrics", &[]), "over HTTP/1.0");
        assert!(names("http://localhost:7601/metrics", &["localhost:7601"]));
    }

    #[test]
    fn requests_for_other_hosts_are_refused() {
        for host in
            ["rebound.example:7601", "10.0.0.7:7601", "localhost.example", "127.0.0.1.example", "", "a b"]
        {
            assert!(!names("/metrics", &[host]), "{host}");
        }
        assert!(!names("http://rebound.example/metrics", &["localhost"]), "the request's line counts too");
        assert!(!names("/metrics", &["localhost", "rebound.example"]), "every host counts");
    }

    #[test]
    fn page_has_the_origin_of_the_host() {
        let of = |host: Option<&'static str>, origins: &[&'static str]| {
            let mut headers = HeaderMap::new();
            headers.extend(host.map(|host| (header::HOST, HeaderValue::from_static(host))));
            for origin in origins {
                headers.append(header::ORIGIN, HeaderValue::from_static(origin));
            }
            is_of_the_same_origin(&headers)
        };
        let host = Some("localhost:8601");
        assert!(of(host, &["http://localhost:8601"]) && of(host, &[]) && of(None, &[]));
        for origin in ["http://localhost:3000", "https://localhost:8601", "http://127.0.0.1:8601", "null", ""]
        {
            assert!(!of(host, &[origin]), "{origin}");
        }
        assert!(!of(host, &["http://localhost:8601", "http://localhost:3000"]), "every origin counts");
        assert!(!of(None, &["http://localhost:8601"]) && !of(None, &["http://"]), "it names no host");
    }

    const OWN: OwnPage = OwnPage { tls: false, port: 7600 };

    fn may_of(own: Option<OwnPage>, given: &[&'static str]) -> bool {
        let origins = vec!["https://app.example".to_owned()];
        let mut headers = HeaderMap::new();
        for origin in given {
            headers.append(header::ORIGIN, HeaderValue::from_static(origin));
        }
        // The host that a page sends whose name resolves to this machine.
        headers.insert(header::HOST, HeaderValue::from_static("rebound.example:7600"));
        Origins::new(&CorsConfig { origins, ..CorsConfig::default() }, own).allow(&headers)
    }

    fn allows(origin: &'static str) -> bool {
        may_of(Some(OWN), &[origin])
    }

    #[test]
    fn listed_pages_own_page_and_programs_may() {
        assert!(allows("https://app.example") && may_of(None, &["https://app.example"]));
        assert!(
            allows("http://127.0.0.1:7600") && allows("http://localhost:7600") && allows("http://[::1]:7600")
        );
        assert!(may_of(None, &[]), "it is no page");
        let usual = OwnPage { tls: true, port: 443 };
        assert!(may_of(Some(usual), &["https://localhost"]), "browsers leave out the usual port");
    }

    #[test]
    fn other_pages_may_not() {
        for origin in ["https://other.example", "null", "http://127.0.0.1:9000", "https://127.0.0.1:7600", ""]
        {
            assert!(!allows(origin), "{origin}");
        }
        assert!(!allows("http://rebound.example:7600"), "a name that resolves to this machine");
        assert!(!allows("http://localhost.example:7600") && !allows("http://127.0.0.1.example:7600"));
        assert!(!may_of(None, &["http://127.0.0.1:7600"]), "it serves no page");
        assert!(!may_of(Some(OWN), &["https://app.example", "https://app.example"]), "given twice");
    }
}
