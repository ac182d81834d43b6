//! The section about what browsers may do.

use std::{net::Ipv6Addr, time::Duration};

use serde::{Deserialize, Serialize};

use kith_service::invalid_value::{InvalidValue, refuse};

const KEY: &str = "http.cors.origins";

/// HTTP besides gRPC: JSON and gRPC-Web, which the gRPC port serves too.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Which pages may call.
    pub cors: CorsConfig,
}

/// Calls by pages of other origins.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorsConfig {
    /// Origins whose pages may call: `https://app.example`, with a port if it is not the default one.
    pub origins: Vec<String>,
    /// How long a browser may cache the permission.
    #[serde(skip)]
    pub max_age: Duration,
}

impl Default for CorsConfig {
    fn default() -> Self {
        Self { origins: Vec::new(), max_age: Duration::from_secs(2 * 60 * 60) }
    }
}

/// An origin that no browser sends would have no effect, without an error.
pub(super) fn check(http: &HttpConfig) -> Result<(), InvalidValue> {
    match http.cors.origins.iter().find_map(|origin| fault(origin)) {
        None => Ok(()),
        Some(why) => refuse(KEY, why),
    }
}

/// The reason why no browser sends this text as an origin.
fn fault(text: &str) -> Option<&'static str> {
    if text == "*" {
        return Some("holds *, which would let every page on the web call this node; name the origins");
    }
    if text.contains('*') {
        return Some(
            "holds a pattern such as https://*.app.example, and takes whole origins; name each host",
        );
    }
    let form = "must hold origins such as https://app.example: scheme, host and, if need be, port, in lower case \
                and without a path";
    let Ok(uri) = text.parse::<http::Uri>() else { return Some(form) };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Some(form) };
    if text != format!("{scheme}://{authority}").to_lowercase() || !is_host(authority) {
        return Some(form);
    }
    match (scheme, authority.port_u16()) {
        ("https", Some(443)) | ("http", Some(80)) => Some(
            "holds an origin with the default port of its scheme, which browsers leave out; leave it out",
        ),
        _ => None,
    }
}

/// Whether the text is a host as browsers write it, with an optional port.
fn is_host(authority: &http::uri::Authority) -> bool {
    let host = authority.host();
    let whole = match authority.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let address = host.strip_prefix('[').map(|host| host.trim_end_matches(']').parse::<Ipv6Addr>());
    let is_short = |address: Ipv6Addr| host == format!("[{address}]");
    authority.as_str() == whole && address.is_none_or(|address| address.is_ok_and(is_short))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(origin: &str) -> Result<(), InvalidValue> {
        let cors = CorsConfig { origins: vec![origin.to_owned()], ..CorsConfig::default() };
        check(&HttpConfig { cors })
    }

    #[test]
    fn origins_are_what_browsers_send() {
        for fine in ["https://app.example", "http://localhost:3000", "http://[::1]:3000", "tauri://localhost"]
        {
            assert!(checked(fine).is_ok(), "{fine}");
        }
        for wrong in ["", "null", "app.example", "https://app.example/", "https://App.example", "https://a@b"]
        {
            assert!(checked(wrong).is_err(), "{wrong}");
        }
        for wrong in ["https://app.example:", "https://app.example:0443", "http://[0:0::1]:3000"] {
            assert!(checked(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn origins_without_effect_say_what_to_write() {
        for (origin, words) in [
            ("*", "every page"),
            ("https://*.example", "name each host"),
            ("https://app.example:443", "browsers leave out"),
            ("http://app.example:80", "browsers leave out"),
            ("https://app.example/path", "without a path"),
        ] {
            let why = checked(origin).unwrap_err().text;
            assert!(why.contains(words), "{origin}: {why}");
        }
        assert!(checked("http://app.example:443").is_ok() && checked("https://app.example:80").is_ok());
    }
}
