//! `docs/reference/authorization.md`.

use kith_proto::r#type::v1::Users;
use kith_server::{
    auth::{PRESETS, Preset, Rights, Rule, Scope, USER_RIGHTS},
    descriptors,
};
use prost_reflect::MethodDescriptor;

use super::markdown::{begin, code, definitions, ended, table};

const HEAD: &str = "\
Who may call what, on a node with configured callers. A caller proves itself by a key (`authorization: \
Bearer KEY`), and has scopes. A user proves itself by a token (`authorization: Bearer TOKEN`, or the hello \
of a socket), and acts as itself. On a node without callers each client is a service, and no scope is \
checked.

A call passes these checks in this order before it takes a slot of the node:

| check | error if it fails |
| --- | --- |
| The key is that of a caller, or the token that of a user. | `UNAUTHENTICATED`: \
[CREDENTIALS_MISSING](errors.md#credentials_missing), [CREDENTIALS_REFUSED](errors.md#credentials_refused) \
|
| The caller has the scope of the method. | `PERMISSION_DENIED`: [SCOPE_MISSING](errors.md#scope_missing) |
| With `kith-acting-user`: the caller has `act`, and is no user. | `PERMISSION_DENIED`: \
[ACTING_USER_REFUSED](errors.md#acting_user_refused) |
| With `kith-acting-user`, or as a user: the method is not for services only. | `PERMISSION_DENIED`: \
[NOT_ALLOWED](errors.md#not_allowed) |
| Without it: the caller has `own` of the domain. | `PERMISSION_DENIED`: \
[ACTING_USER_NEEDED](errors.md#acting_user_needed), or [SCOPE_MISSING](errors.md#scope_missing) where the \
method is for services only |
| The acting user is let in: neither suspended, nor signed out after its token was issued. | \
`PERMISSION_DENIED`: [USER_SUSPENDED](errors.md#user_suspended); `UNAUTHENTICATED`: \
[CREDENTIALS_REFUSED](errors.md#credentials_refused) |
| The acting user is the one that the self field names, and may do this to the record. | \
`PERMISSION_DENIED` or `NOT_FOUND`, as the method says |

Acting for users and acting for itself are separate rights: a caller that may only act for users, and names \
none, gets an error. No preset has both but `all`, and `signup` for users: a user who is being created \
cannot act yet.

Health is open to every client. Reflection, and the answer that a method does not exist, are for callers; \
over JSON a path that is no method is `404` to every client, because the contract is public. Other nodes of \
the cluster call InspectKey, FlushMemory and ReadCanary, by a proof of their own.

What a caller without `user:contact` gets of a user has neither email nor phone, unless the acting user is \
that user. A `request_id` is that of its caller, or of the user who itself calls: two of them may use the \
same one.

Users who call by a token do not read with `consistency.strong`, name at most 100 ids in a batch, and \
choose no trace (`traceparent`). They have [quotas](../guide/security.md#quotas-of-users).

";

const USERS: &str = "\
Behind each scope is for which acting users its methods may be called, with the self field if there is one. \
A caller that acts for itself passes each of them.

| users | allowed acting users |
| --- | --- |
| none | none: the method is for services |
| any | all |
| self | the one that the field names |
| object | as the record decides: its owner, members, a friend, a reader; with a field, that user alone |

";

const DOMAINS: &str = "\
`read` and `write` of a domain, such as `user:read`, allow its reads and its changes, and `own` calls about \
it without an acting user. Scopes of one method are above. The others:

";

pub(super) fn write() -> String {
    let text = begin("Authorization", "the options in `proto/` and `crates/server/src/auth/`") + HEAD;
    let text = text + "## Methods\n\n" + USERS + &definitions(methods());
    let text = text + "## Scopes\n\n" + DOMAINS + &definitions(scopes());
    let text = text + "## Presets\n\n" + &table(["preset", "for", "scopes"], &presets());
    ended(&(text + "## Users by tokens\n\nTheir scopes are fixed: " + &of_users() + ".\n"))
}

fn of_users() -> String {
    let Some(backend) = PRESETS.iter().find(|preset| preset.name == "backend") else { return String::new() };
    let left: Vec<_> = backend.rights.scopes().filter(|scope| !USER_RIGHTS.has(*scope)).collect();
    let left: Vec<_> = left.into_iter().map(|scope| code(scope.text())).collect();
    format!("those of {} without {}", code(backend.name), left.join(", "))
}

/// A row for the methods of a service that have the same rule: the rule, and their names.
fn methods() -> Vec<[String; 2]> {
    let Ok(pool) = descriptors::pool() else { return Vec::new() };
    let services = pool.services().filter(|service| service.full_name().starts_with("kith."));
    let mut rows: Vec<[String; 2]> = Vec::new();
    for method in services.flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let Some(rule) = rule(&method) else { continue };
        match rows.iter_mut().find(|[known, _]| *known == rule) {
            Some([_, methods]) => *methods += &format!(", {}", method.name()),
            None => rows.push([rule, method.name().to_owned()]),
        }
    }
    rows
}

/// The scope, the users and the self field of a method.
fn rule(method: &MethodDescriptor) -> Option<String> {
    let service = method.parent_service();
    let access = descriptors::access(method)?;
    let Rule::Contract(rule) = Rule::of(service.full_name(), method.name(), &access)? else { return None };
    let users = match rule.users {
        Users::Unspecified | Users::None => "none",
        Users::Any => "any",
        Users::Self_ => "self",
        Users::Object => "object",
    };
    let scope = code(rule.scope.text());
    Some(match code(&access.self_field).as_str() {
        "" => format!("{scope} ({users})"),
        field => format!("{scope} ({users}, {field})"),
    })
}

/// A row for each scope that is neither of a whole domain nor of one method.
fn scopes() -> Vec<[String; 2]> {
    let is_of_domain =
        |scope: &Scope| [":read", ":write", ":own"].iter().any(|end| scope.text().ends_with(end));
    let listed = Scope::ALL.into_iter().filter(|scope| !is_of_domain(scope) && scope.allows().contains(' '));
    listed.map(|scope| [code(scope.text()), scope.allows().to_owned()]).collect()
}

fn presets() -> Vec<[String; 3]> {
    let scopes = |rights: Rights| {
        let texts: Vec<_> = rights.scopes().map(|scope| code(scope.text())).collect();
        if rights == Rights::ALL { "every scope".to_owned() } else { texts.join(" ") }
    };
    let row = |(at, preset): (usize, &Preset)| {
        let base = PRESETS[..at].iter().rev().find(|base| extends(preset.rights, base.rights));
        let scopes = base.map_or_else(
            || scopes(preset.rights),
            |base| {
                let own = preset.rights.scopes().filter(|scope| !base.rights.has(*scope));
                let own: Vec<_> = own.map(|scope| code(scope.text())).collect();
                format!("those of {}, {}", code(base.name), own.join(" "))
            },
        );
        [code(preset.name), preset.purpose.to_owned(), scopes]
    };
    PRESETS.iter().enumerate().map(row).collect()
}

/// Whether these rights are the others with a few more.
fn extends(rights: Rights, others: Rights) -> bool {
    let more = rights.scopes().filter(|scope| !others.has(*scope)).count();
    rights != Rights::ALL && others.scopes().count() > more && others.scopes().all(|scope| rights.has(scope))
}
