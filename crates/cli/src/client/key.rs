//! Reads the key that calls carry.

use std::{env, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::builder::BoolishValueParser;
use kith_server::auth::secret_file::{self, Content};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
    transport::Endpoint,
};
use zeroize::Zeroizing;

use super::starting::is_loopback;

/// The variable that replaces a key file. No flag takes the key: other users can see this machine's command
/// lines.
const VARIABLE: &str = "KITH_API_KEY";

/// Where the key is, and whether it may be sent in plaintext.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct KeyOptions {
    /// File whose first line is the key that calls carry; else KITH_API_KEY is the key
    #[arg(long, env = "KITH_API_KEY_FILE", hide_env_values = true, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Send the key without TLS, also to another machine
    #[arg(long, env = "KITH_INSECURE", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub(crate) insecure: bool,
}

/// The key that authenticates each call, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credential(Option<MetadataValue<Ascii>>);

impl KeyOptions {
    /// Returns the key for a node at this address, if one is given. Fails if the key cannot be read or sent,
    /// or would be sent in plaintext to another machine.
    pub(super) fn credential(&self, endpoint: &Endpoint) -> Result<Credential> {
        let Some((origin, key)) = self.key(env::var_os(VARIABLE).map(|key| key.into_encoded_bytes()))? else {
            return Ok(Credential::default());
        };
        let (uri, plaintext) = (endpoint.uri(), endpoint.uri().scheme_str() != Some("https"));
        if plaintext && !is_loopback(endpoint) && !self.insecure {
            bail!(
                "the key would be sent to {uri} in plaintext; name an address with https, or say --insecure"
            );
        }
        Credential::of(&key).with_context(|| format!("{origin} is no key that can be sent; copy it again"))
    }

    /// Returns the key and where it was found. A file wins over the variable.
    fn key(&self, variable: Option<Vec<u8>>) -> Result<Option<(String, Zeroizing<Vec<u8>>)>> {
        let variable = variable.map(Zeroizing::new);
        let Some(path) = &self.api_key_file else {
            return Ok(variable.map(|key| (VARIABLE.to_owned(), key)));
        };
        let origin = format!("the first line of {}", path.display());
        let file = secret_file::read(path, Content::Keys).context("--api-key-file")?;
        let mut lines = file.bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let key = lines.find(|line| !line.is_empty()).unwrap_or_default();
        Ok(Some((origin, Zeroizing::new(key.to_vec()))))
    }
}

impl Credential {
    fn of(key: &[u8]) -> Option<Self> {
        if key.is_empty() || !key.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        let text = Zeroizing::new([b"Bearer ", key].concat());
        let mut value = MetadataValue::try_from(text.as_slice()).ok()?;
        value.set_sensitive(true);
        Some(Self(Some(value)))
    }
}

impl Interceptor for Credential {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(bearer) = &self.0 {
            request.metadata_mut().insert("authorization", bearer.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const KEY: &str = "correct-horse-battery-staple-one-key";

    fn sent(options: &KeyOptions, addr: &'static str) -> Result<Option<String>, String> {
        let credential =
            options.credential(&Endpoint::from_static(addr)).map_err(|error| format!("{error:#}"))?;
        assert!(!format!("{credential:?}").contains("horse"), "{credential:?}");
        let request = credential.clone().call(Request::new(())).unwrap();
        Ok(request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned()))
    }

    #[test]
    fn first_line_is_sent_to_this_machine_or_by_tls() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kith.key");
        fs::write(&file, format!("\n{KEY}\r\nanother\n")).unwrap();
        let mut options = KeyOptions { api_key_file: Some(file), insecure: false };
        for addr in
            ["http://127.0.0.1:7600", "http://[::1]:1", "http://localhost:1", "https://node.example:1"]
        {
            assert_eq!(sent(&options, addr), Ok(Some(format!("Bearer {KEY}"))), "{addr}");
        }
        let refused = sent(&options, "http://10.0.0.1:7600").unwrap_err();
        assert!(refused.contains("in plaintext") && !refused.contains("horse"), "{refused}");
        options.insecure = true;
        assert!(sent(&options, "http://10.0.0.1:7600").unwrap().is_some());
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kith.key");
        for key in ["", "\n\n", "battery staple", "batt\u{e9}ry"] {
            fs::write(&file, key).unwrap();
            let options = KeyOptions { api_key_file: Some(file.clone()), insecure: false };
            let error = sent(&options, "http://127.0.0.1:1").unwrap_err();
            assert!(error.contains("is no key that can be sent") && !error.contains("batt"), "{error}");
        }
        let absent = KeyOptions { api_key_file: Some(folder.path().join("absent")), insecure: false };
        assert!(
            sent(&absent, "http://127.0.0.1:1").unwrap_err().starts_with("--api-key-file: there is no file")
        );
    }

    #[test]
    fn the_file_wins_over_the_variable() {
        let variable = || Some(b"of-the-variable".to_vec());
        let key = |options: &KeyOptions| options.key(variable()).unwrap().map(|(_, key)| key.to_vec());
        assert_eq!(key(&KeyOptions::default()), variable());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kith.key");
        fs::write(&file, KEY).unwrap();
        assert_eq!(
            key(&KeyOptions { api_key_file: Some(file), insecure: false }),
            Some(KEY.as_bytes().to_vec())
        );
    }
}
