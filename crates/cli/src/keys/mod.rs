//! `kith keys`: makes, lists and revokes callers' keys in files, without a node.

pub(super) mod files;

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail};
use kith_server::{
    auth::{
        CallerKey, Digest, KeyId, Scope,
        callers_edit::{self, AddedKey, RevokeTarget},
        callers_file::{self, is_name},
        new_key, parse_scopes,
        secret_file::{self, Content},
    },
    start_error::StartError,
};
use serde::Serialize;
use zeroize::Zeroizing;

use super::{
    Common, FAILED, OK,
    output::{Report, note, write},
};

/// The longest key that is read from standard input.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// The commands for keys.
#[derive(Debug, clap::Subcommand)]
pub(super) enum KeysCommand {
    /// Make a key for `api_key_file`: its caller may do everything
    #[command(after_help = "Exit codes: 0 made, or there already with --if-missing; 2 it could not be made.")]
    Generate(Generate),
    /// Make a key for a caller with a name and scopes, and add its digest to a file of callers
    #[command(
        after_help = "The key is printed once and stored nowhere. A node reads the file within seconds, without a restart.\n\
                      To rotate: create a second key for the name, give it to the clients, revoke the first by its id.\n\
                      Exit codes: 0 made, 2 it could not be made."
    )]
    Create(Create),
    /// List the keys of a file of callers: ids, scopes and dates
    List(CallersFile),
    /// Remove a key, or all keys of a caller, from a file of callers
    #[command(after_help = "Exit codes: 0 removed, 2 there is none, or the file could not be changed.")]
    Revoke(Revoke),
    /// Check a key, from standard input or a file: whether it is complete, and whose it is
    #[command(
        after_help = "Exit codes: 0 it is a key, of a caller of the file if one is given; 1 it is not."
    )]
    Check(KeyCheck),
}

/// The options for `kith keys generate`.
#[derive(Debug, clap::Args)]
pub(super) struct Generate {
    /// Write the key to this new file, which only its owner may read; else it is printed
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Do not change an existing file
    #[arg(long, requires = "file")]
    if_missing: bool,
}

/// The options for `kith keys create`.
#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// Name of the caller: 1 to 64 of a-z, 0-9 and -; appears in logs and metrics
    name: String,
    /// Presets and scopes, with commas between them: backend,presence:own
    #[arg(long, required = true, value_delimiter = ',', value_name = "SCOPES")]
    scopes: Vec<String>,
    /// After which time the key is refused, in whole days: 180d
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    expires: Option<Duration>,
    /// File of callers; created if it does not exist
    #[arg(long, value_name = "FILE", required_unless_present = "print")]
    file: Option<PathBuf>,
    /// Change no file: print the lines for it, and the key on standard error
    #[arg(long, conflicts_with = "file")]
    print: bool,
}

/// Selects the caller file.
#[derive(Debug, clap::Args)]
pub(super) struct CallersFile {
    /// File of callers
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

/// The options for `kith keys revoke`.
#[derive(Debug, clap::Args)]
pub(super) struct Revoke {
    /// Name of a caller, or id of a key
    #[arg(value_name = "NAME|ID")]
    which: String,
    /// File of callers
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

/// The options for `kith keys check`.
#[derive(Debug, clap::Args)]
pub(super) struct KeyCheck {
    /// File with the key on its first line, instead of standard input
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// File of callers to look in
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs a command. Fails when a file cannot be read or written, or holds something else.
pub(super) fn run(common: &Common, what: &KeysCommand) -> Result<u8, StartError> {
    let ran = match what {
        KeysCommand::Generate(options) => generate(common, options),
        KeysCommand::Create(options) => create(common, options),
        KeysCommand::List(options) => list(common, options),
        KeysCommand::Revoke(options) => revoke(common, options),
        KeysCommand::Check(options) => check(common, options),
    };
    ran.map_err(|why| StartError::new(format!("{why:#}")))
}

fn generate(common: &Common, options: &Generate) -> Result<u8> {
    if options.if_missing && options.file.as_ref().is_some_and(|file| file.exists()) {
        return Ok(OK);
    }
    let key = new_key::generate().context("the system gives no random bytes")?;
    let Some(file) = &options.file else {
        write(format!("{}\n", *key).as_bytes())?;
        return Ok(OK);
    };
    if !files::create(file, &key)? {
        if options.if_missing {
            return Ok(OK);
        }
        bail!("{} exists; a key in use is not replaced. Name another file, or remove it", file.display());
    }
    let id = Digest::of(key.as_bytes()).key_id().to_string();
    common.output.print(&GeneratedKey { file: file.display().to_string(), id })?;
    Ok(OK)
}

fn create(common: &Common, options: &Create) -> Result<u8> {
    if !is_name(&options.name) {
        bail!("the name of a caller must be 1 to 64 of a-z, 0-9 and -");
    }
    parse_scopes(options.scopes.iter().map(String::as_str)).context("--scopes")?;
    let (key, made) = (new_key::generate().context("the system gives no random bytes")?, SystemTime::now());
    let digest = Digest::of(key.as_bytes());
    let added = AddedKey {
        name: &options.name,
        scopes: &options.scopes,
        digest,
        made,
        expires: options.expires.map(|expires| made + expires),
    };
    let (caller, id) = (options.name.clone(), digest.key_id().to_string());
    let Some(file) = &options.file else {
        let lines = callers_edit::add("", &added).map_err(|why| anyhow::anyhow!("the lines{why}"))?;
        write(lines.as_bytes())?;
        note(&format!("kith: the key of {caller}, shown once and stored nowhere: {}", *key));
        return Ok(OK);
    };
    files::edit(file, |text| callers_edit::add(text, &added))?;
    common.output.print(&CreatedKey { caller, id, key })?;
    note("kith: the key is shown once and is stored nowhere; give it to the caller now");
    Ok(OK)
}

fn list(common: &Common, options: &CallersFile) -> Result<u8> {
    let keys: Vec<_> = read_callers(&options.file)?.iter().map(KeyRow::of).collect();
    common.output.print(&keys)?;
    Ok(OK)
}

fn revoke(common: &Common, options: &Revoke) -> Result<u8> {
    let which = match KeyId::from_hex(&options.which) {
        Some(id) if read_callers(&options.file)?.iter().any(|key| key.digest.key_id() == id) => {
            RevokeTarget::Key(id)
        }
        _ => RevokeTarget::Caller(&options.which),
    };
    let mut keys = 0;
    files::edit(&options.file, |text| {
        let (edited, count) = callers_edit::revoke(text, which)?;
        keys = count;
        Ok(edited)
    })?;
    common.output.print(&RevokedKeys { file: options.file.display().to_string(), keys })?;
    Ok(OK)
}

fn check(common: &Common, options: &KeyCheck) -> Result<u8> {
    let bytes = read_key(options.key_file.as_deref())?;
    let key = std::str::from_utf8(&bytes).ok().map(|text| text.lines().next().unwrap_or_default());
    let weak = key.map_or(Some(new_key::WeakKey::Characters), |key| new_key::check(key).err());
    if let Some(weak) = weak {
        note(&format!("kith: the key {weak}"));
        return Ok(FAILED);
    }
    let digest = Digest::of(key.unwrap_or_default().as_bytes());
    let found = match &options.file {
        None => None,
        Some(file) => {
            let Some(found) = read_callers(file)?.into_iter().find(|known| known.digest == digest) else {
                note(&format!("kith: the key is of no caller of {}", file.display()));
                return Ok(FAILED);
            };
            Some(found)
        }
    };
    if found.as_ref().and_then(|key| key.expires).is_some_and(|end| end <= SystemTime::now()) {
        note("kith: the key has expired");
        return Ok(FAILED);
    }
    let caller = found.map(|key| key.name).unwrap_or_default();
    common.output.print(&FoundKey { caller, id: digest.key_id().to_string() })?;
    Ok(OK)
}

/// Reads the key as it was given, with the lines behind it.
fn read_key(file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>> {
    if let Some(file) = file {
        return Ok(secret_file::read(file, Content::Keys)?.bytes);
    }
    let mut bytes = Zeroizing::new(Vec::new());
    io::stdin()
        .lock()
        .take(KEY_BYTES_MAX)
        .read_to_end(&mut bytes)
        .context("standard input cannot be read")?;
    Ok(bytes)
}

fn read_callers(file: &Path) -> Result<Vec<CallerKey>> {
    callers_file::parse(&files::read(file)?).map_err(|wrong| anyhow::anyhow!("{}{wrong}", file.display()))
}

#[derive(Serialize)]
struct GeneratedKey {
    file: String,
    id: String,
}

impl Report for GeneratedKey {
    const COLUMNS: &'static [&'static str] = &["file", "id"];
}

#[derive(Serialize)]
struct CreatedKey {
    caller: String,
    id: String,
    #[serde(serialize_with = "serialize_key")]
    key: Zeroizing<String>,
}

fn serialize_key<S: serde::Serializer>(key: &Zeroizing<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(key)
}

impl Report for CreatedKey {
    const COLUMNS: &'static [&'static str] = &["caller", "id", "key"];
}

/// A key in a file.
#[derive(Serialize)]
struct KeyRow {
    caller: String,
    id: String,
    scopes: Vec<&'static str>,
    made: Option<String>,
    expires: Option<String>,
    expired: bool,
}

impl KeyRow {
    fn of(key: &CallerKey) -> Self {
        let time = |time: SystemTime| humantime::format_rfc3339_seconds(time).to_string();
        Self {
            caller: key.name.clone(),
            id: key.digest.key_id().to_string(),
            scopes: key.rights.scopes().map(Scope::text).collect(),
            made: key.made.map(time),
            expires: key.expires.map(time),
            expired: key.expires.is_some_and(|end| end <= SystemTime::now()),
        }
    }
}

impl Report for KeyRow {
    const COLUMNS: &'static [&'static str] = &["caller", "id", "made", "expires", "scopes"];

    fn row(&self) -> Vec<String> {
        let text = |time: &Option<String>| time.clone().unwrap_or_default();
        let expires = text(&self.expires) + if self.expired { " (expired)" } else { "" };
        vec![self.caller.clone(), self.id.clone(), text(&self.made), expires, self.scopes.join(" ")]
    }
}

#[derive(Serialize)]
struct RevokedKeys {
    file: String,
    keys: usize,
}

impl Report for RevokedKeys {
    const COLUMNS: &'static [&'static str] = &["file", "keys_removed"];

    fn row(&self) -> Vec<String> {
        vec![self.file.clone(), self.keys.to_string()]
    }
}

#[derive(Serialize)]
struct FoundKey {
    caller: String,
    id: String,
}

impl Report for FoundKey {
    const COLUMNS: &'static [&'static str] = &["caller", "id"];
}
