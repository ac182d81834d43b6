//! Imports records that another node exported: members, settings for users,
//! dialogs and reactions. Their nodes say
//! whether a record is stored already.

use crate::client::Channel;
use futures::StreamExt as _;
use kith_proto::{
    member::v1::{ImportMember, ImportMembersRequest, member_service_client::MemberServiceClient},
    message::v1::{
        ImportDialog, ImportDialogsRequest, ImportMessage, ImportMessagesRequest,
        message_service_client::MessageServiceClient,
    },
    relation::v1::{ImportSettings, ImportSettingsRequest, relation_service_client::RelationServiceClient},
    r#type::v1::ImportResult,
};
use kith_server::json;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::kind::{Entry, Import, MessageStream};

/// Implements [`Import`] for records whose node answers `ID_TAKEN` only if the same record is stored.
macro_rules! moved {
    ($kind:ident, $name:literal, $record:ident, $request:ident, $client:ident, $call:ident) => {
        #[doc = concat!("The lines of `", $name, "`.")]
        #[derive(Debug)]
        pub(super) struct $kind;

        impl Import for $kind {
            const NAME: &'static str = $name;

            type Record = $record;

            fn read_line(&self, line: &[u8]) -> Result<Option<$record>, String> {
                json::record(Self::MESSAGE, line).map(Some)
            }

            async fn import(
                &self,
                channel: Channel,
                chunks: ReceiverStream<Vec<Entry<$record>>>,
            ) -> Result<MessageStream<Vec<ImportResult>>, Status> {
                let wire = |entry: Entry<$record>| $record { record: entry.number(), ..entry.record };
                let requests =
                    chunks.map(move |chunk| $request { records: chunk.into_iter().map(wire).collect() });
                let answers = $client::new(channel).$call(requests).await?.into_inner();
                Ok(answers.map(|answer| answer.map(|answer| answer.results)).boxed())
            }

            async fn are_stored(&self, _: Channel, sent: &[&$record]) -> Result<Vec<bool>, Status> {
                Ok(vec![true; sent.len()])
            }
        }
    };
}

moved!(Members, "members", ImportMember, ImportMembersRequest, MemberServiceClient, import_members);
moved!(Settings, "settings", ImportSettings, ImportSettingsRequest, RelationServiceClient, import_settings);
moved!(Dialogs, "dialogs", ImportDialog, ImportDialogsRequest, MessageServiceClient, import_dialogs);

moved!(Reactions, "reactions", ImportMessage, ImportMessagesRequest, MessageServiceClient, import_messages);

impl Members {
    /// The message in a line.
    pub(super) const MESSAGE: &'static str = "kith.member.v1.ImportMember";
}

impl Settings {
    /// The message in a line.
    pub(super) const MESSAGE: &'static str = "kith.relation.v1.ImportSettings";
}

impl Dialogs {
    /// The message in a line.
    pub(super) const MESSAGE: &'static str = "kith.message.v1.ImportDialog";
}

impl Reactions {
    /// The message in a line.
    pub(super) const MESSAGE: &'static str = "kith.message.v1.ImportMessage";
}
