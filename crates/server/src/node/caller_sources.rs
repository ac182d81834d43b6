//! Where a node's callers come from, and what is there.

use std::path::{Path, PathBuf};

use kith_service::rpc::rights::{CallerId, Rights};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::fetched_keys::FetchedKeys;
use crate::{
    auth::{
        CallerKey, CallerSet, Digest, Issuer,
        callers_file::{self, KEYS_MAX},
        new_key,
        secret_file::{self, Content, Warning},
    },
    config::{Config, IssuerConfig},
};

/// Where callers come from.
#[derive(Clone, Debug, Default)]
pub struct CallerSources {
    api_key: Option<Digest>,
    api_key_file: Option<PathBuf>,
    callers_file: Option<PathBuf>,
    issuers: Vec<IssuerConfig>,
    /// The keys of issuers with an address.
    fetched: FetchedKeys,
}

/// The callers and issuers in the sources.
#[derive(Debug)]
pub struct LoadedCallers {
    /// All callers that the sources define.
    pub set: CallerSet,
    /// All issuers of users' tokens.
    pub issuers: Vec<Issuer>,
    /// Says what is wrong with issuers' keys that are left out, in a line for each.
    pub odd_keys: Vec<String>,
    /// Warnings about the files.
    pub warnings: Vec<Warning>,
}

/// The files as read, before they are parsed. For each unreadable file, the reason.
pub(super) struct Contents {
    keys: Option<FileRead>,
    callers: Option<FileRead>,
    /// A file for each issuer.
    keys_of_issuers: Vec<FileRead>,
}

type FileRead = Result<secret_file::SecretFile, String>;

/// A file or an address that cannot be used.
#[derive(Debug)]
pub(super) struct UnusedSource {
    /// One line with the configuration key, the place, and the reason.
    pub(super) text: String,
    /// Whether it is an address, which may answer later.
    pub(super) is_address: bool,
}

/// The parsed files, each by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct CallerFiles {
    keys: Vec<Digest>,
    callers: CallerSet,
    issuers: Vec<Issuer>,
}

impl CallerSources {
    /// The sources in a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            api_key: config.api_key.as_ref().map(|key| key.digest()),
            api_key_file: config.api_key_file.clone(),
            callers_file: config.auth.callers_file.clone(),
            issuers: config.auth.issuers.clone(),
            fetched: FetchedKeys::default(),
        }
    }

    /// Only the issuers' sources in a configuration.
    #[must_use]
    pub fn of_issuers(config: &Config) -> Self {
        Self { issuers: config.auth.issuers.clone(), ..Self::default() }
    }

    /// Asks the issuers' addresses for their keys. All other methods use what this returned last. Takes 5 s
    /// at most. Returns whether all have answered.
    pub async fn fetch(&self) -> bool {
        self.fetched.fetch(&self.issuers).await
    }

    /// Whether some issuer's keys are at an address.
    pub(super) fn has_addresses(&self) -> bool {
        self.issuers.iter().any(|issuer| issuer.jwks_url.is_some())
    }

    /// Whether there are no sources: the node is open.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.api_key.is_none() && !self.has_files()
    }

    /// Whether a file may change while the node runs.
    pub(super) const fn has_files(&self) -> bool {
        self.api_key_file.is_some() || self.callers_file.is_some() || !self.issuers.is_empty()
    }

    /// Reads and parses the files, and what was fetched. Not atomic over both: a reload reads twice for that.
    ///
    /// # Errors
    /// One line with the configuration key, the file, the place in it, and no part of a key.
    pub fn find(&self) -> Result<LoadedCallers, String> {
        let contents = self.read();
        let warnings = contents.warnings();
        let (files, refused) = self.parse(contents, &CallerFiles::default());
        if let Some(why) = refused.first() {
            return Err(why.text.clone());
        }
        let (set, odd_keys) = (self.together(&files)?, files.odd_keys());
        Ok(LoadedCallers { set, issuers: files.issuers, odd_keys, warnings })
    }

    /// Reads each file.
    pub(super) fn read(&self) -> Contents {
        let read = |key: &str, path: &Option<PathBuf>, content| {
            let read = path.as_deref().map(|path| secret_file::read(path, content));
            read.map(|read| read.map_err(|unfit| format!("{key}: {unfit}")))
        };
        Contents {
            keys: read("api_key_file", &self.api_key_file, Content::Keys),
            callers: read("auth.callers_file", &self.callers_file, Content::Public),
            keys_of_issuers: self.issuers.iter().map(|issuer| self.read_keys(issuer)).collect(),
        }
    }

    /// Parses each file by itself. An unusable file keeps its content from `before`: it must not keep the
    /// other files from taking effect, such as a removed key. Also returns why files cannot be used, as
    /// [`Self::find`] does.
    pub(super) fn parse(&self, contents: Contents, before: &CallerFiles) -> (CallerFiles, Vec<UnusedSource>) {
        let (mut files, mut refused) = (before.clone(), Vec::new());
        let unused = |text| UnusedSource { text, is_address: false };
        let mut take = |parsed: Result<(), String>| refused.extend(parsed.err().map(unused));
        if let (Some(path), Some(file)) = (&self.api_key_file, contents.keys) {
            take(file.and_then(|file| {
                files.keys =
                    keys(&file.bytes).map_err(|why| format!("api_key_file: {}{why}", path.display()))?;
                Ok(())
            }));
        }
        if let (Some(path), Some(file)) = (&self.callers_file, contents.callers) {
            take(file.and_then(|file| {
                files.callers = callers(path, &file.bytes)?;
                Ok(())
            }));
        }
        let mut issuers = Vec::new();
        for (at, (issuer, file)) in self.issuers.iter().zip(contents.keys_of_issuers).enumerate() {
            match file.and_then(|file| issuer_of(issuer, &file.bytes)) {
                Ok(issuer) => issuers.push(issuer),
                Err(text) => {
                    let before = files.issuers.get(at).cloned();
                    issuers.push(before.unwrap_or_else(|| Issuer::without_keys(issuer.clone())));
                    refused.push(UnusedSource { text, is_address: issuer.jwks_url.is_some() });
                }
            }
        }
        files.issuers = issuers;
        (files, refused)
    }

    fn read_keys(&self, issuer: &IssuerConfig) -> FileRead {
        if let Some(file) = &issuer.jwks_file {
            let read = secret_file::read(file, Content::Public);
            return read.map_err(|unfit| format!("auth.issuers: jwks_file: {unfit}"));
        }
        let bytes = self.fetched.of(issuer).map_err(|why| format!("{}{why}", source(issuer)))?;
        Ok(secret_file::SecretFile { bytes: Zeroizing::new(bytes.to_vec()), warnings: Vec::new() })
    }

    /// The callers in all files.
    ///
    /// # Errors
    /// Returns the errors of [`Self::find`] if files contradict each other.
    pub(super) fn together(&self, files: &CallerFiles) -> Result<CallerSet, String> {
        let mut set: CallerSet =
            self.api_key.iter().chain(&files.keys).copied().map(default_caller).collect();
        if let Some(path) = &self.callers_file {
            if files.callers.iter().any(|key| key.name == CallerId::DEFAULT_NAME) && !set.is_empty() {
                let path = path.display();
                return Err(format!(
                    "auth.callers_file: {path} has a caller default, which that of api_key_file is; choose another name"
                ));
            }
            set.extend(files.callers.iter().cloned());
        }
        callers_file::check_distinct(&set)
            .map_err(|why| format!("auth.callers_file: with api_key_file it {why}"))?;
        Ok(set)
    }
}

impl CallerFiles {
    /// The issuers, ordered like the configuration.
    pub(super) fn issuers(&self) -> Vec<Issuer> {
        self.issuers.clone()
    }

    /// Says what is wrong with issuers' keys that are left out, in a line for each.
    pub(super) fn odd_keys(&self) -> Vec<String> {
        let of_issuer = |issuer: &Issuer| {
            let file = source(issuer.config());
            issuer
                .odd_keys()
                .iter()
                .map(move |why| format!("{file}{why}; it is left out"))
                .collect::<Vec<_>>()
        };
        self.issuers.iter().flat_map(of_issuer).collect()
    }
}

impl Contents {
    /// A hash over all bytes, to detect changes.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let files = [self.keys.as_ref(), self.callers.as_ref()].into_iter();
        for file in files.chain(self.keys_of_issuers.iter().map(Some)) {
            let (kind, bytes) = match file {
                None => (0, &[][..]),
                Some(Ok(file)) => (1, file.bytes.as_slice()),
                Some(Err(why)) => (2, why.as_bytes()),
            };
            hash.update([kind]);
            hash.update(bytes.len().to_be_bytes());
            hash.update(bytes);
        }
        hash.finalize().into()
    }

    /// Says what should be changed about the files.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        let files = [&self.keys, &self.callers].into_iter().flatten().chain(&self.keys_of_issuers);
        files.flatten().flat_map(|file| file.warnings.iter().cloned()).collect()
    }
}

fn issuer_of(issuer: &IssuerConfig, jwks: &[u8]) -> Result<Issuer, String> {
    Issuer::new(issuer.clone(), jwks).map_err(|why| format!("{}{why}", source(issuer)))
}

/// The configuration key that names the file or address with an issuer's keys.
fn source(issuer: &IssuerConfig) -> String {
    match (&issuer.jwks_file, &issuer.jwks_url) {
        (Some(file), _) => format!("auth.issuers: jwks_file: {}", file.display()),
        (None, Some(url)) => format!("auth.issuers: jwks_url: {url}"),
        (None, None) => "auth.issuers: jwks_file".to_owned(),
    }
}

fn default_caller(digest: Digest) -> CallerKey {
    CallerKey {
        name: CallerId::DEFAULT_NAME.to_owned(),
        rights: Rights::ALL,
        digest,
        made: None,
        expires: None,
    }
}

/// One key in each line. Empty lines, and blanks around a key, are ignored.
fn keys(bytes: &[u8]) -> Result<Vec<Digest>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| " is no text".to_owned())?;
    let mut digests = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let key = line.trim();
        if key.is_empty() {
            continue;
        }
        new_key::check(key).map_err(|why| format!(":{}: the key {why}", at + 1))?;
        let digest = Digest::of(key.as_bytes());
        if digests.contains(&digest) {
            return Err(format!(":{}: the key is in the file twice", at + 1));
        }
        digests.push(digest);
    }
    match digests.len() {
        0 => Err(" is empty; make another with a key: kith keys generate --file FILE".to_owned()),
        1..=KEYS_MAX => Ok(digests),
        _ => Err(format!(" has more than {KEYS_MAX} keys; remove old ones")),
    }
}

fn callers(path: &Path, bytes: &[u8]) -> Result<CallerSet, String> {
    let path = path.display();
    let text = std::str::from_utf8(bytes).map_err(|_| format!("auth.callers_file: {path} is no text"))?;
    callers_file::parse(text).map_err(|wrong| format!("auth.callers_file: {path}{wrong}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ONE: &str = "correct-horse-battery-staple-one-key";
    const TWO: &str = "correct-horse-battery-staple-two-key";

    fn digest(key: &str) -> Digest {
        Digest::of(key.as_bytes())
    }

    fn found(keys: Option<&str>, callers: Option<&str>) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: Option<&str>| {
            text.map(|text| {
                let path = folder.path().join(name);
                fs::write(&path, text).unwrap();
                path
            })
        };
        let sources = CallerSources {
            api_key: None,
            api_key_file: file("kith.key", keys),
            callers_file: file("callers.toml", callers),
            ..CallerSources::default()
        };
        let text = |error: String| error.replace(&folder.path().display().to_string(), "");
        let found = sources.find().map_err(text)?;
        Ok(found.set.into_iter().map(|key| format!("{} {}", key.name, key.digest.to_hex())).collect())
    }

    fn toml(name: &str, key: &str) -> String {
        let hex = digest(key).to_hex();
        format!("[[caller]]\nname = \"{name}\"\nscopes = [\"watcher\"]\nkeys = [{{ sha256 = \"{hex}\" }}]\n")
    }

    #[test]
    fn key_file_belongs_to_the_default_caller() {
        let default = |key| format!("default {}", digest(key).to_hex());
        assert_eq!(found(Some(&format!("{ONE}\n")), None).unwrap(), [default(ONE)]);
        assert_eq!(
            found(Some(&format!("\r\n{ONE}\r\n\n  {TWO}")), None).unwrap(),
            [default(ONE), default(TWO)]
        );
    }

    #[test]
    fn both_files_are_put_together() {
        let set = found(Some(ONE), Some(&toml("chat", TWO))).unwrap();
        assert!(set[0].starts_with("default ") && set[1].starts_with("chat ") && set.len() == 2, "{set:?}");
        assert!(found(None, Some(&toml("default", TWO))).is_ok());
        for (name, key, words) in [("default", TWO, "has a caller default"), ("chat", ONE, "has a key twice")]
        {
            let error = found(Some(ONE), Some(&toml(name, key))).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn refused_key_file_names_its_line_and_no_key() {
        for (text, expected) in [
            (String::new(), "api_key_file: /kith.key is empty"),
            (" \n".to_owned(), "api_key_file: /kith.key is empty"),
            (format!("{ONE}\n\nshort"), "api_key_file: /kith.key:3: the key has fewer than 32"),
            (format!("{ONE}\nREPLACE_ME\n"), "api_key_file: /kith.key:2: the key is one of an example"),
            (format!("{ONE}\n{ONE}\n"), "api_key_file: /kith.key:2: the key is in the file twice"),
            (format!("{ONE} {TWO}"), "api_key_file: /kith.key:1: the key has a character"),
        ] {
            let error = found(Some(&text), None).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("correct"), "{error}");
        }
        let nine: String = (0..9).map(|at| format!("{ONE}{at}\n")).collect();
        assert!(found(Some(&nine), None).unwrap_err().contains("more than 8"));
        assert_eq!(found(Some(&nine[..nine.len() - ONE.len() - 2]), None).unwrap().len(), 8);
    }
}
