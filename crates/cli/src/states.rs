//! Imports what no record holds: mutes of whole groups, trimmed conversations, suspended users. Each line is
//! a request, wrapped in its name.

use futures::{FutureExt as _, StreamExt as _, TryFutureExt as _};
use kith_proto::{
    member::v1::{CountMembersRequest, MuteGroupRequest, member_service_client::MemberServiceClient},
    message::v1::{
        PullMessagesRequest, TrimConversationRequest, message_service_client::MessageServiceClient,
    },
    r#type::v1::ImportResult,
    user::v1::{GetUserAccessRequest, SuspendUserRequest, user_service_client::UserServiceClient},
};
use kith_server::json;
use prost::Message as _;
use prost_types::Any;
use serde_json::{Map, Value};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    client::Channel,
    kind::{Entry, Import, MessageStream, import_each, strong, with_long_deadline},
    proto_lines,
};

/// The names of lines, and the messages in them.
const MUTE: [&str; 2] = ["groupMute", "kith.member.v1.MuteGroupRequest"];
const TRIM: [&str; 2] = ["trim", "kith.message.v1.TrimConversationRequest"];
const SUSPENSION: [&str; 2] = ["suspension", "kith.user.v1.SuspendUserRequest"];

/// The lines of `states`.
#[derive(Debug)]
pub(super) struct States;

/// A line of `states`.
pub(super) enum State {
    Mute(MuteGroupRequest),
    Trim(TrimConversationRequest),
    Suspension(SuspendUserRequest),
}

impl State {
    /// Formats it as a line.
    pub(super) fn line(&self) -> serde_json::Result<String> {
        let ([name, _], line) = match self {
            Self::Mute(request) => (MUTE, proto_lines::line(MUTE[1], request)?),
            Self::Trim(request) => (TRIM, proto_lines::line(TRIM[1], request)?),
            Self::Suspension(request) => (SUSPENSION, proto_lines::line(SUSPENSION[1], request)?),
        };
        Ok(format!("{{\"{name}\":{line}}}"))
    }
}

impl Import for States {
    const NAME: &'static str = "states";

    /// A request, with the name of its message.
    type Record = Any;

    fn read_line(&self, line: &[u8]) -> Result<Option<Any>, String> {
        let wrapped: Map<String, Value> =
            serde_json::from_slice(line).map_err(|_| "not a JSON object".to_owned())?;
        let names = [MUTE, TRIM, SUSPENSION];
        let (Some((name, request)), 1) = (wrapped.iter().next(), wrapped.len()) else {
            return Err("must have one field".to_owned());
        };
        let known = names.into_iter().find(|[known, _]| known == name);
        let [_, message] = known.ok_or_else(|| "neither groupMute, nor trim, nor suspension".to_owned())?;
        let text = request.to_string();
        let value = match message {
            _ if message == MUTE[1] => {
                json::record::<MuteGroupRequest>(message, text.as_bytes())?.encode_to_vec()
            }
            _ if message == TRIM[1] => {
                json::record::<TrimConversationRequest>(message, text.as_bytes())?.encode_to_vec()
            }
            _ => json::record::<SuspendUserRequest>(message, text.as_bytes())?.encode_to_vec(),
        };
        Ok(Some(Any { type_url: message.to_owned(), value }))
    }

    async fn import(
        &self,
        channel: Channel,
        chunks: ReceiverStream<Vec<Entry<Any>>>,
    ) -> Result<MessageStream<Vec<ImportResult>>, Status> {
        let answers = chunks.then(move |chunk| {
            import_each(channel.clone(), chunk, |channel, record| {
                set(channel, record).map_ok(|is_new| is_new.then_some(0)).boxed()
            })
        });
        Ok(answers.boxed())
    }

    async fn are_stored(&self, _: Channel, sent: &[&Any]) -> Result<Vec<bool>, Status> {
        Ok(vec![true; sent.len()])
    }
}

/// Returns whether it was not so before.
async fn set(channel: &Channel, Any { type_url, value }: &Any) -> Result<bool, Status> {
    let bad = |_| Status::internal("the request cannot be read");
    match type_url.as_str() {
        name if name == MUTE[1] => {
            mute(channel, MuteGroupRequest::decode(value.as_slice()).map_err(bad)?).await
        }
        name if name == TRIM[1] => {
            trim(channel, TrimConversationRequest::decode(value.as_slice()).map_err(bad)?).await
        }
        _ => suspend(channel, SuspendUserRequest::decode(value.as_slice()).map_err(bad)?).await,
    }
}

async fn mute(channel: &Channel, request: MuteGroupRequest) -> Result<bool, Status> {
    let mut members = MemberServiceClient::new(channel.clone());
    let count = CountMembersRequest { group_id: request.group_id, consistency: strong() };
    let roster = members.count_members(with_long_deadline(count)).await?.into_inner().roster;
    if roster.is_some_and(|roster| roster.mute_time == request.mute_time) {
        return Ok(false);
    }
    members.mute_group(with_long_deadline(request)).await.map(|_| true)
}

async fn trim(channel: &Channel, request: TrimConversationRequest) -> Result<bool, Status> {
    let mut messages = MessageServiceClient::new(channel.clone());
    let conversation_id = request.conversation_id.clone();
    let pull = PullMessagesRequest { conversation_id, limit: 1, ..PullMessagesRequest::default() };
    let pulled = messages.pull_messages(with_long_deadline(pull)).await?.into_inner();
    if pulled.min_seq >= request.min_seq {
        return Ok(false);
    }
    messages.trim_conversation(with_long_deadline(request)).await.map(|_| true)
}

async fn suspend(channel: &Channel, request: SuspendUserRequest) -> Result<bool, Status> {
    let mut users = UserServiceClient::new(channel.clone());
    let get = GetUserAccessRequest { user_id: request.user_id, consistency: strong() };
    let access = users.get_user_access(with_long_deadline(get)).await?.into_inner().access;
    let is_so = |access: &kith_proto::user::v1::UserAccess| {
        access.suspended
            && (access.suspended_until, &access.suspension_reason) == (request.until, &request.reason)
    };
    if access.as_ref().is_some_and(is_so) {
        return Ok(false);
    }
    users.suspend_user(with_long_deadline(request)).await.map(|_| true)
}
