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
