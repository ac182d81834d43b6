//! A conversation's stored log.

use kith_proto::admin::v1::{
    InspectConversationRequest, InspectConversationResponse, admin_service_client::AdminServiceClient,
};
use serde::Serialize;

use crate::{
    client::Target,
    kind::rfc3339,
    output::{FIELD_AND_VALUE, Report},
};

/// A conversation's stored messages, without contents.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ConversationLog {
    /// Whether the group exists, or both users do.
    exists: bool,
    max_seq: i64,
    last_time: Option<String>,
    first_seq: i64,
    documents: i64,
    min_seq: i64,
    trim: bool,
}

/// Returns the first answer from these nodes; all read the same store.
pub(super) async fn first(
    targets: impl Iterator<Item = Target>,
    conversation_id: &str,
) -> Option<ConversationLog> {
    for target in targets {
        let Ok(channel) = target.connect().await else { continue };
        let request = InspectConversationRequest { conversation_id: conversation_id.to_owned() };
        let mut client = AdminServiceClient::new(channel);
        let answer = target.answer(client.inspect_conversation(target.request(request))).await;
        if let Ok(answer) = answer {
            return Some(answer.into_inner().into());
        }
    }
    None
}

impl From<InspectConversationResponse> for ConversationLog {
    fn from(found: InspectConversationResponse) -> Self {
        Self {
            exists: found.exists,
            max_seq: found.max_seq,
            last_time: rfc3339(found.last_time),
            first_seq: found.first_seq,
            documents: found.documents,
            min_seq: found.min_seq,
            trim: found.trim,
        }
    }
}

impl Report for ConversationLog {
    const COLUMNS: &'static [&'static str] = FIELD_AND_VALUE;

    fn rows(&self) -> Vec<Vec<String>> {
        let rows = [
            ("exists", self.exists.to_string()),
            ("max_seq", self.max_seq.to_string()),
            ("last_time", self.last_time.clone().unwrap_or_default()),
            ("first_seq", self.first_seq.to_string()),
            ("documents", self.documents.to_string()),
            ("min_seq", self.min_seq.to_string()),
            ("trim", self.trim.to_string()),
        ];
        rows.map(|(field, value)| vec![field.to_owned(), value]).to_vec()
    }
}
