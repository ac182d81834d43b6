//! What browsers may do.

use std::time::Duration;

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
    /// Origins whose pages may call: `https://app.example`, with a port if it is not the default one. None: no page of
    /// another origin may call.
    pub origins: Vec<String>,
    /// How long a browser may cache the permission.
    #[serde(with = "humantime_serde")]
    pub max_age: Duration,
}

impl Default for CorsConfig {
    fn default() -> Self {
        Self { origins: Vec::new(), max_age: Duration::from_secs(2 * 60 * 60) }
    }
}

/// An origin that no browser sends would have no effect, without an error.
pub(super) fn check(http: &HttpConfig) -> Result<(), InvalidValue> {
    match http.cors.origins.iter().find(|origin| !is_origin(origin)) {
        None => Ok(()),
        Some(origin) if origin == "*" => {
            refuse(KEY, "holds *, which would let every page on the web call this node; name the origins")
        }
        Some(_) => refuse(
            KEY,
            "must hold origins such as https://app.example: scheme, host and, if need be, port, in lower case \
             and without a path",
        ),
    }
}

fn is_origin(text: &str) -> bool {
    let Ok(uri) = text.parse::<http::Uri>() else { return false };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return false };
    text == format!("{scheme}://{authority}").to_lowercase() && !authority.as_str().contains('@')
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
        assert!(checked("*").unwrap_err().text.contains("every page"));
    }
}
