//! Identifies the caller by what the call's headers prove.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use kith_service::rpc::rights::{CallerId, Rights, Scope};
use tokio::time::Instant;

use super::{
    callers::{Caller, Callers},
    key::{Digest, KeyId},
    refused::{RefusalCause, RefusedCall},
    scope::USER_RIGHTS,
    tokens::{self, TokenRefusal, Tokens, UnverifiedToken},
    user::User,
};

/// Metadata with the proof of a node, on calls that another node makes.
pub(crate) const NODE_PROOF: &str = "kith-node";
const NODE: HeaderName = HeaderName::from_static(NODE_PROOF);
/// Longest key that is looked up. Kith's keys have 63 characters.
const KEY_BYTES_MAX: usize = 1024;
const SCHEME: &[u8] = b"bearer ";
/// Header, claims and signature, with a dot between them.
const TOKEN_PARTS: usize = 3;

/// The party that makes a call.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// A client that proves nothing, on a node without callers: it may do everything.
    Anonymous,
    /// A configured caller.
    Caller(Arc<Caller>),
    /// A user, identified by its own token.
    User(Arc<User>),
    /// Another node in the cluster.
    Node,
}

/// The maker of a call from inside this process, such as a socket. It is put into the request's extensions,
/// which no peer can do.
#[derive(Clone, Debug)]
pub(crate) enum InProcessIdentity {
    User(Arc<User>),
}

/// The result when the edge looks up who makes a call.
pub(crate) enum IdentityLookup {
    Identity(Identity),
    /// A user, if the token's signature is right.
    Token(UnverifiedToken),
}

impl Identity {
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

    /// The name in the log, and the id of the key that was given. No caller can have a name with brackets.
    pub(crate) fn name(&self) -> (&str, Option<KeyId>) {
        match self {
            Self::Anonymous => ("(anonymous)", None),
            Self::Node => ("(node)", None),
            Self::User(_) => ("(user)", None),
            Self::Caller(caller) => (&caller.name, Some(caller.key)),
        }
    }

    /// `None`: it is not a configured caller.
    pub(crate) const fn configured(&self) -> Option<&Arc<Caller>> {
        match self {
            Self::Caller(caller) => Some(caller),
            Self::Anonymous | Self::User(_) | Self::Node => None,
        }
    }
}

/// Decides whether a proof shows that another node makes this call, given as `SERVICE/METHOD`, to this node.
type VerifyNode = Box<dyn Fn(&HeaderValue, &str) -> bool + Send + Sync>;

/// Finds who makes a call.
pub(crate) struct Authentication {
    callers: Arc<Callers>,
    tokens: Arc<Tokens>,
    /// Set once the node knows the key that all nodes share. Never set without a cluster.
    nodes: OnceLock<VerifyNode>,
}

impl Authentication {
    pub(crate) fn new(callers: Arc<Callers>, tokens: Arc<Tokens>) -> Self {
        Self { callers, tokens, nodes: OnceLock::new() }
    }

    /// Whether every client is served.
    pub(crate) fn is_open(&self) -> bool {
        self.callers.is_open()
    }

    /// From now on, takes calls from nodes whose proof `verify` accepts. A second call changes nothing.
    pub(crate) fn trust_nodes(&self, verify: impl Fn(&HeaderValue, &str) -> bool + Send + Sync + 'static) {
        self.nodes.get_or_init(|| Box::new(verify));
    }

    /// Identifies the caller by these headers, for the method `SERVICE/METHOD`. Returns `None` if the call
    /// has no credential and needs one. Removes credentials from the headers: no handler sees them. Costs no
    /// allocation and no lock with a key: one SHA-256 and one lookup. A token that was verified before costs
    /// a second lookup, behind a lock.
    ///
    /// # Errors
    /// CREDENTIALS_REFUSED: unknown, malformed, revoked, expired, or more than one. On a node without callers
    /// only a node's proof can be refused.
    pub(crate) fn identify(
        &self,
        headers: &mut HeaderMap,
        now: Instant,
        called: impl Fn() -> String,
    ) -> Result<Option<IdentityLookup>, RefusedCall> {
        let (proof, credential) =
            (HeaderValues::remove(headers, NODE), HeaderValues::remove(headers, header::AUTHORIZATION));
        let by_node = self.is_node(&proof, called)?;
        let node = IdentityLookup::Identity(Identity::Node);
        if self.callers.is_open() {
            return Ok(Some(if by_node { node } else { IdentityLookup::Identity(Identity::Anonymous) }));
        }
        match credential {
            HeaderValues::Nothing => Ok(by_node.then_some(node)),
            HeaderValues::One(value) if !by_node => {
                let credential = bearer(&value).ok_or_else(|| RefusedCall::of(RefusalCause::Malformed))?;
                self.find(credential, now).map(Some)
            }
            HeaderValues::One(_) | HeaderValues::Many => Err(RefusedCall::of(RefusalCause::Several)),
        }
    }

    /// Identifies a call from inside this process.
    ///
    /// # Errors
    /// CREDENTIALS_REFUSED if the user's token is no longer taken.
    pub(crate) fn in_process(by: InProcessIdentity, now: Instant) -> Result<Identity, RefusedCall> {
        match by {
            InProcessIdentity::User(user) if user.ends <= now => {
                Err(RefusedCall::of(RefusalCause::Token(TokenRefusal::Expired)))
            }
            InProcessIdentity::User(user) if user.ended.is_cancelled() => {
                Err(RefusedCall::of(RefusalCause::Token(TokenRefusal::Key)))
            }
            InProcessIdentity::User(user) => Ok(Identity::User(user)),
        }
    }

    /// Finds the user by its token. Waits while other tokens are verified.
    ///
    /// # Errors
    /// CREDENTIALS_REFUSED, also for a key, which belongs to no user.
    pub(crate) async fn user(&self, token: &str) -> Result<Arc<User>, RefusedCall> {
        let token = token.as_bytes();
        let found = self.tokens.find(token, Digest::of(token), Instant::now());
        let refused = |rule| RefusedCall::of(RefusalCause::Token(rule));
        match found.map_err(refused)? {
            tokens::TokenLookup::User(user) => Ok(user),
            tokens::TokenLookup::Unverified(unverified) => unverified.verify().await.map_err(refused),
        }
    }

    /// A caller by its key, or a user by its token. Keys and tokens take one way to the point where a key is
    /// known.
    fn find(&self, credential: &[u8], now: Instant) -> Result<IdentityLookup, RefusedCall> {
        if credential.len() > tokens::TOKEN_BYTES_MAX {
            let token = RefusalCause::Token(TokenRefusal::Size);
            return Err(RefusedCall::of(if is_token(credential) { token } else { RefusalCause::Malformed }));
        }
        let digest = Digest::of(credential);
        let caller = (credential.len() <= KEY_BYTES_MAX).then(|| self.callers.find_digest(&digest)).flatten();
        if let Some(caller) = caller {
            return Ok(IdentityLookup::Identity(Identity::Caller(caller)));
        }
        match self.tokens.find(credential, digest, now) {
            Ok(tokens::TokenLookup::User(user)) => Ok(IdentityLookup::Identity(Identity::User(user))),
            Ok(tokens::TokenLookup::Unverified(unverified)) => Ok(IdentityLookup::Token(unverified)),
            Err(TokenRefusal::Form) => Err(self.refused_by_form(credential, &digest)),
            Err(rule) => Err(RefusedCall::of(RefusalCause::Token(rule))),
        }
    }

    /// Refuses a credential that is no valid key and no token that can be read. If it has a token's three
    /// parts and never was a key, it is counted with tokens, as on a socket.
    fn refused_by_form(&self, credential: &[u8], digest: &Digest) -> RefusedCall {
        let expired = self.callers.expired(digest);
        if expired.is_none() && is_token(credential) {
            return RefusedCall::of(RefusalCause::Token(TokenRefusal::Form));
        }
        RefusedCall::of_key(credential, digest, expired)
    }

    fn is_node(&self, proof: &HeaderValues, called: impl Fn() -> String) -> Result<bool, RefusedCall> {
        match (proof, self.nodes.get()) {
            (HeaderValues::Nothing, _) => Ok(false),
            (HeaderValues::One(proof), Some(verify)) if verify(proof, &called()) => Ok(true),
            // A node in single-node mode has no node key. Without callers it ignores the header.
            (_, None) if self.callers.is_open() => Ok(false),
            (HeaderValues::One(_) | HeaderValues::Many, _) => Err(RefusedCall::of(RefusalCause::NodeProof)),
        }
    }
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication").field("callers", &self.callers).finish_non_exhaustive()
    }
}

/// Whether the text has a token's three parts.
fn is_token(credential: &[u8]) -> bool {
    credential.split(|byte| *byte == b'.').count() == TOKEN_PARTS
}

/// A header's values.
enum HeaderValues {
    Nothing,
    One(HeaderValue),
    Many,
}

impl HeaderValues {
    /// Removes the header and returns its values.
    fn remove(headers: &mut HeaderMap, name: HeaderName) -> Self {
        let mut values = headers.get_all(&name).iter();
        // Most calls to an open node have neither header: one lookup each.
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

/// The credential in an `authorization` value. `None` if it has another form.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, credential) = value.as_bytes().split_at_checked(SCHEME.len())?;
    (scheme.eq_ignore_ascii_case(SCHEME) && !credential.is_empty()).then_some(credential)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{super::CallerKey, *};

    type Lookup = Result<Option<IdentityLookup>, RefusedCall>;

    const KEY: &str = "kith_of_the_tests_0123456789abcdef";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    /// The identity by these headers, and those that are left.
    fn identity(auth: &Authentication, pairs: &[(&'static str, &str)]) -> (Lookup, HeaderMap) {
        let mut headers = headers(pairs);
        (auth.identify(&mut headers, Instant::now(), String::new), headers)
    }

    fn authentication(callers: Callers) -> Authentication {
        Authentication::new(Arc::new(callers), Arc::new(Tokens::none()))
    }

    fn closed() -> Authentication {
        let rights = Rights::of(&[Scope::UserRead]);
        let digest = Digest::of(KEY.as_bytes());
        let key = CallerKey { name: "chat".to_owned(), rights, digest, made: None, expires: None };
        authentication(Callers::new(vec![key]))
    }

    fn bearer_of(credential: &str) -> String {
        format!("Bearer {credential}")
    }

    #[test]
    fn a_key_finds_its_caller_and_is_removed() {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let credential = format!("{scheme} {KEY}");
            let (found, left) = identity(&closed(), &[("authorization", &credential), ("other", "1")]);
            let IdentityLookup::Identity(found) = found.unwrap().unwrap() else { panic!("it is no token") };
            assert_eq!(found.caller(), CallerId::of_name("chat"));
            assert_eq!(found.rights(), Rights::of(&[Scope::UserRead]));
            assert_eq!(left.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["other"]);
        }
    }

    #[test]
    fn refusal_cause_and_key_are_only_logged() {
        let expired = CallerKey {
            name: "jobs".to_owned(),
            rights: Rights::NONE,
            digest: Digest::of(KEY.as_bytes()),
            made: None,
            expires: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1)),
        };
        let expired = authentication(Callers::new(vec![expired]));
        let other = KEY.replace("tests", "other");
        let why = |auth: &Authentication, value: &str| {
            let refused = identity(auth, &[("authorization", value)]).0.err().unwrap();
            (refused.cause, refused.key, refused.caller.map(|caller| caller.name.to_string()))
        };
        let id = |key: &str| Some(Digest::of(key.as_bytes()).key_id());
        assert_eq!(why(&expired, &bearer_of(KEY)), (RefusalCause::Expired, id(KEY), Some("jobs".to_owned())));
        assert_eq!(why(&closed(), &bearer_of(&other)), (RefusalCause::Unknown, id(&other), None));
        assert_eq!(why(&closed(), "Basic YW5uOg=="), (RefusalCause::Malformed, None, None));
        assert_eq!(why(&closed(), &bearer_of("hunter2")), (RefusalCause::Unknown, None, None));
        for (value, cause) in [
            ("a.b.c", RefusalCause::Token(TokenRefusal::Form)),
            ("a.b", RefusalCause::Unknown),
            ("a.b.c.d", RefusalCause::Unknown),
        ] {
            assert_eq!(why(&closed(), &bearer_of(value)), (cause, None, None));
        }
    }

    #[test]
    fn callers_require_a_credential() {
        assert!(identity(&closed(), &[]).0.unwrap().is_none());
        let open = authentication(Callers::open());
        for given in [&[][..], &[("authorization", "Basic x"), ("authorization", "y"), ("kith-node", "z")]] {
            let (found, left) = identity(&open, given);
            assert!(matches!(found, Ok(Some(IdentityLookup::Identity(Identity::Anonymous)))));
            assert!(left.is_empty());
        }
    }

    #[test]
    fn node_proof_is_verified_without_callers_too() {
        for auth in [closed(), authentication(Callers::open())] {
            auth.trust_nodes(|proof, _| proof == "proof");
            let (found, left) = identity(&auth, &[("kith-node", "proof")]);
            assert!(matches!(found, Ok(Some(IdentityLookup::Identity(Identity::Node)))));
            assert!(left.is_empty());
            assert!(identity(&auth, &[("kith-node", "other")]).0.is_err());
            assert!(identity(&auth, &[("kith-node", "proof"), ("kith-node", "proof")]).0.is_err());
        }
        assert!(identity(&closed(), &[("kith-node", "proof")]).0.is_err());
    }
}
