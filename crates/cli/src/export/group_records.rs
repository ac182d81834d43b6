//! Reads all that a node stores about one group, besides its record, and where a conversation begins.

use kith_proto::{
    application::v1::{Kind, ListApplicationsRequest, ListedApplication, list_applications_request::List},
    member::v1::{
        CountMembersRequest, ExportMembersRequest, ImportMember, ListBansRequest, MuteGroupRequest,
        member_service_client::MemberServiceClient,
    },
    message::v1::{
        Message, MessageKind, PullMessagesRequest, TrimConversationRequest,
        message_service_client::MessageServiceClient,
    },
};
use tonic::Status;

use crate::{
    applications::is_pending,
    client::Channel,
    kind::{Export as _, strong, with_long_deadline},
    messages::ConversationMessages,
    proto_lines::{PAGE, again, list},
    states::State,
};

/// The members, former members and bans of a group.
pub(super) struct GroupRecords {
    /// Members by rising ordinal, then bans.
    pub(super) records: Vec<ImportMember>,
    /// The request that mutes the group as it is.
    pub(super) mute: Option<MuteGroupRequest>,
}

/// Reads everything about a group's members.
pub(super) async fn read(channel: &Channel, group_id: i64) -> Result<GroupRecords, Status> {
    let request = ExportMembersRequest { group_id, page_size: PAGE, ..ExportMembersRequest::default() };
    let mut members = list(channel, request).await?;
    members.sort_unstable_by_key(|record| record.member.as_ref().map_or(0, |member| member.ordinal));
    let request = ListBansRequest { group_id, page_size: PAGE, ..ListBansRequest::default() };
    let bans = list(channel, request).await?;
    let members =
        members.into_iter().map(|one| ImportMember { member: Some(one), ..ImportMember::default() });
    let bans = bans.into_iter().map(|one| ImportMember { ban: Some(one), ..ImportMember::default() });
    Ok(GroupRecords { records: members.chain(bans).collect(), mute: mute(channel, group_id).await? })
}

async fn mute(channel: &Channel, group_id: i64) -> Result<Option<MuteGroupRequest>, Status> {
    let call = || {
        let mut members = MemberServiceClient::new(channel.clone());
        let request = with_long_deadline(CountMembersRequest { group_id, consistency: strong() });
        async move { members.count_members(request).await }
    };
    let roster = again(call).await?.into_inner().roster.unwrap_or_default();
    let mute = |time| MuteGroupRequest { group_id, mute_time: Some(time), request_id: String::new() };
    Ok(roster.mute_time.map(mute))
}

/// The pending requests to join a group.
pub(super) async fn applications(channel: &Channel, group: i64) -> Result<Vec<ListedApplication>, Status> {
    let request = ListApplicationsRequest {
        list: Some(List::GroupId(group)),
        page_size: PAGE,
        ..ListApplicationsRequest::default()
    };
    let mut received = list(channel, request).await?;
    received.retain(|one| {
        one.application.as_ref().is_some_and(|one| is_pending(one) && one.kind() == Kind::Join)
    });
    Ok(received)
}

/// Where the messages of a conversation begin.
pub(super) struct ConversationBegin {
    conversation: String,
    /// The lowest number that is not trimmed.
    min_seq: i64,
    first_time: Option<prost_types::Timestamp>,
}

/// Reads where a conversation begins.
pub(super) async fn begin(channel: &Channel, conversation: &str) -> Result<ConversationBegin, Status> {
    let call = || {
        let mut messages = MessageServiceClient::new(channel.clone());
        let request = PullMessagesRequest {
            conversation_id: conversation.to_owned(),
            limit: 1,
            ..PullMessagesRequest::default()
        };
        let request = with_long_deadline(request);
        async move { messages.pull_messages(request).await }
    };
    let page = again(call).await?.into_inner();
    let first_time = page.messages.first().and_then(|first| first.send_time);
    Ok(ConversationBegin { conversation: conversation.to_owned(), min_seq: page.min_seq, first_time })
}

impl ConversationBegin {
    /// The number of trimmed messages.
    pub(super) fn hidden(&self) -> u64 {
        u64::try_from(self.min_seq.saturating_sub(1)).unwrap_or_default()
    }

    /// Lines of empty messages in the place of trimmed ones, so that the others keep their numbers.
    pub(super) fn placeholders(&self) -> impl Iterator<Item = serde_json::Result<String>> + '_ {
        (1..self.min_seq).map(|seq| {
            ConversationMessages::line(&Message {
                conversation_id: self.conversation.clone(),
                seq,
                send_time: Some(self.first_time.unwrap_or_default()),
                kind: MessageKind::Message.into(),
                silent: true,
                ..Message::default()
            })
        })
    }

    /// The request that trims them again.
    pub(super) fn trim(&self) -> Option<State> {
        let (conversation_id, min_seq) = (self.conversation.clone(), self.min_seq);
        (min_seq > 1).then_some(State::Trim(TrimConversationRequest { conversation_id, min_seq }))
    }
}
