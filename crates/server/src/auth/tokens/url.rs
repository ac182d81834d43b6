//! The address at which an issuer publishes its keys.

use std::fmt;

use http::{Uri, uri::Scheme};
use rustls::pki_types::ServerName;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

const HTTPS: u16 = 443;

/// An address with `https`, a host, and no user or password in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksUrl(Uri);

impl JwksUrl {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "is no address; write https://HOST/PATH")?;
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Err("has to begin with https://, because its answer decides who every user is");
        }
        let url = Self(uri);
        if url.0.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("may have no user and no password");
        }
        url.server_name().map(|_| url.clone()).ok_or("has no host that a certificate can be of")
    }

    /// The host and the port to connect to.
    pub(crate) fn endpoint(&self) -> (&str, u16) {
        (self.host(), self.0.port_u16().unwrap_or(HTTPS))
    }

    /// The name that the server's certificate must have.
    pub(crate) fn server_name(&self) -> Option<ServerName<'static>> {
        ServerName::try_from(self.host().to_owned()).ok()
    }

    /// The value for the header `host`.
    pub(crate) fn authority(&self) -> &str {
        self.0.authority().map_or("", http::uri::Authority::as_str)
    }

    /// The request target: the path, with a query if there is one.
    pub(crate) fn target(&self) -> &str {
        self.0.path_and_query().map_or("/", http::uri::PathAndQuery::as_str)
    }

    /// An IPv6 address without its brackets.
    fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }
}

/// Prints no query, in which some services keep a password.
impl fmt::Display for JwksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}{}", self.authority(), self.0.path())
    }
}

impl Serialize for JwksUrl {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for JwksUrl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(|why| D::Error::custom(format!("jwks_url {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_keys_is_https_with_a_host_alone() {
        let parts = |text: &str| {
            let url = JwksUrl::parse(text).unwrap();
            let (host, port) = url.endpoint();
            format!("{host} {port} {} {} {url}", url.authority(), url.target())
        };
        assert_eq!(
            parts("https://id.example/keys?v=1"),
            "id.example 443 id.example /keys?v=1 https://id.example/keys"
        );
        assert_eq!(
            parts("https://127.0.0.1:8443"),
            "127.0.0.1 8443 127.0.0.1:8443 / https://127.0.0.1:8443/"
        );
        assert_eq!(parts("https://[::1]:1/a"), "::1 1 [::1]:1 /a https://[::1]:1/a");
        for wrong in [
            "",
            "jwks.json",
            "id.example/keys",
            "http://id.example/keys",
            "https://",
            "https://a@id.example/",
        ] {
            assert!(JwksUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
