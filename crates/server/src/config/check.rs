//! Checks what a single value cannot say: secrets in files, and values that contradict each other.

use std::{fs, path::Path};

use kith_service::{
    invalid_value::{InvalidValue, above_zero, must, refuse},
    rpc::batch::USER_BATCH_IDS,
};

use super::{Backend, Config, LimitsConfig, Secret, value_error};

/// Reads secrets out of their files and checks values that belong together.
pub(super) fn complete(config: &mut Config) -> Result<(), InvalidValue> {
    let mongodb = &mut config.store.mongodb;
    from_file(
        ("store.mongodb.uri", "store.mongodb.uri_file"),
        &mut mongodb.uri,
        mongodb.uri_file.as_deref(),
    )?;
    let cql = &mut config.store.cql;
    let file = cql.password_file.as_deref();
    from_file(("store.cql.password", "store.cql.password_file"), &mut cql.password, file)?;
    let redis = &mut config.redis;
    from_file(("redis.url", "redis.url_file"), &mut redis.url, redis.url_file.as_deref())?;
    let secrets = &mut config.secrets;
    let file = secrets.invite_code_key_file.as_deref();
    let keys = ("secrets.invite_code_key", "secrets.invite_code_key_file");
    from_file(keys, &mut secrets.invite_code_key, file)?;
    listening(config)?;
    super::http::check(&config.http)?;
    super::ws::check(config)?;
    super::auth::check(config)?;
    super::cluster::check(config)?;
    super::observer::check(config)?;
    config.relations.check()?;
    config.members.check()?;
    config.presence.check()?;
    config.applications.check()?;
    config.messages.check()?;
    config.notices.check()?;
    config.changes.check()?;
    super::cql::check(config)?;
    store(config)?;
    invite_code_key(config)?;
    none_is_zero(config)?;
    bounds(config)
}

/// `keys` names the value's own key and its file's key.
fn from_file(
    keys: (&'static str, &'static str),
    secret: &mut Option<Secret>,
    file: Option<&Path>,
) -> Result<(), InvalidValue> {
    let (of_value, of_file) = keys;
    let Some(file) = file else { return Ok(()) };
    if secret.is_some() {
        return refuse(of_file, &format!("and {of_value} are both given; give one"));
    }
    let text = fs::read_to_string(file).map_err(|error| InvalidValue {
        key: of_file,
        text: value_error::unreadable(of_file, file, &error),
    })?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.trim().is_empty() {
        return refuse(
            of_file,
            &format!("names {}, which is empty; write the secret into it", file.display()),
        );
    }
    *secret = Some(Secret::new(text.to_owned()));
    Ok(())
}

fn listening(config: &Config) -> Result<(), InvalidValue> {
    let tls = &config.tls;
    match (&tls.cert_file, &tls.key_file) {
        (Some(_), None) => return refuse("tls.cert_file", "requires tls.key_file"),
        (None, Some(_)) => return refuse("tls.key_file", "requires tls.cert_file"),
        _ => {}
    }
    if config.is_reached_by_others() && tls.cert_file.is_none() && !config.insecure_listen {
        let text = format!(
            "{} can be reached by other machines, without TLS; set tls.cert_file and tls.key_file, or say \
             --insecure-listen",
            config.listen
        );
        return refuse("listen", &text);
    }
    Ok(())
}

fn store(config: &Config) -> Result<(), InvalidValue> {
    if config.store.backend == Backend::Cluster && config.store.mongodb.uri.is_none() {
        return refuse(
            "store.backend",
            "\"cluster\" needs to know where MongoDB is; set store.mongodb.uri or store.mongodb.uri_file",
        );
    }
    Ok(())
}

fn invite_code_key(config: &Config) -> Result<(), InvalidValue> {
    let secrets = &config.secrets;
    if secrets.invite_code_key.is_some() && secrets.invite_code_key_bytes().is_none() {
        return refuse(
            "secrets.invite_code_key",
            "must be 32 bytes in base64; make one: head -c 32 /dev/urandom | base64",
        );
    }
    Ok(())
}

fn none_is_zero(config: &Config) -> Result<(), InvalidValue> {
    let limits = &config.limits;
    above_zero(&[
        ("limits.message_bytes", limits.message_bytes == 0),
        ("limits.batch_message_bytes", limits.batch_message_bytes == 0),
        ("limits.in_flight", limits.in_flight == 0),
        ("limits.writes_in_flight", limits.writes_in_flight == 0),
        ("limits.connections", limits.connections == 0),
        ("limits.connection_idle", limits.connection_idle.is_zero()),
        ("limits.searches_per_minute", limits.searches_per_minute == 0),
        ("tls.read_again_every", config.tls.read_again_every.is_zero()),
        ("cache.loads_in_flight", config.cache.loads_in_flight == 0),
    ])
}

fn records_of_user(limits: &LimitsConfig) -> usize {
    usize::try_from(limits.user_records_per_minute).unwrap_or(usize::MAX)
}

fn bounds(config: &Config) -> Result<(), InvalidValue> {
    let limits = &config.limits;
    must(
        !(1..USER_BATCH_IDS).contains(&records_of_user(limits)),
        "limits.user_records_per_minute",
        limits.user_records_per_minute,
        &format!("be 0, or at least {USER_BATCH_IDS}: a user may name as many records in one batch"),
    )?;
    let least = limits.deadline_default;
    must(
        limits.deadline_max >= least,
        "limits.deadline_max",
        limits.deadline_max,
        &format!("not be below {least:?}, the deadline of a call without one"),
    )
}
