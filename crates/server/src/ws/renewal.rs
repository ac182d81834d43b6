//! The user who acts on a socket, and the frame that proves it once more.

use std::sync::Arc;

use serde::Deserialize;
use tokio::time::Instant;
use tonic::{Request, Status};

use super::hello::{object, refused};
use crate::auth::{identity::InProcessIdentity, user::User};

/// A socket's user, by its last proof.
#[derive(Clone, Debug)]
pub(super) struct ProvenUser {
    pub(super) user: Arc<User>,
    /// When it was proved: by the hello, or by the last renewal.
    pub(super) at: Instant,
}

impl ProvenUser {
    pub(super) fn now(user: Arc<User>) -> Self {
        Self { user, at: Instant::now() }
    }

    /// A request from this user.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.extensions_mut().insert(InProcessIdentity::User(Arc::clone(&self.user)));
        request
    }

    /// How long the token is valid, such as `599s`. It is a duration, so that the client's clock does not
    /// matter.
    pub(super) fn expires_in(&self) -> String {
        let left = self.user.ends.saturating_duration_since(Instant::now());
        format!("{}s", left.as_secs())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RenewalFields {
    credential: String,
}

/// Reads the token in a renewal. It is not proved. `trusted`: this node's users have no tokens.
///
/// # Errors
/// Says which field is wrong, without its value.
pub(super) fn token(text: &str, trusted: bool) -> Result<String, Box<Status>> {
    if trusted {
        return Err(refused(
            "renew.credential",
            "is not taken: sockets of this node name their user (ws.trusted)",
        ));
    }
    let fields: Option<RenewalFields> = object(text);
    let fields =
        fields.ok_or_else(|| refused("renew", "must be an object with the token of the user: credential"))?;
    Ok(fields.credential)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kith_store::UserId;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn renewal_has_a_token_alone() {
        assert_eq!(token(r#"{"credential":"a.b.c"}"#, false).unwrap(), "a.b.c");
        for wrong in
            ["{}", "7", r#"["x4929"]"#, r#"{"credential":4929}"#, r#"{"credential":"a","cursor":"x4929"}"#]
        {
            let error = token(wrong, false).unwrap_err().message().to_owned();
            assert!(error.starts_with("renew") && !error.contains("4929"), "{wrong}: {error}");
        }
        assert!(token(r#"{"credential":"a.b.c"}"#, true).unwrap_err().message().contains("ws.trusted"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_is_in_whole_seconds() {
        let ends = Instant::now() + Duration::from_millis(1_500);
        let user = User { id: UserId::new(7).unwrap(), issued: None, ends, ended: CancellationToken::new() };
        let proven = ProvenUser::now(Arc::new(user));
        assert_eq!(proven.expires_in(), "1s");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(proven.expires_in(), "0s");
    }
}
