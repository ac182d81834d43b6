//! Lets operators inspect a stored conversation. Reads the store directly, not the caches.

use std::sync::Arc;

use kith_proto::admin::v1 as wire;
use kith_service::{error::Error, rpc::versions::wire_time};
use kith_store::{
    Conversation, ConversationId, ConversationStore, DOCUMENT, GroupStore, LogEnd, MessageStore, Seq,
    StoreError, Stored, Stores, UserStore, document_of,
};

/// Reads stored conversations for operators. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ConversationLogs {
    messages: Arc<dyn MessageStore>,
    conversations: Arc<dyn ConversationStore>,
    groups: Arc<dyn GroupStore>,
    users: Arc<dyn UserStore>,
}

impl ConversationLogs {
    pub(crate) fn new(stores: &Stores) -> Self {
        Self {
            messages: Arc::clone(&stores.messages),
            conversations: Arc::clone(&stores.conversations),
            groups: Arc::clone(&stores.groups),
            users: Arc::clone(&stores.users),
        }
    }

    /// Inspects one conversation. Reads no message content. Costs a few small store reads, and another each
    /// time the document count doubles.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn inspect(
        &self,
        id: ConversationId,
    ) -> Result<wire::InspectConversationResponse, Error> {
        self.read_log(id).await.map_err(|error| Error::store("conversation", &error))
    }

    async fn read_log(&self, id: ConversationId) -> Result<wire::InspectConversationResponse, StoreError> {
        let ids = [id];
        let (exists, records, ends) = tokio::try_join!(
            self.exists(id),
            self.conversations.conversations(&ids),
            self.messages.ends(&ids)
        )?;
        let record = records.first().copied().unwrap_or_else(|| Conversation::absent(id));
        let LogEnd { seq, sent } = ends.first().copied().unwrap_or_default();
        let first = if seq == 0 { 0 } else { self.first_seq(id, seq).await? };
        Ok(wire::InspectConversationResponse {
            exists,
            max_seq: seq,
            last_time: sent.map(wire_time),
            first_seq: first,
            documents: if seq == 0 { 0 } else { document_of(seq) - document_of(first) + 1 },
            min_seq: record.min_seq,
            trim: record.trim,
        })
    }

    async fn exists(&self, id: ConversationId) -> Result<bool, StoreError> {
        match id {
            ConversationId::Group(group) => Ok(matches!(self.groups.group(group).await?, Stored::Live(_))),
            ConversationId::Direct(one, other) => {
                let users = self.users.users(&[one, other]).await?;
                let is_live =
                    |id| users.iter().any(|(user, found)| *user == id && matches!(found, Stored::Live(_)));
                Ok(is_live(one) && is_live(other))
            }
            ConversationId::Offline(_) => Ok(false),
        }
    }

    /// The lowest stored number in a log that ends at `end`. Documents are removed from the front, so it is
    /// found by bisection.
    async fn first_seq(&self, id: ConversationId, end: Seq) -> Result<Seq, StoreError> {
        let first_of = |document: i64| document * DOCUMENT + 1;
        let (mut low, mut high) = (0, document_of(end));
        while low < high {
            let middle = low + (high - low) / 2;
            let is_stored = !self.messages.headers(id, first_of(middle), first_of(middle)).await?.is_empty();
            if is_stored { high = middle } else { low = middle + 1 }
        }
        Ok(first_of(low))
    }
}
