//! Users between the wire and the domain. Raw numbers and strings do not pass this module.

use std::collections::BTreeSet;

use kith_proto::user::v1 as wire;
use kith_store::{
    Email, Gender, NewUser, Params, ParamsPatch, Phone, SecretChange, Text, User, UserId, UserName,
    UserPatch, single_line,
};

use super::UserRules;
use crate::{
    error::{Error, valid},
    rpc::{
        call::{Call, Principal},
        ids,
        params::{
            field_path, params, sees_param, shown_params, take_param, take_updated_secrets, unknown_path,
        },
        rights::Scope,
        secret::PlainSecrets,
        versions::wire_time,
    },
};

const NICK_NAME_CHARS_MAX: usize = 128;
const REGION_CHARS_MAX: usize = 128;
const AGE_MAX: u8 = 150;
/// The meaning of `*`.
const ALL_FIELDS: [&str; 9] =
    ["user_name", "nick_name", "email", "phone", "gender", "age", "region", "icon", "params"];

/// A user to be created, checked, before it has an id and before its secrets are hashed.
#[derive(Clone, Debug)]
pub(super) struct UserDraft {
    pub(super) id: Option<UserId>,
    pub(super) user_name: UserName,
    nick_name: Text,
    email: Option<Email>,
    phone: Option<Phone>,
    gender: Gender,
    age: u8,
    region: Text,
    icon: Text,
    params: Params,
}

impl UserDraft {
    /// Checks a user; secrets have been taken out of `params` before.
    pub(super) fn new(user: wire::User) -> Result<Self, Error> {
        Ok(Self {
            id: if user.user_id == 0 { None } else { Some(ids::user("user_id", user.user_id)?) },
            user_name: user_name(&user.user_name)?,
            nick_name: nick_name(&user.nick_name)?,
            email: email(&user.email)?,
            phone: phone(&user.phone)?,
            gender: gender(user.gender)?,
            age: age(user.age)?,
            region: region(&user.region)?,
            icon: icon(&user.icon)?,
            params: params(user.params)?,
        })
    }

    /// The user to be stored.
    pub(super) fn with(self, id: UserId, secrets: SecretChange) -> NewUser {
        let Self { user_name, nick_name, email, phone, gender, age, region, icon, params, .. } = self;
        NewUser { id, user_name, nick_name, email, phone, gender, age, region, icon, params, secrets }
    }
}

pub(super) fn user_name(name: &str) -> Result<UserName, Error> {
    valid("user_name", UserName::new(name))
}

/// The user as `viewer` may see it.
pub(super) fn to_wire(user: &User, viewer: Viewer, rules: &UserRules) -> wire::User {
    let contact = viewer.sees_contact(user.id);
    let shown = |text: &Text| if contact { text.to_string() } else { String::new() };
    wire::User {
        user_id: user.id.get(),
        user_name: user.user_name.to_string(),
        nick_name: user.nick_name.to_string(),
        email: shown(&user.email),
        phone: shown(&user.phone),
        gender: i32::from(user.gender as u8),
        age: i32::from(user.age),
        region: user.region.to_string(),
        icon: user.icon.to_string(),
        params: shown_params(&user.params, |name| viewer.sees_param(name, rules)),
        version: user.version.get(),
        create_time: Some(wire_time(user.created)),
        update_time: Some(wire_time(user.updated)),
    }
}

/// Views the users in an answer. The only place that decides about email and phone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewer {
    principal: Principal,
    contacts: bool,
    /// Whether a user itself looks.
    by_user: bool,
}

impl Viewer {
    /// The viewer for a call.
    pub(super) const fn of(call: Call) -> Self {
        let contacts = call.rights.has(Scope::UserContact);
        Self { principal: call.principal, contacts, by_user: call.is_user() }
    }

    /// Whether it sees the parameter with this name.
    pub(super) fn sees_param(self, name: &str, rules: &UserRules) -> bool {
        sees_param(name, self.by_user, &rules.secret_params, &rules.user_params)
    }

    /// Whether it sees this user's email and phone: each user sees its own, a service sees all if it has
    /// `user:contact`.
    pub(super) fn sees_contact(self, of: UserId) -> bool {
        match self.principal {
            Principal::Service => self.contacts,
            Principal::User(id) => id == of,
        }
    }
}

/// A checked change: the `user` fields that `paths` name. Secrets are separate: an empty secret is removed.
pub(super) fn patch(
    mut user: wire::User,
    paths: &[String],
    secret_names: &BTreeSet<String>,
) -> Result<(UserPatch, PlainSecrets), Error> {
    if paths.is_empty() {
        return Err(Error::invalid("update_mask", "must name a field"));
    }
    let secrets = take_updated_secrets(&mut user.params, paths, secret_names)?;
    let mut patch = UserPatch::default();
    for path in paths.iter().map(|path| field_path(path)) {
        match path.as_str() {
            "*" => ALL_FIELDS.iter().try_for_each(|field| take_field(&mut patch, &user, field))?,
            _ => match path.strip_prefix("params.") {
                Some(key) if secret_names.contains(key) => {}
                Some(key) => take_param(&mut patch.params, &user.params, key)?,
                None => take_field(&mut patch, &user, &path)?,
            },
        }
    }
    Ok((patch, secrets))
}

fn take_field(patch: &mut UserPatch, user: &wire::User, field: &str) -> Result<(), Error> {
    match field {
        "user_name" => patch.user_name = Some(user_name(&user.user_name)?),
        "nick_name" => patch.nick_name = Some(nick_name(&user.nick_name)?),
        "email" => patch.email = Some(email(&user.email)?),
        "phone" => patch.phone = Some(phone(&user.phone)?),
        "gender" => patch.gender = Some(gender(user.gender)?),
        "age" => patch.age = Some(age(user.age)?),
        "region" => patch.region = Some(region(&user.region)?),
        "icon" => patch.icon = Some(icon(&user.icon)?),
        "params" => {
            let set = params(user.params.clone())?;
            patch.params = ParamsPatch { replace: true, set, unset: BTreeSet::new() };
        }
        _ => return Err(unknown_path(&ALL_FIELDS)),
    }
    Ok(())
}

fn nick_name(given: &str) -> Result<Text, Error> {
    valid("nick_name", single_line(given, NICK_NAME_CHARS_MAX))
}

fn region(given: &str) -> Result<Text, Error> {
    valid("region", single_line(given, REGION_CHARS_MAX))
}

fn icon(given: &str) -> Result<Text, Error> {
    valid("icon", kith_store::icon(given))
}

fn email(given: &str) -> Result<Option<Email>, Error> {
    let checked = (!given.is_empty()).then(|| Email::new(given)).transpose();
    valid("email", checked)
}

fn phone(given: &str) -> Result<Option<Phone>, Error> {
    let checked = (!given.is_empty()).then(|| Phone::new(given)).transpose();
    valid("phone", checked)
}

fn gender(number: i32) -> Result<Gender, Error> {
    match wire::Gender::try_from(number) {
        Ok(wire::Gender::Unspecified) => Ok(Gender::Unspecified),
        Ok(wire::Gender::Female) => Ok(Gender::Female),
        Ok(wire::Gender::Male) => Ok(Gender::Male),
        Ok(wire::Gender::Other) => Ok(Gender::Other),
        Err(_) => Err(Error::invalid("gender", "must be a known value")),
    }
}

fn age(number: i32) -> Result<u8, Error> {
    let age = u8::try_from(number).ok().filter(|age| *age <= AGE_MAX);
    age.ok_or_else(|| Error::invalid("age", &format!("must be 0 to {AGE_MAX}")))
}
