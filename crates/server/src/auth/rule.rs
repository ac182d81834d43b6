//! The contract's rules about who may call a method, as the edge checks them before the message is read.

use kith_proto::r#type::v1::{Access, Action, Users};
use kith_service::{
    error::{Error, Reason},
    rpc::{
        call::Principal,
        rights::{Rights, Scope, scope_missing},
    },
};

use super::scope::USER_RIGHTS;

/// The methods that a node calls on another node. Each can be repeated without harm.
const OF_NODES: [&str; 3] = ["InspectKey", "FlushMemory", "ReadCanary"];
const ADMIN: &str = "kith.admin.v1.AdminService";

/// Says which callers may use a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every client, without a credential.
    Open,
    /// Every caller, whatever its scopes.
    AnyCaller,
    /// The contract's rule applies.
    Contract(AccessRule),
}

/// The contract's rule for a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// The scopes that each caller needs.
    pub scope: Scope,
    /// The extra scope with which a caller may call for itself. `None`: no more than the first scope.
    pub own: Option<Scope>,
    /// The users for whom the call may be made.
    pub users: Users,
    /// Whether it changes something, or concerns secrets: users do this less often than they read.
    pub writes: bool,
    /// Whether other nodes call it.
    pub by_nodes: bool,
}

impl Rule {
    /// The rule for a method in this service. `None` if `access` leaves it open who may call.
    #[must_use]
    pub fn of(service: &str, method: &str, access: &Access) -> Option<Self> {
        let domain = service.split('.').nth(1)?;
        let (what, own) = match access.action() {
            Action::Unspecified => return None,
            Action::Read => ("read", true),
            Action::Write => ("write", true),
            Action::Secret => ("secret", true),
            Action::Import => ("import", false),
            Action::Export => ("export", false),
            Action::AdminRead => ("read", false),
            Action::AdminWrite => ("write", false),
        };
        let own = if own { Some(Scope::named(&format!("{domain}:own"))?) } else { None };
        let scope = Scope::named(&format!("{domain}:{what}"))?;
        let users = Some(access.users()).filter(|users| *users != Users::Unspecified)?;
        let by_nodes = service == ADMIN && OF_NODES.contains(&method);
        let writes = matches!(access.action(), Action::Write | Action::Secret);
        Some(Self::Contract(AccessRule { scope, own, users, writes, by_nodes }))
    }

    /// Whether a call changes something, or concerns secrets.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Contract(AccessRule { writes: true, .. }))
    }

    /// Whether a client without a credential may call.
    #[must_use]
    pub fn is_open(self) -> bool {
        self == Self::Open
    }

    /// Checks a call from a caller with these rights. Costs a few comparisons.
    ///
    /// # Errors
    /// SCOPE_MISSING, ACTING_USER_REFUSED, ACTING_USER_NEEDED, NOT_ALLOWED.
    pub fn check(self, rights: Rights, acting: Principal) -> Result<(), Error> {
        let Self::Contract(rule) = self else { return Ok(()) };
        if !rights.has(rule.scope) {
            return Err(scope_missing(rule.scope));
        }
        match acting {
            Principal::User(_) if !rights.has(Scope::Act) => Err(acting_user_refused()),
            Principal::User(_) if rule.users == Users::None => Err(rule.only_for_services(rights)),
            // No user could be named for it.
            Principal::Service if rule.users == Users::None => {
                rule.own_missing(rights).map_or(Ok(()), |own| Err(scope_missing(own)))
            }
            Principal::Service => rule.own_missing(rights).map_or(Ok(()), |own| Err(acting_user_needed(own))),
            Principal::User(_) => Ok(()),
        }
    }

    /// Checks a call that a user makes with its own token. `names_user`: whether it has `kith-acting-user`,
    /// which no such call may have: a user that could name another user would be that user.
    ///
    /// # Errors
    /// SCOPE_MISSING, ACTING_USER_REFUSED, NOT_ALLOWED.
    pub fn check_user(self, names_user: bool) -> Result<(), Error> {
        match self {
            Self::Contract(rule) if !USER_RIGHTS.has(rule.scope) => Err(scope_missing(rule.scope)),
            Self::Contract(_) | Self::AnyCaller if names_user => Err(user_names_user()),
            Self::Contract(rule) if rule.users == Users::None => {
                Err(Error::not_allowed("only services may do this, not users by their tokens"))
            }
            Self::Open | Self::AnyCaller | Self::Contract(_) => Ok(()),
        }
    }

    /// Checks a call from another node.
    ///
    /// # Errors
    /// NOT_ALLOWED.
    pub fn check_node(self) -> Result<(), Error> {
        match self {
            Self::Contract(rule) if !rule.by_nodes => {
                Err(Error::not_allowed("nodes do not call this method of each other"))
            }
            Self::Open | Self::AnyCaller | Self::Contract(_) => Ok(()),
        }
    }
}

impl AccessRule {
    /// The scope that a caller needs to call for itself, if it is missing from these rights.
    fn own_missing(&self, rights: Rights) -> Option<Scope> {
        self.own.filter(|own| !rights.has(*own))
    }

    /// Names everything that the caller has to change, or the next call would get another error.
    fn only_for_services(&self, rights: Rights) -> Error {
        let text = "only services may do this: kith-acting-user must be absent";
        match self.own_missing(rights) {
            None => Error::not_allowed(text),
            Some(own) => {
                let text = format!("{text}, and the caller needs the scope {own}");
                Error::new(Reason::NotAllowed, text).with("scope", own.text())
            }
        }
    }
}

fn acting_user_refused() -> Error {
    Error::new(
        Reason::ActingUserRefused,
        "the caller may not act for users: kith-acting-user must be absent, or the caller needs the scope act",
    )
}

fn user_names_user() -> Error {
    let text = "a user acts as itself: kith-acting-user must be absent";
    Error::new(Reason::ActingUserRefused, text)
}

fn acting_user_needed(own: Scope) -> Error {
    let text = format!(
        "kith-acting-user must name the user, because the caller does not have the scope {own}, to act for itself"
    );
    Error::new(Reason::ActingUserNeeded, text).with("scope", own.text())
}

#[cfg(test)]
mod tests {
    use kith_store::UserId;

    use super::*;

    fn rule(action: Action, users: Users) -> Rule {
        let access = Access { action: action.into(), users: users.into(), self_field: String::new() };
        Rule::of("kith.user.v1.UserService", "Any", &access).unwrap()
    }

    /// A caller that follows the first error must not get an error that says the contrary.
    #[test]
    fn errors_of_methods_for_services_name_the_scope() {
        let create = rule(Action::Write, Users::None);
        let rights = Rights::of(&[Scope::UserWrite, Scope::Act]);
        let user = Principal::User(UserId::new(7).unwrap());
        for (acting, expected) in [
            (Principal::Service, (Reason::ScopeMissing, "the caller does not have the scope user:own")),
            (
                user,
                (
                    Reason::NotAllowed,
                    "only services may do this: kith-acting-user must be absent, and the caller needs the scope user:own",
                ),
            ),
        ] {
            let error = create.check(rights, acting).unwrap_err();
            assert_eq!((error.reason(), tonic::Status::from(error.clone()).message()), expected);
        }
    }

    #[test]
    fn method_without_access_option_has_no_rule() {
        assert_eq!(Rule::of("kith.user.v1.UserService", "Any", &Access::default()), None);
        let action = Access { action: Action::Read.into(), ..Access::default() };
        assert_eq!(Rule::of("kith.user.v1.UserService", "Any", &action), None);
    }
}
