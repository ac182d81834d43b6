//! Parameters as callers send them: checked, and their secrets taken out.

use std::collections::{BTreeMap, BTreeSet};

use kith_store::{Params, ParamsPatch};
use zeroize::Zeroizing;

use crate::{
    error::{Error, valid},
    rpc::{
        call::Call,
        secret::{PlainSecrets, check_secret},
    },
};

/// Checks parameters after secrets were removed.
///
/// # Errors
/// If a key or value is not allowed, or they are too many or too large.
pub fn params(map: BTreeMap<String, String>) -> Result<Params, Error> {
    valid("params", Params::new(map))
}

/// Whether answers show the parameter with this name: none shows a secret, which records may contain from
/// before its name became a secret's, and a user who itself calls sees the parameters for users.
#[must_use]
pub fn sees_param(
    name: &str,
    by_user: bool,
    secrets: &BTreeSet<String>,
    for_users: &BTreeSet<String>,
) -> bool {
    !secrets.contains(name) && (!by_user || for_users.contains(name))
}

/// An answer's parameters: those whose names the caller sees.
#[must_use]
pub fn shown_params(params: &Params, sees: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let shown = params.iter().filter(|(key, _)| sees(key));
    shown.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Checks that a user who itself calls changes only parameters that are for users: in others services keep
/// what users must not set, as a role.
///
/// # Errors
/// PERMISSION_DENIED. A path to all parameters is refused too: it would remove those that the user does not
/// see.
pub fn check_user_paths(call: Call, paths: &[String], for_users: &BTreeSet<String>) -> Result<(), Error> {
    let refused = |path: &String| match field_path(path).as_str() {
        "*" | "params" => true,
        path => path.strip_prefix("params.").is_some_and(|name| !for_users.contains(name)),
    };
    if call.is_user() && paths.iter().any(refused) {
        let text = "only services may set this parameter, or all at once: users name params.KEY of one that is for users";
        return Err(Error::not_allowed(text));
    }
    Ok(())
}

/// Like [`check_user_paths`], but for the parameters of a record that the call creates.
///
/// # Errors
/// PERMISSION_DENIED.
pub fn check_user_params(
    call: Call,
    params: &BTreeMap<String, String>,
    for_users: &BTreeSet<String>,
) -> Result<(), Error> {
    if call.is_user() && params.keys().any(|name| !for_users.contains(name)) {
        return Err(Error::not_allowed("only services may set this parameter: it is not for users"));
    }
    Ok(())
}

/// Takes the secrets that an update with these paths sets out of `map`. A secret that a path names and `map`
/// lacks is removed (empty). `*` and `params` set the given secrets, and leave the others unchanged.
///
/// # Errors
/// If a secret is too long.
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
/// If a parameter is too long.
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

/// Sets the parameter `key`, or unsets it if no value is given.
///
/// # Errors
/// If the key or its value is not allowed.
pub fn take_param(patch: &mut ParamsPatch, given: &BTreeMap<String, String>, key: &str) -> Result<(), Error> {
    valid("update_mask", Params::check_key(key))?;
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

/// A mask's path as the contract writes it: its first part may be written as in JSON (`nickName`). The part
/// after a dot is a map's key, and is unchanged.
#[must_use]
pub fn field_path(path: &str) -> String {
    let (field, key) = path.split_once('.').map_or((path, None), |(field, key)| (field, Some(key)));
    let mut snake = String::with_capacity(path.len() + 4);
    for letter in field.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    if let Some(key) = key {
        snake.push('.');
        snake.push_str(key);
    }
    snake
}

/// The error for a path that names no field in `fields`, which a caller may change.
#[must_use]
pub fn unknown_path(fields: &[&str]) -> Error {
    let fields = fields.join(", ");
    Error::invalid("update_mask", &format!("must name fields out of {fields}, params.KEY, or be *"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_mask_is_read_in_both_cases() {
        for (given, path) in [
            ("nickName", "nick_name"),
            ("nick_name", "nick_name"),
            ("params.theKey", "params.theKey"),
            ("params.a_b", "params.a_b"),
            ("historyForNewMembers", "history_for_new_members"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(field_path(given), path);
        }
    }
}
