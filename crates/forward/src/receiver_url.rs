//! The address of a receiver.

use std::fmt;

use http::{
    Uri,
    uri::{Authority, PathAndQuery, Scheme},
};
use rustls::pki_types::ServerName;

const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// An address with a scheme and a host, and without a user or password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverUrl(Uri);

impl ReceiverUrl {
    /// Reads an address. `http_allowed`: it may begin with `http://`.
    ///
    /// # Errors
    /// Says what is wrong, in words that follow the name of the option.
    pub fn parse(text: &str, http_allowed: bool) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "is no address; write https://HOST/PATH")?;
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => {}
            Some(scheme) if *scheme == Scheme::HTTP && http_allowed => {}
            Some(scheme) if *scheme == Scheme::HTTP => {
                return Err(
                    "begins with http://, which shows the records to the network; --allow-http allows it",
                );
            }
            _ => return Err("has to begin with https://"),
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("may have no user and no password");
        }
        let url = Self(uri);
        url.server_name().map(|_| url.clone()).ok_or("has no host that a certificate can be of")
    }

    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// An IPv6 address without its brackets.
    pub(crate) fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_https() { HTTPS } else { HTTP })
    }

    /// The name that the receiver's certificate must have.
    pub(crate) fn server_name(&self) -> Option<ServerName<'static>> {
        ServerName::try_from(self.host().to_owned()).ok()
    }

    /// The value for the header `host`.
    pub(crate) fn authority(&self) -> &str {
        self.0.authority().map_or("", Authority::as_str)
    }

    /// The request target: the path, with a query if there is one.
    pub(crate) fn target(&self) -> &str {
        self.0.path_and_query().map_or("/", PathAndQuery::as_str)
    }
}

/// Prints no path and no query, in which some services keep a password.
impl fmt::Display for ReceiverUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme_str().unwrap_or_default(), self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_a_host_and_no_password() {
        let url = ReceiverUrl::parse("https://[::1]:8443/hooks/secret?key=1", false).unwrap();
        assert_eq!((url.host(), url.port(), url.target()), ("::1", 8443, "/hooks/secret?key=1"));
        assert_eq!((url.authority(), url.to_string().as_str()), ("[::1]:8443", "https://[::1]:8443"));
        assert_eq!(ReceiverUrl::parse("http://search.example", true).unwrap().port(), 80);
        for wrong in [
            "",
            "search.example",
            "http://search.example/",
            "https://",
            "https://a:b@search.example/",
            "ftp://a/",
        ] {
            assert!(ReceiverUrl::parse(wrong, false).is_err(), "{wrong}");
        }
    }
}
