//! Parameters as callers send them: checked, and their secrets taken out.

use std::collections::{BTreeMap, BTreeSet};

use kith_store::{Invalid, Params, ParamsPatch};
use zeroize::Zeroizing;

use crate::{
    error::Error,
    secret::{PlainSecrets, check_secret},
};

/// Checks parameters that hold no secret any more.
///
/// # Errors
/// When a key or value is not allowed, or they are too many or too large.
pub fn params(map: BTreeMap<String, String>) -> Result<Params, Error> {
    Params::new(map).map_err(|why| Error::invalid("params", &why))
}

/// Parameters as answers show them: without those of these names, which may be in records that were stored before the names were
/// those of secrets.
#[must_use]
pub fn shown_params(params: &Params, secret_names: &BTreeSet<String>) -> BTreeMap<String, String> {
    let shown = params.iter().filter(|(key, _)| !secret_names.contains(*key));
    shown.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Takes the secrets that an update with these paths sets out of `map`. A secret that a path names and `map` lacks is removed
/// (empty). `*` and `params` set the secrets that are given, and leave the others.
///
/// # Errors
/// When one is too long.
pub fn take_updated_secrets(
    map: &mut BTreeMap<String, String>,
    paths: &[String],
    names: &BTreeSet<String>,
) -> Result<PlainSecrets, Error> {
    let mut secrets = take_secrets(map, names)?;
    let keys = paths.iter().filter_map(|path| path.strip_prefix("params."));
    let named: BTreeSet<&str> = keys.filter(|key| names.contains(*key)).collect();
    if !paths.iter().any(|path| path == "*" || path == "params") {
        secrets.retain(|name, _| named.contains(name.as_str()));
    }
    for name in named {
        secrets.entry(name.to_owned()).or_insert_with(|| Zeroizing::new(String::new()));
    }
    Ok(secrets)
}

/// Takes the parameters with these names out of `map`.
///
/// # Errors
/// When one is too long.
pub fn take_secrets(
    map: &mut BTreeMap<String, String>,
    names: &BTreeSet<String>,
) -> Result<PlainSecrets, Error> {
    let mut secrets = PlainSecrets::new();
    for name in names {
        if let Some(secret) = map.remove(name).map(Zeroizing::new) {
            check_secret(&secret).map_err(|why| Error::invalid(format!("params.{name}"), &why))?;
            secrets.insert(name.clone(), secret);
        }
    }
    Ok(secrets)
}

/// Sets the parameter `key` as given, or unsets it where it is not given.
///
/// # Errors
/// When no parameter can be called so, or its value is not allowed.
pub fn take_param(patch: &mut ParamsPatch, given: &BTreeMap<String, String>, key: &str) -> Result<(), Error> {
    Params::check_key(key).map_err(|why| Error::invalid("update_mask", &why))?;
    if patch.replace {
        return Ok(());
    }
    match given.get(key) {
        Some(value) => {
            let mut set = patch.set.to_map();
            set.insert(key.to_owned(), value.clone());
            patch.set = params(set)?;
        }
        None => {
            patch.unset.insert(key.to_owned());
        }
    }
    Ok(())
}

/// The error for a path that names no field that a caller may change.
#[must_use]
pub fn unknown_path() -> Error {
    Error::invalid("update_mask", &Invalid::new("must name fields that can be changed"))
}
