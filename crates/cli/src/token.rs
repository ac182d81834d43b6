//! `kith token`: checks users' tokens against a node's configuration, and makes tokens for trials.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail};
use kith_server::{
    auth::{
        TokenRefusal, Tokens,
        secret_file::{self, Content},
        trial_issuer::TrialIssuer,
    },
    node::caller_sources::CallerSources,
};
use kith_store::UserId;
use serde::Serialize;
use zeroize::Zeroizing;

use super::{
    Common, FAILED, OK,
    keys::files,
    output::{Report, note},
};

/// The longest text that is read from standard input. Tokens are shorter.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// The files in a folder for trials.
const SIGNING_KEY: &str = "signing.key";
const JWKS: &str = "jwks.json";
const CONFIGURATION: &str = "kith.toml";

/// The commands for users' tokens.
#[derive(Debug, clap::Subcommand)]
pub(super) enum TokenCommand {
    /// Say whether a node with this configuration takes a token, and else which rule refuses it
    #[command(
        after_help = "Needs no node: issuers and their keys are those of the configuration (auth.issuers); a jwks_url is asked. The token is not shown.\n\
                      Whether its user is suspended, signed out or deleted is known to nodes alone (kith call UserService/GetUserAccess).\n\
                      Exit codes: 0 taken, 1 refused, 2 it could not be checked."
    )]
    Check(TokenCheck),
    /// Make a token of a user, for trials alone, by a signing key that is made in a folder
    #[command(
        after_help = "The folder gets a signing key, its public half (jwks.json), and a kith.toml by which a node takes its tokens:\n\
                      kith serve --config trial/kith.toml. Who can read the signing key can be every user: never use it where users are real.\n\
                      Exit codes: 0 made, 2 it could not be made."
    )]
    Make(TokenMake),
}

/// The token to check.
#[derive(Debug, clap::Args)]
pub(super) struct TokenCheck {
    /// File with the token; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The user of a token, and how long it is valid.
#[derive(Debug, clap::Args)]
pub(super) struct TokenMake {
    /// Id of the token's user
    #[arg(value_name = "USER")]
    user: UserId,
    /// Folder of the signing key; made if it does not exist
    #[arg(long, value_name = "DIR", default_value = "trial")]
    dir: PathBuf,
    /// How long the token is valid; nodes take 24h at most by default
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    expires: Duration,
}

/// Runs a command. Fails when a file cannot be read or written, or no issuer is configured.
pub(super) async fn run(common: &Common, what: &TokenCommand) -> Result<u8> {
    match what {
        TokenCommand::Check(options) => check(common, options).await,
        TokenCommand::Make(options) => make(common, options),
    }
}

async fn check(common: &Common, options: &TokenCheck) -> Result<u8> {
    let config = common.load()?.config;
    if config.auth.issuers.is_empty() {
        bail!(
            "no issuer is configured (auth.issuers), so a node takes no token; name its file: --config FILE"
        );
    }
    let sources = CallerSources::of_issuers(&config);
    sources.fetch().await;
    let found = sources.find().map_err(anyhow::Error::msg)?;
    for odd in &found.odd_keys {
        note(&format!("kith: {odd}"));
    }
    let token = read(&options.file)?;
    let token = token.trim().trim_start_matches("Bearer ");
    let checked = Tokens::new(found.issuers).user(token).await;
    common.output.print(&CheckedToken::of(checked))?;
    Ok(if checked.is_ok() { OK } else { FAILED })
}

/// Reads a token. Bytes that are no text are replaced: no token has them.
fn read(file: &Path) -> Result<Zeroizing<String>> {
    let bytes = if file == Path::new("-") {
        let mut bytes = Zeroizing::new(Vec::new());
        let input = io::stdin().lock().take(TOKEN_BYTES_MAX).read_to_end(&mut bytes);
        input.context("standard input cannot be read")?;
        bytes
    } else {
        secret_file::read(file, Content::Keys)?.bytes
    };
    Ok(Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned()))
}

/// A check's result. It shows no token value except the user.
#[derive(Serialize)]
struct CheckedToken {
    token: &'static str,
    rule: Option<&'static str>,
    why: Option<String>,
    user: Option<i64>,
    valid_for: Option<String>,
}

impl CheckedToken {
    fn of(checked: Result<(UserId, Duration), TokenRefusal>) -> Self {
        let (rule, user) = (checked.err(), checked.ok());
        let seconds = |left: Duration| Duration::from_secs(left.as_secs());
        Self {
            token: if rule.is_none() { "taken" } else { "refused" },
            rule: rule.map(TokenRefusal::name),
            why: rule.map(|rule| rule.to_string()),
            user: user.map(|(user, _)| user.get()),
            valid_for: user.map(|(_, left)| humantime::format_duration(seconds(left)).to_string()),
        }
    }
}

impl Report for CheckedToken {
    const COLUMNS: &'static [&'static str] = &["token", "rule", "why", "user", "valid_for"];
}

fn make(common: &Common, options: &TokenMake) -> Result<u8> {
    let dir = &options.dir;
    fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    let dir = dir.canonicalize().with_context(|| format!("{} cannot be found", dir.display()))?;
    let issuer = issuer(&dir)?;
    let token = issuer.token(options.user, options.expires, SystemTime::now());
    let line = Zeroizing::new(format!("{}\n", *token));
    common.output.print_text(line.as_bytes(), &MadeToken { token: &token, user: options.user.get() })?;
    Ok(OK)
}

/// A token with its user, for programs.
#[derive(Serialize)]
struct MadeToken<'a> {
    token: &'a str,
    user: i64,
}

/// Returns the issuer in this folder. The first call makes it.
fn issuer(dir: &Path) -> Result<TrialIssuer> {
    let [key, jwks, configuration] = [SIGNING_KEY, JWKS, CONFIGURATION].map(|name| dir.join(name));
    let is_new = !key.exists();
    if is_new {
        let pem = TrialIssuer::generate().context("the system gives no random bytes")?;
        files::create(&key, &pem)?;
    }
    let pem = secret_file::read(&key, Content::PrivateKey)?.bytes;
    let issuer = TrialIssuer::from_pem(&pem)
        .with_context(|| format!("{} is no signing key of trials; name another --dir", key.display()))?;
    if is_new {
        public(&jwks, &issuer.jwks())?;
        public(&configuration, &TrialIssuer::configuration(&jwks.display().to_string()))?;
        note(&format!(
            "kith: for trials alone: who can read {} can be every user; a node takes its tokens by kith serve --config {}",
            key.display(),
            configuration.display()
        ));
    }
    Ok(issuer)
}

fn public(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
