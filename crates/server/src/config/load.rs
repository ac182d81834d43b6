//! Puts the sources over each other and reads the result.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use figment::{
    Figment, Metadata, Profile, Provider,
    util::nest,
    value::{Dict, Map, Value},
};
use kith_service::invalid_value::InvalidValue;

use super::{
    Config, check, ephemeral, service_links::is_service_link, source_line::SourceLines, text_value,
    unknown::UnknownKey, value_error,
};

/// A configuration that cannot be taken: one line that says what and where, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(super) String);

/// A value given on the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    /// The flag as it was written: `--listen`.
    pub name: &'static str,
    /// The key's path: `limits.in_flight`.
    pub key: String,
    /// The flag's value as text.
    pub value: String,
}

/// The places from which values are taken.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A file, which must exist then; absent: `kith.toml` in the working directory, if there is one. A
    /// working directory that this user may not search has none.
    pub file: Option<PathBuf>,
    /// The environment. Ignored: names that do not begin with `KITH_`, and what Kubernetes sets for Services
    /// named `kith`.
    pub environment: Vec<(String, String)>,
    /// Flags from the command line.
    pub flags: Vec<Flag>,
}

impl Sources {
    /// The file, whether it exists or not.
    pub(super) fn file_path(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| PathBuf::from(FILE))
    }
}

/// A configuration and where each value came from.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The effective configuration.
    pub config: Config,
    /// Where each value came from, by the key's path: `default`, or the name of the file, the variable or the
    /// flag.
    pub origins: BTreeMap<String, String>,
}

impl LoadedConfig {
    /// The sources that were read, each once and in the order in which the later wins: `defaults`, the file,
    /// variables, flags. A source whose values were all replaced by later ones is left out.
    #[must_use]
    pub fn sources(&self) -> Vec<&str> {
        let rank = |origin: &str| match origin {
            _ if origin.starts_with("--") => 2,
            _ if origin.starts_with(PREFIX) => 1,
            _ => 0,
        };
        let mut named: Vec<&str> = self.origins.values().map(String::as_str).collect();
        named.sort_by_key(|origin| (rank(origin), *origin));
        named.dedup();
        std::iter::once("defaults").chain(named).collect()
    }
}

const FILE: &str = "kith.toml";
const PREFIX: &str = "KITH_";
/// Variables for tests, which are not part of the configuration.
const NOT_CONFIGURATION: [&str; 5] =
    ["KITH_TEST_", "KITH_MUTANT", "KITH_NAME_RACES", "KITH_FAILPOINT", "KITH_FORM"];
/// Variables in place of the flags --addr and --insecure, for commands that talk to a node.
const OF_COMMANDS: [&str; 2] = ["KITH_ADDR", "KITH_INSECURE"];

/// The configuration with these keys set.
#[cfg(test)]
pub(super) fn with(set: &[(&str, &str)]) -> Result<LoadedConfig, ConfigError> {
    let flag = |(key, value): &(&str, &str)| Flag {
        name: "--set",
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    load(&Sources { flags: set.iter().map(flag).collect(), ..Sources::default() })
}

/// The reason why the configuration with these keys is refused. `None`: it is accepted.
#[cfg(test)]
pub(super) fn refused(set: &[(&str, &str)]) -> Option<String> {
    with(set).err().map(|error| error.to_string())
}

/// Reads the configuration.
///
/// # Errors
/// When a key is unknown or given twice, a value is empty or cannot be taken, or a file cannot be read.
pub fn load(sources: &Sources) -> Result<LoadedConfig, ConfigError> {
    let known = defaults()?;
    let mut layers =
        Layers { known, origins: BTreeMap::new(), places: SourceLines::default(), figment: Figment::new() };
    layers.figment = layers.figment.merge(ConfigLayer("default", layers.known.clone()));
    layers.file(sources)?;
    for (name, value) in &sources.environment {
        layers.variable(name, value)?;
    }
    for flag in &sources.flags {
        let place = if flag.name == "--set" { format!("--set {}", flag.key) } else { flag.name.to_owned() };
        layers.one(&place, &flag.key, &flag.value)?;
    }
    let mut config: Config = layers.figment.extract().map_err(|error| layers.describe(&error))?;
    check::complete(&mut config).map_err(|wrong| layers.locate(&wrong))?;
    ephemeral::check(&config, &layers.origins)?;
    ephemeral::set_defaults(&mut config, &mut layers.origins);
    Ok(LoadedConfig { config, origins: layers.origins })
}

struct Layers {
    known: Dict,
    origins: BTreeMap<String, String>,
    /// The lines in the file.
    places: SourceLines,
    figment: Figment,
}

impl Layers {
    fn file(&mut self, sources: &Sources) -> Result<(), ConfigError> {
        let (path, asked) = (sources.file_path(), sources.file.is_some());
        let place = path.display().to_string();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if !asked && is_absent(&path, &error) => return Ok(()),
            Err(error) if !asked => {
                return Err(ConfigError(value_error::unreadable(FILE, &Path::new(".").join(FILE), &error)));
            }
            Err(error) => return Err(ConfigError(value_error::unreadable("--config", &path, &error))),
        };
        let dict = toml::from_str::<Dict>(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            ConfigError(format!("{place}:{line}: {}", error.message().replace('\n', "; ")))
        })?;
        self.places = SourceLines::of(&place, &text);
        self.layer(&place, dict)
    }

    fn variable(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let Some(key) = name.strip_prefix(PREFIX) else { return Ok(()) };
        let of_others =
            OF_COMMANDS.contains(&name) || NOT_CONFIGURATION.iter().any(|other| name.starts_with(other));
        if of_others || is_service_link(name, value) {
            return Ok(());
        }
        let quoted = |mark| value.len() > 1 && value.starts_with(mark) && value.ends_with(mark);
        if quoted('"') || quoted('\'') {
            return Err(ConfigError(format!(
                "{name}: the value has quote characters around it, which count as part of it (a shell takes them \
                 away, a file of variables does not); write it without quotes"
            )));
        }
        self.one(name, &key.replace("__", ".").to_lowercase(), value)
    }

    /// A single value. Its text is read as what the default has there.
    fn one(&mut self, place: &str, key: &str, text: &str) -> Result<(), ConfigError> {
        let default = Value::from(self.known.clone()).find(key);
        let value = match default {
            Some(Value::Bool(..) | Value::Num(..)) => text.parse().unwrap_or_else(|_| Value::from(text)),
            Some(Value::Array(..)) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Value::from(items.map(Value::from).collect::<Vec<_>>())
            }
            _ => Value::from(text),
        };
        let Value::Dict(_, dict) = nest(key, value) else {
            return Err(ConfigError(format!("{place}: names no key")));
        };
        self.layer(place, dict)
    }

    fn layer(&mut self, place: &str, dict: Dict) -> Result<(), ConfigError> {
        if let Some(unknown) = UnknownKey::find(&dict, &self.known) {
            let (line, hint) = (self.places.line(place, &unknown.key), self.hint(&unknown, place));
            return Err(ConfigError(format!("{line}: unknown key `{}`; {hint}", unknown.key)));
        }
        text_value::check(&dict).map_err(|wrong| {
            ConfigError(format!("{}: {}", self.places.line(place, &wrong.key), wrong.text))
        })?;
        record_origins(&dict, "", place, &mut self.origins);
        self.figment = std::mem::take(&mut self.figment).merge(ConfigLayer("given", dict));
        Ok(())
    }

    /// The key that was probably meant, as `place` would name it.
    fn hint(&self, unknown: &UnknownKey, place: &str) -> String {
        let Some(path) = &unknown.meant else {
            return "`kith config` lists the keys that there are".to_owned();
        };
        if place.starts_with(PREFIX) {
            let is_section = matches!(Value::from(self.known.clone()).find(path), Some(Value::Dict(..)));
            let (name, key) = (path.replace('.', "__").to_uppercase(), if is_section { "__..." } else { "" });
            return format!("did you mean `{PREFIX}{name}{key}`?");
        }
        let section = unknown.key.rfind('.').map_or("", |end| &unknown.key[..=end]);
        format!("did you mean `{}`?", path.strip_prefix(section).unwrap_or(path))
    }

    /// Says what is wrong with a single value.
    fn describe(&self, error: &figment::Error) -> ConfigError {
        let path = error.path.join(".");
        let value = Value::from(self.known.clone()).find(&path).filter(value_error::is_shown);
        let given = value.and_then(|_| self.figment.find_value(&path).ok());
        ConfigError(format!(
            "{}: {path}: {}",
            self.place(&path),
            value_error::refused(&error.kind, given.as_ref())
        ))
    }

    /// Says what is wrong with values that can each be read.
    fn locate(&self, wrong: &InvalidValue) -> ConfigError {
        ConfigError(format!("{}: {}", self.place(wrong.key), wrong.text))
    }

    /// Where the value at this key came from: `kith.toml:3`, `KITH_LISTEN`, `--listen`, `default`.
    fn place(&self, path: &str) -> String {
        let origin = self.origins.get(path).map_or("default", String::as_str);
        self.places.line(origin, path)
    }
}

/// Whether there is no such file, as far as this user may see: a service is often started in another user's
/// folder.
fn is_absent(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => true,
        io::ErrorKind::PermissionDenied => {
            fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        }
        _ => false,
    }
}

fn defaults() -> Result<Dict, ConfigError> {
    match Value::serialize(Config::default()) {
        Ok(Value::Dict(_, dict)) => Ok(dict),
        Ok(_) | Err(_) => Err(ConfigError("the defaults cannot be read".to_owned())),
    }
}

/// Records the origin for every value under `dict`.
fn record_origins(dict: &Dict, above: &str, place: &str, origins: &mut BTreeMap<String, String>) {
    for (key, value) in dict {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            Value::Dict(_, inner) => record_origins(inner, &path, place, origins),
            _ => drop(origins.insert(path, place.to_owned())),
        }
    }
}

/// The values from one source.
struct ConfigLayer(&'static str, Dict);

impl Provider for ConfigLayer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.0)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.1.clone())]))
    }
}
