//! What proves who calls: the key of a caller, or tokens of a user that are renewed in time.

use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use tokio::{sync::Mutex, time::Instant};
use tonic::Status;

/// Returns a token, and how long it is valid, as a sign-in does. The clock of the client does not matter.
pub(crate) type TokenSource =
    Box<dyn Fn() -> BoxFuture<'static, Result<(String, Duration), Status>> + Send + Sync>;

/// A key is held for ever, a token until it is renewed. The lock lets one call ask at a time.
#[derive(Default)]
pub(crate) struct Credential {
    pub(crate) source: Option<TokenSource>,
    pub(crate) held: Mutex<Option<(HeaderValue, Instant)>>,
}

impl Credential {
    /// The metadata of a call. `None`: without one.
    pub(crate) async fn metadata(&self) -> Result<Option<HeaderValue>, Status> {
        let mut held = self.held.lock().await;
        let is_over = held.as_ref().is_none_or(|(_, renew_at)| *renew_at <= Instant::now());
        if let Some(source) = self.source.as_ref().filter(|_| is_over) {
            let (token, expires_in) = source().await?;
            *held = Some((bearer(&token)?, Instant::now() + expires_in.mul_f64(0.8)));
        }
        Ok(held.as_ref().map(|(value, _)| value.clone()))
    }

    /// The next call asks for another token than that of a refused call.
    pub(crate) async fn drop_refused(&self, refused: &HeaderMap) {
        let refused = refused.get(AUTHORIZATION);
        self.held.lock().await.take_if(|(value, _)| self.source.is_some() && Some(&*value) == refused);
    }
}

/// The metadata of a credential. Its errors and its debug form do not show it.
pub(crate) fn bearer(credential: &str) -> Result<HeaderValue, Status> {
    let value = HeaderValue::try_from(format!("Bearer {}", credential.trim()));
    let mut value = value
        .map_err(|_| Status::invalid_argument("the credential has characters that no header may have"))?;
    value.set_sensitive(true);
    Ok(value)
}
