//! Request ids, which make writes idempotent, and the digest that distinguishes bodies.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use kith_proto::IdentifiedRequest;
use kith_store::{Request, RequestId, Timestamp, Version, Write};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::{
    error::{Error, valid},
    rpc::{
        call::{Call, Principal},
        rights::CallerId,
        secret::{PlainSecrets, SecretHasher},
    },
};

/// A request id with its body's digest, before the body's secrets are included.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    id: RequestId,
    digest: Sha256,
}

impl IdempotencyKey {
    /// Creates the key from a message without its `request_id` and secrets, which were taken out. `None` if
    /// the caller gave no request id, at no cost. An id makes another key if it comes from another caller,
    /// from another user who itself calls, or from the acting user's other account.
    ///
    /// # Errors
    /// If the request id is invalid.
    pub fn of<R: IdentifiedRequest>(id: &str, call: Call, body: &R) -> Result<Option<Self>, Error> {
        if id.is_empty() {
            return Ok(None);
        }
        let id: RequestId = valid("request_id", id.parse())?;
        let id = match call.user_itself() {
            Some(user) => id.of_user(user),
            None if call.caller == CallerId::DEFAULT => id,
            None => id.of_caller(call.caller.get()),
        }
        .of_account(call.access.account);
        let principal = match call.principal {
            Principal::Service => 0,
            Principal::User(user) => user.get(),
        };
        let digest = Sha256::new()
            .chain_update(R::METHOD)
            .chain_update([0])
            .chain_update(principal.to_be_bytes())
            .chain_update(body.encode_to_vec());
        Ok(Some(Self { id, digest }))
    }

    /// Creates the key for a step that Kith itself takes for a record. Each repetition has the same key.
    #[must_use]
    pub fn of_step(record: &str, step: &'static str) -> Self {
        let id = RequestId::of_step(record, step);
        let digest = Sha256::new().chain_update(id.as_str());
        Self { id, digest }
    }

    /// The stored id: the caller's id, prefixed with the caller unless it is the default caller.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Returns the key for one of the request's several writes, identified by this short name. Its id is
    /// derived from the caller's, so that a repeated request has the same ids.
    #[must_use]
    pub fn part(&self, name: &str) -> Self {
        let of = Sha256::new().chain_update(name).chain_update([0]).chain_update(self.id.as_str()).finalize();
        let id = format!("part_{}", URL_SAFE_NO_PAD.encode(of));
        let digest = self.digest.clone().chain_update([0]).chain_update(name);
        Self { id: id.parse().unwrap_or_else(|_| self.id.clone()), digest }
    }

    /// Includes the secrets, as slow digests: the stored value must not help to guess them.
    ///
    /// # Errors
    /// INTERNAL if hashing fails.
    pub async fn finish(mut self, secrets: &PlainSecrets, hasher: &SecretHasher) -> Result<Request, Error> {
        for (name, secret) in secrets {
            self.digest.update(name);
            self.digest.update(hasher.digest(secret.clone(), self.id.as_str().to_owned()).await?);
        }
        Ok(Request { id: self.id, fingerprint: self.digest.finalize().into() })
    }
}

/// The conditions under which a record is written.
#[derive(Clone, Debug)]
pub struct WriteContext {
    /// The principal who acts.
    pub principal: Principal,
    /// The version that the record must have.
    pub expected: Option<Version>,
    /// The request id, which makes the write idempotent.
    pub seed: Option<IdempotencyKey>,
    /// When the caller stops waiting.
    pub deadline: Instant,
}

impl WriteContext {
    /// For a call that expects this version (0: any).
    ///
    /// # Errors
    /// If the version is below 0.
    pub fn of(call: Call, expected: i64, seed: Option<IdempotencyKey>) -> Result<Self, Error> {
        let Call { principal, deadline, .. } = call;
        Ok(Self { principal, expected: expected_version(expected)?, seed, deadline })
    }

    /// Like `of`, for a message whose `request_id` was taken out, and is `id`.
    ///
    /// # Errors
    /// If the version is below 0, or the request id is invalid.
    pub fn of_request<R: IdentifiedRequest>(id: &str, call: Call, body: &R) -> Result<Self, Error> {
        Self::of(call, body.expected_version(), IdempotencyKey::of(id, call, body)?)
    }

    /// A request's message, without its `request_id`, and the conditions that it names.
    ///
    /// # Errors
    /// The errors of [`Self::of_request`].
    pub(crate) fn open<R: IdentifiedRequest>(request: tonic::Request<R>) -> Result<(R, Self), Error> {
        let call = Call::of(&request);
        let mut message = request.into_inner();
        let id = message.take_request_id();
        let context = Self::of_request(&id, call, &message)?;
        Ok((message, context))
    }

    /// The parameters for a write that begins now.
    ///
    /// # Errors
    /// INTERNAL if hashing fails.
    pub async fn write(&self, hasher: &SecretHasher) -> Result<Write, Error> {
        self.write_with(&PlainSecrets::new(), hasher).await
    }

    /// Like `write`, for a record with these secrets, which were taken out of the message.
    ///
    /// # Errors
    /// INTERNAL if hashing fails.
    pub async fn write_with(&self, secrets: &PlainSecrets, hasher: &SecretHasher) -> Result<Write, Error> {
        let request = match self.seed.clone() {
            Some(seed) => Some(seed.finish(secrets, hasher).await?),
            None => None,
        };
        Ok(Write { expected: self.expected, request, now: Timestamp::now() })
    }
}

/// The version that a caller expects; 0: any.
///
/// # Errors
/// Below 0.
fn expected_version(number: i64) -> Result<Option<Version>, Error> {
    let why = || Error::invalid("expected_version", "must not be below 0");
    let version = Version::new(number).ok_or_else(why)?;
    Ok((version != Version::NONE).then_some(version))
}

#[cfg(test)]
mod tests {
    use kith_proto::member::v1::JoinRequest;
    use kith_store::UserId;

    use super::*;
    use crate::rpc::call::CallAccess;

    fn seed(id: &str, body: &str) -> IdempotencyKey {
        seed_of(CallerId::DEFAULT, id, body)
    }

    fn seed_of(caller: CallerId, id: &str, code: &str) -> IdempotencyKey {
        let call = Call { caller, ..Call::internal(Instant::now()) };
        let body = JoinRequest { code: code.to_owned(), ..JoinRequest::default() };
        IdempotencyKey::of(id, call, &body).unwrap().unwrap()
    }

    #[test]
    fn request_ids_of_callers_do_not_meet() {
        let [chat, jobs] = ["chat", "jobs"].map(|name| seed_of(CallerId::of_name(name), "a", "x"));
        assert_ne!(chat.id(), jobs.id());
        assert_ne!(chat.part("there").id(), jobs.part("there").id());
        assert!(chat.id().ends_with(":a"), "no caller can send a colon");
        assert_eq!(seed("a", "x").id(), "a", "ids that are stored already stay what they are");
    }

    #[test]
    fn request_ids_of_users_do_not_meet() {
        let of_user = |user, by_user| {
            let principal = Principal::User(UserId::new(user).unwrap());
            let call = Call { principal, by_user, ..Call::internal(Instant::now()) };
            IdempotencyKey::of("a", call, &JoinRequest::default()).unwrap().unwrap().id().to_owned()
        };
        assert_ne!(of_user(7, true), of_user(8, true));
        assert_ne!(of_user(7, true), of_user(7, false), "nor those of services");
        assert_eq!(of_user(7, false), of_user(8, false), "the ids of a service are its own");
    }

    #[test]
    fn request_ids_of_accounts_do_not_meet() {
        let of_account = |account, by_user| {
            let (principal, internal) =
                (Principal::User(UserId::new(7).unwrap()), Call::internal(Instant::now()));
            let access = CallAccess { account, ..CallAccess::default() };
            let call = Call { principal, by_user, access, ..internal };
            IdempotencyKey::of("a", call, &JoinRequest::default()).unwrap().unwrap().id().to_owned()
        };
        for by_user in [true, false] {
            assert_ne!(of_account(0, by_user), of_account(1, by_user));
            assert_ne!(of_account(1, by_user), of_account(2, by_user));
        }
        assert_eq!(of_account(0, true), "u7:a", "ids that are stored already stay what they are");
    }

    #[test]
    fn ids_of_parts_are_distinct_and_ignore_the_body() {
        let (one, other) = (seed("a", "x").part("there"), seed("a", "x").part("back"));
        assert_ne!(one.id(), other.id());
        assert_eq!(one.id(), seed("a", "y").part("there").id());
        assert_ne!(one.id(), seed("b", "x").part("there").id());
        assert_ne!(one.digest.finalize(), seed("a", "y").part("there").digest.finalize());
    }
}
