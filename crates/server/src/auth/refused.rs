//! The causes for which a call is refused before a handler sees it, for the log and the metric alone. Callers
//! get one text for all causes.

use std::sync::Arc;

use kith_service::{
    error::{Error, Reason},
    user::AccessDenial,
};
use kith_store::UserId;

use super::{Caller, Digest, KeyId, TokenRefusal};

/// Shorter texts are no keys. Their digest is not logged: they may be passwords, which can be guessed from
/// it.
const KEY_LEAST: usize = 32;

/// Why a credential, or a known caller's call, is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalCause {
    /// There is no credential.
    Missing,
    /// `authorization` has another form than `Bearer KEY`.
    Malformed,
    /// More than one credential.
    Several,
    /// A key that no caller has, or no longer.
    Unknown,
    /// A key that has expired.
    Expired,
    /// A user's token that breaks this rule.
    Token(TokenRefusal),
    /// The proof is not a node's proof for this call.
    NodeProof,
    /// The caller lacks the method's scope.
    Scope,
    /// The caller names a user, and lacks `act`.
    ActingUserRefused,
    /// The caller names no user, and lacks `own`.
    ActingUserNeeded,
    /// The method is not for users, or not for nodes.
    NotAllowed,
    /// The user is suspended.
    Suspended,
    /// The token was issued before its user was signed out or deleted.
    SignedOut,
}

impl RefusalCause {
    /// All causes, ordered by their places.
    pub(crate) const ALL: [Self; Self::OTHERS.len() + TokenRefusal::ALL.len()] = {
        let mut all = [Self::Missing; Self::OTHERS.len() + TokenRefusal::ALL.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = match at.checked_sub(Self::OTHERS.len()) {
                None => Self::OTHERS[at],
                Some(rule) => Self::Token(TokenRefusal::ALL[rule]),
            };
            at += 1;
        }
        all
    };

    /// All causes except those for tokens.
    const OTHERS: [Self; 12] = [
        Self::Missing,
        Self::Malformed,
        Self::Several,
        Self::Unknown,
        Self::Expired,
        Self::NodeProof,
        Self::Scope,
        Self::ActingUserRefused,
        Self::ActingUserNeeded,
        Self::NotAllowed,
        Self::Suspended,
        Self::SignedOut,
    ];

    /// The index in [`Self::ALL`].
    pub(crate) const fn place(self) -> usize {
        match self {
            Self::Missing => 0,
            Self::Malformed => 1,
            Self::Several => 2,
            Self::Unknown => 3,
            Self::Expired => 4,
            Self::NodeProof => 5,
            Self::Scope => 6,
            Self::ActingUserRefused => 7,
            Self::ActingUserNeeded => 8,
            Self::NotAllowed => 9,
            Self::Suspended => 10,
            Self::SignedOut => 11,
            Self::Token(rule) => Self::OTHERS.len() + rule as usize,
        }
    }

    /// The rule that a token breaks, as logs and `kith token check` name it.
    pub(crate) const fn rule(self) -> Option<&'static str> {
        if let Self::Token(rule) = self { Some(rule.name()) } else { None }
    }

    /// The name in logs and metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Several => "several",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Token(_) => "token",
            Self::NodeProof => "node_proof",
            Self::Scope => "scope",
            Self::ActingUserRefused => "acting_user_refused",
            Self::ActingUserNeeded => "acting_user_needed",
            Self::NotAllowed => "not_allowed",
            Self::Suspended => "suspended",
            Self::SignedOut => "signed_out",
        }
    }

    /// The cause for a rule's refusal of a known caller.
    const fn of_rule(reason: Reason) -> Self {
        match reason {
            Reason::ScopeMissing => Self::Scope,
            Reason::ActingUserRefused => Self::ActingUserRefused,
            Reason::ActingUserNeeded => Self::ActingUserNeeded,
            _ => Self::NotAllowed,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RefusedCall {
    /// The status that the caller gets.
    pub(crate) error: Error,
    pub(crate) cause: RefusalCause,
    /// The caller that has the key, or had it until it expired.
    pub(crate) caller: Option<Arc<Caller>>,
    /// Identifies the key that was given.
    pub(crate) key: Option<KeyId>,
    pub(crate) acting_user: Option<UserId>,
}

impl RefusedCall {
    /// The call has no credential.
    pub(crate) fn missing() -> Self {
        let error =
            Error::new(Reason::CredentialsMissing, "a key or a token is needed: authorization: Bearer KEY");
        Self { error, cause: RefusalCause::Missing, caller: None, key: None, acting_user: None }
    }

    /// The credential belongs to no caller.
    pub(crate) fn of(cause: RefusalCause) -> Self {
        Self { error: refused(), cause, ..Self::missing() }
    }

    /// A credential that no valid key is, with its digest; `expired` was valid before.
    pub(crate) fn of_key(credential: &[u8], digest: &Digest, expired: Option<Arc<Caller>>) -> Self {
        let key = (credential.len() >= KEY_LEAST).then(|| digest.key_id());
        let cause = if expired.is_some() { RefusalCause::Expired } else { RefusalCause::Unknown };
        Self { caller: expired, key, ..Self::of(cause) }
    }

    /// A user is not let in.
    pub(crate) fn by_access(denial: AccessDenial, user: UserId) -> Self {
        let cause = match denial {
            AccessDenial::Suspended => RefusalCause::Suspended,
            AccessDenial::SignedOut | AccessDenial::Deleted => RefusalCause::SignedOut,
        };
        Self { error: denial.error(), cause, acting_user: Some(user), ..Self::missing() }
    }

    /// A known caller, `None` for a node or an anonymous client, may not call the method.
    pub(crate) fn by_rule(error: Error, caller: Option<Arc<Caller>>, acting_user: Option<UserId>) -> Self {
        let key = caller.as_ref().map(|caller| caller.key);
        Self { cause: RefusalCause::of_rule(error.reason()), error, caller, key, acting_user }
    }
}

/// The credential belongs to no caller, or no longer does. The text is the same for every cause.
pub(crate) fn refused() -> Error {
    Error::new(Reason::CredentialsRefused, "the credential is not that of a caller or a user of this node")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_cause_has_a_name_and_a_place_of_its_own() {
        let names = RefusalCause::ALL.map(|cause| (cause.name(), cause.rule()));
        assert_eq!(names.into_iter().collect::<HashSet<_>>().len(), RefusalCause::ALL.len());
        assert!(RefusalCause::ALL.iter().enumerate().all(|(at, cause)| cause.place() == at));
    }

    #[test]
    fn what_is_too_short_for_a_key_is_not_named() {
        let named = |credential: &[u8]| RefusedCall::of_key(credential, &Digest::of(credential), None).key;
        assert_eq!(named(b"sesame"), None);
        let key = [b'k'; KEY_LEAST];
        assert_eq!(named(&key), Some(Digest::of(&key).key_id()));
    }
}
