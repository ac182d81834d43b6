//! Caller rights: scopes, scope sets, and caller ids.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::error::{Error, Reason};

macro_rules! scopes {
    ($($scope:ident $text:literal $what:literal,)*) => {
        /// One caller right. Configurations, errors and documents use its text, such as `user:read`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Scope {
            $(#[doc = concat!("`", $text, "`: ", $what)] $scope,)*
        }

        impl Scope {
            /// Every scope, in the documents' order.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$scope),*];

            /// The text, such as `user:read`.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$scope => $text),* }
            }

            /// A short description.
            #[must_use]
            pub const fn allows(self) -> &'static str {
                match self { $(Self::$scope => $what),* }
            }
        }
    };
}

scopes! {
    UserRead "user:read" "reads of users",
    UserWrite "user:write" "changes of users",
    UserOwn "user:own" "calls about users without an acting user",
    UserSecret "user:secret" "VerifySecret",
    UserContact "user:contact" "email and phone of users in answers",
    UserImport "user:import" "ImportUsers",
    UserExport "user:export" "ExportUsers",
    GroupRead "group:read" "reads of groups",
    GroupWrite "group:write" "changes of groups",
    GroupOwn "group:own" "calls about groups without an acting user",
    GroupSecret "group:secret" "invite codes",
    GroupImport "group:import" "ImportGroups",
    GroupExport "group:export" "ExportGroups",
    RelationRead "relation:read" "reads of follows, friends and blocks",
    RelationWrite "relation:write" "changes of follows, friends and blocks",
    RelationOwn "relation:own" "calls about relations without an acting user",
    RelationImport "relation:import" "ImportFollows, ImportSettings",
    RelationExport "relation:export" "ExportSettings",
    MemberRead "member:read" "reads of members",
    MemberWrite "member:write" "changes of members",
    MemberOwn "member:own" "calls about members without an acting user",
    MemberImport "member:import" "ImportMembers",
    MemberExport "member:export" "ExportMembers",
    ApplicationRead "application:read" "reads of applications",
    ApplicationWrite "application:write" "changes of applications",
    ApplicationOwn "application:own" "calls about applications without an acting user",
    PresenceRead "presence:read" "reads of who is online",
    PresenceWrite "presence:write" "sessions and heartbeats",
    PresenceOwn "presence:own" "calls about presence without an acting user",
    MessageRead "message:read" "reads of messages and conversations",
    MessageWrite "message:write" "sending and changes of messages and conversations",
    MessageOwn "message:own" "calls about messages without an acting user",
    MessageImport "message:import" "ImportMessages, ImportDialogs",
    MessageExport "message:export" "ExportDialogs",
    NoticeRead "notice:read" "reads of notices",
    NoticeWrite "notice:write" "changes of notices",
    NoticeOwn "notice:own" "calls about notices without an acting user",
    ReceiptRead "receipt:read" "reads of receipts",
    ReceiptWrite "receipt:write" "changes of receipts",
    ReceiptOwn "receipt:own" "calls about receipts without an acting user",
    SequenceRead "sequence:read" "reads of sequences",
    SequenceWrite "sequence:write" "reservations of sequences",
    SequenceOwn "sequence:own" "calls about sequences without an acting user",
    ChangeExport "change:export" "reads of which records have changed",
    Act "act" "calls for any acting user",
    AdminRead "admin:read" "reads of AdminService",
    AdminWrite "admin:write" "changes by AdminService",
}

impl Scope {
    /// The scope with this text; `None` if there is none.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.text() == text)
    }

    const fn bit(self) -> u64 {
        1 << self as u8
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A scope set. Checking one scope is a single AND.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rights(u64);

impl Rights {
    /// The empty scope set.
    pub const NONE: Self = Self(0);
    /// All scopes: for the caller `default`, anonymous callers in open mode, and calls that Kith makes
    /// itself.
    pub const ALL: Self = Self::of(&Scope::ALL);

    /// The set of these scopes.
    #[must_use]
    pub const fn of(scopes: &[Scope]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < scopes.len() {
            bits |= scopes[at].bit();
            at += 1;
        }
        Self(bits)
    }

    /// Whether it contains this scope.
    #[must_use]
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The scopes, in the order of [`Scope::ALL`].
    pub fn scopes(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }
}

/// The error of a caller without a scope, which it names.
#[must_use]
pub fn scope_missing(scope: Scope) -> Error {
    Error::new(Reason::ScopeMissing, format!("the caller does not have the scope {scope}"))
        .with("scope", scope.text())
}

impl FromIterator<Scope> for Rights {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::NONE, |rights, scope| rights.and(Self::of(&[scope])))
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.scopes().map(Scope::text)).finish()
    }
}

/// A caller's id. Derived from the caller's name, so that it is the same on every node and after a restart;
/// no two callers on a node have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId(u32);

impl CallerId {
    /// The id of anonymous callers in open mode, of the caller [`Self::DEFAULT_NAME`], and of calls that Kith
    /// makes itself. So a node that gets its first key keeps its callers' data.
    pub const DEFAULT: Self = Self(0);
    /// The caller name for `api_key_file`.
    pub const DEFAULT_NAME: &str = "default";

    /// The id for the caller with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        if name == Self::DEFAULT_NAME {
            return Self::DEFAULT;
        }
        let digest = Sha256::digest(name);
        Self(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]).max(1))
    }

    /// The id as a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_scope_is_a_bit_and_a_text_of_its_own() {
        let texts: BTreeSet<_> = Scope::ALL.iter().map(|scope| scope.text()).collect();
        assert_eq!(texts.len(), Scope::ALL.len());
        for scope in Scope::ALL {
            assert_eq!(Scope::named(scope.text()), Some(scope));
            assert_eq!(Rights::of(&[scope]).scopes().collect::<Vec<_>>(), [scope]);
        }
        assert_eq!(Scope::named("user:"), None);
    }

    #[test]
    fn rights_hold_what_they_were_made_of() {
        let rights = Rights::of(&[Scope::UserRead, Scope::Act]);
        assert!(rights.has(Scope::Act) && !rights.has(Scope::UserOwn));
        assert!(Rights::ALL.scopes().eq(Scope::ALL) && Rights::NONE.scopes().next().is_none());
        assert_eq!(Rights::of(&[Scope::Act]).and(Rights::of(&[Scope::UserRead])), rights);
        assert_eq!(format!("{rights:?}"), r#"{"user:read", "act"}"#);
    }

    #[test]
    fn ids_of_callers_follow_from_their_names() {
        assert_eq!(CallerId::of_name("default"), CallerId::DEFAULT);
        assert_eq!(CallerId::of_name("chat"), CallerId::of_name("chat"));
        assert_ne!(CallerId::of_name("chat"), CallerId::of_name("chat-2"));
        assert_ne!(CallerId::of_name("chat"), CallerId::DEFAULT);
    }
}
