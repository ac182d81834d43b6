//! The session of one socket (`kith-session`), which all its calls continue.

use http::HeaderValue;
use parking_lot::Mutex;
use tonic::Status;

use super::hello::refused;
use crate::edge::Edge;

/// The writes and answers that a socket's calls have had.
#[derive(Debug)]
pub(super) struct SocketSession {
    edge: Edge,
    text: Mutex<String>,
}

impl SocketSession {
    /// Continues the session of a hello.
    ///
    /// # Errors
    /// If no node over this database answered it, or this node is starting.
    pub(super) fn begin(edge: &Edge, text: &str) -> Result<Self, Box<Status>> {
        let foreign = || refused("hello.session", "must be what answers of this database had");
        let text = Mutex::new(edge.joined_session(&[text])?.ok_or_else(foreign)?);
        Ok(Self { edge: edge.clone(), text })
    }

    /// The metadata of the next call.
    pub(super) fn metadata(&self) -> HeaderValue {
        HeaderValue::from_str(&self.text.lock()).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    /// Adds what an answer has, and returns the text for the client. Answers come in any order, and each
    /// covers its own call.
    pub(super) fn answered(&self, session: Option<&HeaderValue>) -> String {
        let mut text = self.text.lock();
        let session = session.and_then(|session| session.to_str().ok()).unwrap_or_default();
        if let Ok(Some(joined)) = self.edge.joined_session(&[&text, session]) {
            *text = joined;
        }
        text.clone()
    }
}
