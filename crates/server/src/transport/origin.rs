//! Pages that may call this node.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, Uri, header};
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
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

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
