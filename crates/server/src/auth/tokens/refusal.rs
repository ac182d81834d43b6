//! The rules for tokens. Each has the name that logs and `kith token check` use.

use std::fmt;

/// The rule that a token breaks. Callers get one text for every rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// It is too long.
    Size,
    /// It is not three base64url parts with JSON in the first two.
    Form,
    /// Its header lacks a field that every token has.
    Header,
    /// Its header names another token type.
    Type,
    /// Its header has extensions that have to be understood.
    Critical,
    /// A claim is there twice.
    Claims,
    /// No claim names its issuer.
    NoIssuer,
    /// No claim says for whom it is.
    NoAudience,
    /// No claim says when it expires.
    NoExpiry,
    /// No claim says when it was issued.
    NoIssueTime,
    /// No issuer with this name is configured.
    Issuer,
    /// The algorithm is none that its issuer has, or not the key's.
    Algorithm,
    /// Its issuer has no key with this id.
    Key,
    /// It is for others.
    Audience,
    /// It has expired.
    Expired,
    /// It was issued in the future.
    IssuedAhead,
    /// It is not valid yet.
    NotBefore,
    /// It is valid for longer than its issuer may make it.
    Lifetime,
    /// It names no user.
    User,
    /// The key has not signed it.
    Signature,
}

impl TokenRefusal {
    /// All rules, ordered like the variants.
    pub(crate) const ALL: [Self; 20] = [
        Self::Size,
        Self::Form,
        Self::Header,
        Self::Type,
        Self::Critical,
        Self::Claims,
        Self::NoIssuer,
        Self::NoAudience,
        Self::NoExpiry,
        Self::NoIssueTime,
        Self::Issuer,
        Self::Algorithm,
        Self::Key,
        Self::Audience,
        Self::Expired,
        Self::IssuedAhead,
        Self::NotBefore,
        Self::Lifetime,
        Self::User,
        Self::Signature,
    ];

    /// The rule's name in logs and commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.texts().0
    }

    /// The rule's name, and what is wrong with the token. Contains none of its values.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Size => ("size", "it is longer than 8192 bytes"),
            Self::Form => (
                "form",
                "it is not three parts of base64url, without padding, with JSON objects in the first two",
            ),
            Self::Header => {
                ("header", "its header lacks alg or kid, or has a field twice or of another type")
            }
            Self::Type => (
                "typ",
                "typ in its header is neither JWT nor at+jwt; take an access token, not one for something else",
            ),
            Self::Critical => ("crit", "its header has crit: extensions that a node does not know"),
            Self::Claims => ("claims", "a claim is there twice"),
            Self::NoIssuer => ("no_iss", "it has no claim iss, which is a text"),
            Self::NoAudience => ("no_aud", "it has no claim aud, which is a text or a list of texts"),
            Self::NoExpiry => ("no_exp", "it has no claim exp, which is a number of seconds since 1970"),
            Self::NoIssueTime => ("no_iat", "it has no claim iat, which is a number of seconds since 1970"),
            Self::Issuer => {
                ("iss", "no auth.issuers has an issuer that is its claim iss, character by character")
            }
            Self::Algorithm => {
                ("alg", "its alg is not one of the algorithms of its issuer, or not that of the key kid")
            }
            Self::Key => {
                ("kid", "its issuer has no key with its kid; look for the key in jwks_file or at jwks_url")
            }
            Self::Audience => ("aud", "its claim aud has none of the audience of its issuer"),
            Self::Expired => ("exp", "it has expired, for more than 30 s by the clock of this machine"),
            Self::IssuedAhead => {
                ("iat", "its claim iat is more than 30 s ahead of the clock of this machine")
            }
            Self::NotBefore => {
                ("nbf", "its claim nbf is no number, or more than 30 s ahead of the clock of this machine")
            }
            Self::Lifetime => ("lifetime", "from iat to exp is longer than lifetime_max of its issuer"),
            Self::User => (
                "user",
                "the claim that user_claim of its issuer names (sub by default) is no decimal id above 0",
            ),
            Self::Signature => ("signature", "the key kid of its issuer has not signed it"),
        }
    }
}

impl fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.texts().1)
    }
}

impl std::error::Error for TokenRefusal {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_rule_has_a_name_and_a_place_of_its_own() {
        let names: HashSet<_> = TokenRefusal::ALL.map(TokenRefusal::name).into_iter().collect();
        assert_eq!(names.len(), TokenRefusal::ALL.len());
        assert!(TokenRefusal::ALL.iter().enumerate().all(|(at, rule)| *rule as usize == at));
    }
}
