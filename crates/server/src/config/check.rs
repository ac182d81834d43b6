//! Checks what a single value cannot say: secrets in files, and values that contradict each other.

use std::{fmt::Debug, fs, path::Path};

use kith_service::{
    invalid_value::{InvalidValue, above_zero, refuse},
    rpc::{answer_size::MESSAGE_BYTES_MAX, batch::USER_BATCH_IDS},
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
    config.receipts.check()?;
    config.sequences.check()?;
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
        ("limits.write_answer", limits.write_answer.is_zero()),
        ("limits.health_watches", limits.health_watches == 0),
        ("limits.health_watches_per_connection", limits.health_watches_per_connection == 0),
        ("limits.unread_bytes", limits.unread_bytes == 0),
        ("limits.unread_max", limits.unread_max.is_zero()),
        ("limits.connections", limits.connections == 0),
        ("limits.connection_idle", limits.connection_idle.is_zero()),
        ("limits.streams_per_connection", limits.streams_per_connection == 0),
        ("limits.batch_ids", limits.batch_ids == 0),
        ("limits.page_default", limits.page_default == 0),
        ("limits.import_records", limits.import_records == 0),
        ("limits.searches_per_minute", limits.searches_per_minute == 0),
        ("limits.tokens", limits.tokens == 0),
        ("limits.watchers", limits.watchers == 0),
        ("limits.deadline_default", limits.deadline_default.is_zero()),
        ("tls.read_again_every", config.tls.read_again_every.is_zero()),
        ("store.sqlite.readers", config.store.sqlite.readers == 0),
        ("store.sqlite.queue", config.store.sqlite.queue == 0),
        ("cache.loads_in_flight", config.cache.loads_in_flight == 0),
        ("ids.block", config.ids.block == 0),
        ("users.verify_tries_per_minute", config.users.verify_tries_per_minute == 0),
    ])
}

fn records_of_user(limits: &LimitsConfig) -> usize {
    usize::try_from(limits.user_records_per_minute).unwrap_or(usize::MAX)
}

fn bounds(config: &Config) -> Result<(), InvalidValue> {
    let (limits, cache) = (&config.limits, &config.cache);
    let (key, records) = ("limits.import_records", limits.import_records);
    must(
        records <= kith_proto::RECORDS_MAX,
        key,
        records,
        &format!("not be above {}", kith_proto::RECORDS_MAX),
    )?;
    must(
        !(1..USER_BATCH_IDS).contains(&records_of_user(limits)),
        "limits.user_records_per_minute",
        limits.user_records_per_minute,
        &format!("be 0, or at least {USER_BATCH_IDS}: a user may name as many records in one batch"),
    )?;
    not_above("limits.page_default", limits.page_default, "limits.page_max", limits.page_max)?;
    not_above(
        "limits.deadline_default",
        limits.deadline_default,
        "limits.deadline_max",
        limits.deadline_max,
    )?;
    if limits.unread_bytes_per_connection < MESSAGE_BYTES_MAX {
        let text = format!(
            "is {} bytes; it must not be below {MESSAGE_BYTES_MAX}, which one answer may have",
            limits.unread_bytes_per_connection
        );
        return refuse("limits.unread_bytes_per_connection", &text);
    }
    for (key, value) in [("cache.jitter", cache.jitter), ("cache.early_refresh", cache.early_refresh)] {
        if !(0.0..=1.0).contains(&value) {
            return refuse(key, &format!("is {value}; it must be between 0 and 1"));
        }
    }
    not_above("cache.load_soft", cache.load_soft, "cache.load_hard", cache.load_hard)
}

/// Makes sure that a value keeps its rule, which goes on after `it must`.
pub(super) fn must(
    is_kept: bool,
    key: &'static str,
    value: impl Debug,
    rule: &str,
) -> Result<(), InvalidValue> {
    if is_kept { Ok(()) } else { refuse(key, &format!("is {value:?}; it must {rule}")) }
}

/// Makes sure that a value is at most the value at another key.
pub(super) fn not_above<T: Copy + Debug + PartialOrd>(
    key: &'static str,
    value: T,
    other: &str,
    most: T,
) -> Result<(), InvalidValue> {
    must(value <= most, key, value, &format!("not be above {other}, {most:?}"))
}
