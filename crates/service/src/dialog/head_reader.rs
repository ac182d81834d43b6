//! Reads the ends of logs for read marks.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use kith_store::{ConversationId, LogHead, Seq};

use crate::error::Error;

/// Reads the ends of logs.
#[async_trait]
pub(crate) trait HeadReader: Send + Sync + fmt::Debug + 'static {
    /// Returns the heads of these logs, in their order, each with the headers of its last messages above a
    /// number.
    async fn heads(&self, asked: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, Error>;
}

/// The head of a log, with the headers of its last messages above a number.
#[derive(Clone, Debug)]
pub(crate) struct HeadAfter {
    pub(crate) after: Seq,
    pub(crate) head: Arc<LogHead>,
}
