//! Who makes a call, by what its headers prove.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use kith_service::{
    error::{Error, Reason},
    rpc::rights::{CallerId, Rights, Scope},
};
use kith_store::UserId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    callers::{Caller, Callers},
    scope::USER_RIGHTS,
};

/// Metadata of a call that another node makes: its proof.
pub(crate) const NODE_PROOF: &str = "kith-node";
const NODE: HeaderName = HeaderName::from_static(NODE_PROOF);
/// Longest credential that is looked up: keys have 63 characters.
const CREDENTIAL_BYTES_MAX: usize = 1024;
const SCHEME: &[u8] = b"bearer ";

/// Who makes a call.
#[derive(Clone, Debug)]
pub(crate) enum Principal {
    /// A client that proves nothing, on a node without callers: it may do everything.
    Anonymous,
    /// A configured caller.
    Caller(Arc<Caller>),
    /// A user, by a token of its own.
    User(Arc<User>),
    /// Another node of the cluster.
    Node,
}

/// A user, as its token proves it.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) id: UserId,
    /// From when on the token is refused. Streams of the user end then.
    pub(crate) ends: Instant,
    /// Cancelled when the key that signed the token is removed. Streams of the user end then.
    pub(crate) ended: CancellationToken,
}

impl Principal {
    pub(crate) fn rights(&self) -> Rights {
        match self {
            Self::Anonymous => Rights::ALL,
            Self::Caller(caller) => caller.rights,
            Self::User(_) => USER_RIGHTS,
            Self::Node => Rights::of(&[Scope::AdminRead, Scope::AdminWrite]),
        }
    }

    pub(crate) fn caller(&self) -> CallerId {
        match self {
            Self::Anonymous | Self::User(_) | Self::Node => CallerId::DEFAULT,
            Self::Caller(caller) => caller.id,
        }
    }
}

/// Whether a proof is that of another node which makes this call, as `SERVICE/METHOD`, of this one.
type VerifyNode = Box<dyn Fn(&HeaderValue, &str) -> bool + Send + Sync>;

/// Finds who makes a call.
pub(crate) struct Authentication {
    callers: Arc<Callers>,
    /// Set once the node knows the key of the nodes; never without a cluster.
    nodes: OnceLock<VerifyNode>,
}

impl Authentication {
    pub(crate) fn new(callers: Arc<Callers>) -> Self {
        Self { callers, nodes: OnceLock::new() }
    }

    /// Takes calls of nodes whose proof `verify` knows, from now on. A second call changes nothing.
    pub(crate) fn trust_nodes(&self, verify: impl Fn(&HeaderValue, &str) -> bool + Send + Sync + 'static) {
        self.nodes.get_or_init(|| Box::new(verify));
    }

    /// Who makes the call with these headers, of the method `SERVICE/METHOD`; `None` if it has no credential and needs one. Removes credentials from the
    /// headers: no handler sees them. Costs no allocation and no lock; with a key one SHA-256 and one lookup.
    ///
    /// # Errors
    /// CREDENTIALS_REFUSED: unknown, malformed, revoked, expired, or more than one. On a node without callers only a proof of
    /// a node can be refused.
    pub(crate) fn of(
        &self,
        headers: &mut HeaderMap,
        called: impl Fn() -> String,
    ) -> Result<Option<Principal>, Error> {
        let (proof, credential) = (Given::take(headers, NODE), Given::take(headers, header::AUTHORIZATION));
        let by_node = self.is_node(&proof, called)?;
        if self.callers.is_open() {
            return Ok(Some(if by_node { Principal::Node } else { Principal::Anonymous }));
        }
        match credential {
            Given::Nothing => Ok(by_node.then_some(Principal::Node)),
            Given::One(value) if !by_node => {
                let caller = bearer(&value).and_then(|credential| self.callers.find(credential));
                Ok(Some(Principal::Caller(caller.ok_or_else(refused)?)))
            }
            Given::One(_) | Given::Many => Err(refused()),
        }
    }

    fn is_node(&self, proof: &Given, called: impl Fn() -> String) -> Result<bool, Error> {
        match (proof, self.nodes.get()) {
            (Given::Nothing, _) => Ok(false),
            (Given::One(proof), Some(verify)) if verify(proof, &called()) => Ok(true),
            // A node that is one alone has no key of nodes; without callers the header means nothing to it.
            (_, None) if self.callers.is_open() => Ok(false),
            (Given::One(_) | Given::Many, _) => Err(refused()),
        }
    }
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication").field("callers", &self.callers).finish_non_exhaustive()
    }
}

/// The call has no credential.
pub(crate) fn missing() -> Error {
    Error::new(Reason::CredentialsMissing, "a key is needed: authorization: Bearer KEY")
}

/// The credential is not, or no longer, that of a caller. One text for every cause.
pub(crate) fn refused() -> Error {
    Error::new(Reason::CredentialsRefused, "the credential is not that of a caller of this node")
}

/// The values of a header.
enum Given {
    Nothing,
    One(HeaderValue),
    Many,
}

impl Given {
    /// Takes them out of the headers.
    fn take(headers: &mut HeaderMap, name: HeaderName) -> Self {
        let mut values = headers.get_all(&name).iter();
        // Most calls of an open node have neither header: one lookup each.
        if values.next().is_none() {
            return Self::Nothing;
        }
        let many = values.next().is_some();
        match headers.remove(name) {
            Some(value) if !many => Self::One(value),
            Some(_) | None => Self::Many,
        }
    }
}

/// The credential in the value of `authorization`; `None` if it has another form.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, credential) = value.as_bytes().split_at_checked(SCHEME.len())?;
    let formed = scheme.eq_ignore_ascii_case(SCHEME) && !credential.is_empty();
    (formed && credential.len() <= CREDENTIAL_BYTES_MAX).then_some(credential)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{CallerKey, Digest},
        *,
    };

    const KEY: &str = "kith_of_the_tests_0123456789abcdef";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn closed() -> Authentication {
        let rights = Rights::of(&[Scope::UserRead]);
        let digest = Digest::of(KEY.as_bytes());
        let key = CallerKey { name: "chat".to_owned(), rights, digest, made: None, expires: None };
        Authentication::new(Arc::new(Callers::new(vec![key])))
    }

    fn bearer_of(credential: &str) -> String {
        format!("Bearer {credential}")
    }

    #[test]
    fn a_key_finds_its_caller_and_is_removed() {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let mut headers = headers(&[("authorization", &format!("{scheme} {KEY}")), ("other", "1")]);
            let found = closed().of(&mut headers, String::new).unwrap().unwrap();
            assert_eq!(found.caller(), CallerId::of_name("chat"));
            assert_eq!(found.rights(), Rights::of(&[Scope::UserRead]));
            assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["other"]);
        }
    }

    #[test]
    fn malformed_and_unknown_credentials_are_refused_by_one_text() {
        let long = bearer_of(&"x".repeat(8193));
        let cut = bearer_of(&KEY[1..]);
        let doubled = bearer_of(&format!("{KEY}{KEY}"));
        let joined = bearer_of(&format!("{KEY}, {KEY}"));
        let trailing = bearer_of(&format!("{KEY} "));
        let spaced = format!("Bearer  {KEY}");
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Basic YW5uOg==",
            KEY,
            "Bearer \u{e9}",
            &long,
            &cut,
            &doubled,
            &joined,
            &trailing,
            &spaced,
        ] {
            let refused = closed().of(&mut headers(&[("authorization", wrong)]), String::new).unwrap_err();
            assert_eq!(refused, super::refused(), "{wrong:?}");
        }
    }

    #[test]
    fn two_credentials_are_refused() {
        let key = bearer_of(KEY);
        let twice = [("authorization", key.as_str()), ("authorization", key.as_str())];
        assert!(closed().of(&mut headers(&twice), String::new).is_err());
        let auth = closed();
        auth.trust_nodes(|proof, _| proof == "proof");
        let both = [("authorization", key.as_str()), ("kith-node", "proof")];
        assert!(auth.of(&mut headers(&both), String::new).is_err());
    }

    #[test]
    fn a_node_with_callers_needs_a_credential_and_one_without_takes_every_client() {
        assert!(closed().of(&mut headers(&[]), String::new).unwrap().is_none());
        let open = Authentication::new(Arc::new(Callers::open()));
        for given in [&[][..], &[("authorization", "Basic x"), ("authorization", "y"), ("kith-node", "z")]] {
            let mut headers = headers(given);
            assert!(matches!(open.of(&mut headers, String::new), Ok(Some(Principal::Anonymous))));
            assert!(headers.is_empty());
        }
    }

    #[test]
    fn a_proof_of_a_node_is_verified_with_and_without_callers() {
        for auth in [closed(), Authentication::new(Arc::new(Callers::open()))] {
            auth.trust_nodes(|proof, _| proof == "proof");
            let mut good = headers(&[("kith-node", "proof")]);
            assert!(matches!(auth.of(&mut good, String::new), Ok(Some(Principal::Node))));
            assert!(good.is_empty());
            assert!(auth.of(&mut headers(&[("kith-node", "other")]), String::new).is_err());
            assert!(
                auth.of(&mut headers(&[("kith-node", "proof"), ("kith-node", "proof")]), String::new)
                    .is_err()
            );
        }
        assert!(closed().of(&mut headers(&[("kith-node", "proof")]), String::new).is_err());
    }
}
