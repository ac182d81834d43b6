//! What a single value cannot say: secrets in files, and values that contradict each other.

use std::{fs, net::IpAddr, path::Path};

use super::{Backend, Config, ConfigError, Secret};

/// Reads secrets out of their files and looks at what belongs together.
pub(super) fn complete(config: &mut Config) -> Result<(), ConfigError> {
    let mongodb = &mut config.store.mongodb;
    from_file("store.mongodb.uri", &mut mongodb.uri, mongodb.uri_file.as_deref())?;
    let secrets = &mut config.secrets;
    let file = secrets.invite_code_key_file.as_deref();
    from_file("secrets.invite_code_key", &mut secrets.invite_code_key, file)?;
    listening(config)?;
    super::http::check(&config.http)?;
    store(config)?;
    invite_code_key(config)?;
    bounds(config)
}

fn wrong(text: impl Into<String>) -> Result<(), ConfigError> {
    Err(ConfigError(text.into()))
}

fn from_file(key: &str, secret: &mut Option<Secret>, file: Option<&Path>) -> Result<(), ConfigError> {
    let Some(file) = file else { return Ok(()) };
    if secret.is_some() {
        return wrong(format!("{key} and {key}_file are both given; give one"));
    }
    let text = fs::read_to_string(file)
        .map_err(|error| ConfigError(format!("{key}_file: {} cannot be read: {error}", file.display())))?;
    *secret = Some(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned()));
    Ok(())
}

fn listening(config: &Config) -> Result<(), ConfigError> {
    let tls = &config.tls;
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        return wrong("tls: cert_file and key_file belong together; one of them is missing");
    }
    let loopback = matches!(config.listen.ip(), ip if is_loopback(ip));
    if !loopback && tls.cert_file.is_none() && !config.insecure_listen {
        return wrong(format!(
            "listen: {} can be reached by other machines without TLS; set tls.cert_file and tls.key_file, or \
             say --insecure-listen",
            config.listen
        ));
    }
    Ok(())
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn store(config: &Config) -> Result<(), ConfigError> {
    if config.store.backend == Backend::Cluster && config.store.mongodb.uri.is_none() {
        return wrong(
            "store.backend is \"cluster\", which needs store.mongodb.uri or store.mongodb.uri_file",
        );
    }
    Ok(())
}

fn invite_code_key(config: &Config) -> Result<(), ConfigError> {
    let secrets = &config.secrets;
    if secrets.invite_code_key.is_some() && secrets.invite_code_key_bytes().is_none() {
        return wrong("secrets.invite_code_key must be 32 bytes in base64");
    }
    Ok(())
}

fn bounds(config: &Config) -> Result<(), ConfigError> {
    let limits = &config.limits;
    let above_zero = [
        ("limits.message_bytes", limits.message_bytes),
        ("limits.batch_message_bytes", limits.batch_message_bytes),
        ("limits.in_flight", limits.in_flight),
        ("limits.connections", limits.connections),
        ("limits.batch_ids", limits.batch_ids),
        ("limits.page_default", limits.page_default),
        ("limits.import_records", limits.import_records),
        ("limits.tokens", limits.tokens),
        ("store.sqlite.readers", config.store.sqlite.readers),
        ("store.sqlite.queue", config.store.sqlite.queue),
        ("cache.loads_in_flight", config.cache.loads_in_flight),
    ];
    if let Some((key, _)) = above_zero.into_iter().find(|(_, value)| *value == 0) {
        return wrong(format!("{key} must be above 0"));
    }
    if limits.streams_per_connection == 0
        || config.ids.block == 0
        || config.users.verify_tries_per_minute == 0
    {
        return wrong(
            "limits.streams_per_connection, ids.block and users.verify_tries_per_minute must be above 0",
        );
    }
    if limits.page_default > limits.page_max {
        return wrong("limits.page_default must not be above limits.page_max");
    }
    if limits.deadline_default > limits.deadline_max || limits.deadline_default.is_zero() {
        return wrong("limits.deadline_default must be above 0 and not above limits.deadline_max");
    }
    let part = |value: f64| (0.0..=1.0).contains(&value);
    if !part(config.cache.jitter) || !part(config.cache.early_refresh) {
        return wrong("cache.jitter and cache.early_refresh must be between 0 and 1");
    }
    if config.cache.load_soft > config.cache.load_hard {
        return wrong("cache.load_soft must not be above cache.load_hard");
    }
    Ok(())
}
