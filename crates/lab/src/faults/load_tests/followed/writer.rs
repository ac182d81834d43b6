//! Writers of all kinds of records. No two writers change the same record.

use std::{ops::Range, sync::Arc};

use anyhow::Result;
use kith_proto::{
    change::v1::ChangeKind,
    group::v1::{Group, JoinPolicy, UpdateGroupRequest, group_service_client::GroupServiceClient},
    member::v1::{JoinRequest, LeaveRequest, member_service_client::MemberServiceClient},
    message::v1::{
        MarkReadRequest, SendMessageRequest, TrimConversationRequest,
        message_service_client::MessageServiceClient, send_message_request::To,
    },
    notice::v1::{
        Audience, Notice, PublishNoticeRequest, RegisterAudienceRequest,
        notice_service_client::NoticeServiceClient,
    },
    relation::v1::{
        BlockRequest, FollowRequest, UnblockRequest, UnfollowRequest,
        relation_service_client::RelationServiceClient,
    },
    user::v1::user_service_client::UserServiceClient,
};
use rand::{Rng as _, rngs::SmallRng};
use tokio::time::Instant;
use tonic::{Code, Request, Response, Status, transport::Channel};

use super::{
    FollowedState,
    tally::{AcknowledgedWrite, RecordKey},
};
use crate::faults::{
    answered::{call, make_group, until_answered},
    calls::{failed, renaming},
};

/// Users of each writer.
const USERS: i64 = 3;
/// Kinds of writes.
const KINDS: Range<u32> = 0..9;
/// Groups have ids that no user has.
const FIRST_GROUP: i64 = 10_000;

/// The record that a write has changed, and its version or number.
type Changed = (RecordKey, i64);

/// One writer, with its users and its group.
#[derive(Debug)]
pub(super) struct ChangesWriter {
    state: Arc<FollowedState>,
    number: i64,
    random: SmallRng,
    /// Counts the writes, so that each sets another value.
    writes: i64,
    /// Whether the second user is a member, is followed, and the third user is blocked; `None`: not known.
    is_set: [Option<bool>; 3],
    /// The restores that it knows of.
    restores: u64,
    /// The last message, and up to which it is marked and trimmed.
    last_seq: i64,
    marked: i64,
    trimmed: i64,
}

/// The users that so many writers have.
pub(super) const fn users(writers: i64) -> i64 {
    writers * USERS
}

impl ChangesWriter {
    /// A writer with its group and its audience.
    ///
    /// # Errors
    /// If they cannot be made.
    pub(super) async fn begin(state: &Arc<FollowedState>, number: i64, random: SmallRng) -> Result<Self> {
        let writer = Self {
            state: Arc::clone(state),
            number,
            random,
            writes: 0,
            is_set: [Some(false); 3],
            restores: 0,
            last_seq: 0,
            marked: 0,
            trimmed: 0,
        };
        let group = Group {
            group_id: writer.group_id(),
            name: format!("group {number}"),
            creator_id: writer.user(0),
            join_policy: JoinPolicy::Open.into(),
            ..Group::default()
        };
        make_group(&state.nodes, group, Vec::new()).await?;
        writer.register_audience().await?;
        Ok(writer)
    }

    /// Writes until all faults are over.
    pub(super) async fn run(mut self) -> Result<()> {
        while !self.state.progress.is_ended() {
            let (began, kind) = (Instant::now(), self.random.random_range(KINDS));
            self.writes += 1;
            let written = self.write(kind).await;
            if self.restores != self.state.restores() {
                self.begin_again();
                continue;
            }
            match written {
                Ok(changed) => {
                    let acknowledged = Instant::now();
                    let mut tally = self.state.tally.lock();
                    for (key, version) in changed {
                        tally.add_write(AcknowledgedWrite { key, version, began, acknowledged });
                        self.state.progress.add(1);
                    }
                }
                // Another call, without an answer, has changed the state.
                Err(status) if is_of_state(&status) => self.is_set = [None; 3],
                Err(status) => self.state.tally.lock().failed.add(&failed(&status, false).0),
            }
        }
        Ok(())
    }

    async fn write(&mut self, kind: u32) -> Result<Vec<Changed>, Status> {
        match kind {
            0 => self.write_user().await,
            1 => self.write_group().await,
            2 => self.write_member().await,
            3 => self.write_follow().await,
            4 => self.write_block().await,
            5 if self.last_seq > self.marked => self.write_mark().await,
            6 if self.last_seq > self.trimmed => self.write_trim().await,
            7 => self.write_notice().await,
            _ => self.write_message().await,
        }
    }

    /// After a restore, any earlier state is stored.
    fn begin_again(&mut self) {
        self.restores = self.state.restores();
        self.is_set = [None; 3];
        (self.last_seq, self.marked, self.trimmed) = (0, 0, 0);
    }

    /// Notes that a state is now as it was asked for. Returns the record if it was changed for certain.
    fn set(&mut self, place: usize, is_set: bool, kind: ChangeKind, ids: [i64; 2]) -> Vec<Changed> {
        let was_other = self.is_set[place].replace(is_set) == Some(!is_set);
        was_other.then(|| (RecordKey::of_ids(kind, ids), 0)).into_iter().collect()
    }

    /// The opposite of a state.
    fn other(&self, place: usize) -> bool {
        !self.is_set[place].unwrap_or(false)
    }

    async fn write_user(&self) -> Result<Vec<Changed>, Status> {
        let user_id = self.user(0);
        let request = renaming(user_id, self.value(), self.request_id());
        let answer = self.send(request, call!(UserServiceClient::update_user));
        let version = answer.await?.user.unwrap_or_default().version;
        Ok(vec![(RecordKey::of_ids(ChangeKind::User, [user_id, 0]), version)])
    }

    async fn write_group(&self) -> Result<Vec<Changed>, Status> {
        let group_id = self.group_id();
        let request = UpdateGroupRequest {
            group: Some(Group { group_id, name: self.value(), ..Group::default() }),
            update_mask: Some(prost_types::FieldMask { paths: vec!["name".to_owned()] }),
            expected_version: 0,
            request_id: self.request_id(),
        };
        let answer = self.send(request, call!(GroupServiceClient::update_group));
        let version = answer.await?.group.unwrap_or_default().version;
        Ok(vec![(RecordKey::of_ids(ChangeKind::Group, [group_id, 0]), version)])
    }

    async fn write_member(&mut self) -> Result<Vec<Changed>, Status> {
        let (group_id, user_id, request_id) = (self.group_id(), self.user(1), self.request_id());
        let is_set = self.other(0);
        if !is_set {
            let request = LeaveRequest { group_id, user_id, request_id };
            self.send(request, call!(MemberServiceClient::leave)).await?;
        } else {
            let request = JoinRequest { group_id, user_id, request_id, ..JoinRequest::default() };
            self.send(request, call!(MemberServiceClient::join)).await?;
        }
        Ok(self.set(0, is_set, ChangeKind::Member, [group_id, user_id]))
    }

    async fn write_follow(&mut self) -> Result<Vec<Changed>, Status> {
        let (user_id, target_id, request_id) = (self.user(0), self.user(1), self.request_id());
        let is_set = self.other(1);
        if !is_set {
            let request = UnfollowRequest { user_id, target_id, request_id };
            self.send(request, call!(RelationServiceClient::unfollow)).await?;
        } else {
            let request = FollowRequest { user_id, target_id, request_id };
            self.send(request, call!(RelationServiceClient::follow)).await?;
        }
        Ok(self.set(1, is_set, ChangeKind::Follow, [user_id, target_id]))
    }

    async fn write_block(&mut self) -> Result<Vec<Changed>, Status> {
        let (user_id, target_id, request_id) = (self.user(0), self.user(2), self.request_id());
        let is_set = self.other(2);
        if !is_set {
            let request = UnblockRequest { user_id, target_id, expected_version: 0, request_id };
            self.send(request, call!(RelationServiceClient::unblock)).await?;
        } else {
            let request = BlockRequest { user_id, target_id, expected_version: 0, request_id };
            self.send(request, call!(RelationServiceClient::block)).await?;
        }
        Ok(self.set(2, is_set, ChangeKind::Block, [user_id, target_id]))
    }

    async fn write_message(&mut self) -> Result<Vec<Changed>, Status> {
        let conversation = self.conversation();
        let request = SendMessageRequest {
            to: Some(To::ConversationId(conversation.clone())),
            sender_id: self.user(0),
            client_message_id: self.request_id(),
            content_type: "text/plain".to_owned(),
            body: "x".into(),
            ..SendMessageRequest::default()
        };
        let answer = self.send(request, call!(MessageServiceClient::send_message));
        self.last_seq = answer.await?.seq;
        Ok(vec![(RecordKey::of_conversation(ChangeKind::Messages, &conversation, 0), self.last_seq)])
    }

    async fn write_mark(&mut self) -> Result<Vec<Changed>, Status> {
        let (conversation_id, user_id, up_to) = (self.conversation(), self.user(1), self.last_seq);
        let key = RecordKey::of_conversation(ChangeKind::Dialog, &conversation_id, user_id);
        let request = MarkReadRequest { user_id, conversation_id, up_to, ..MarkReadRequest::default() };
        self.send(request, call!(MessageServiceClient::mark_read)).await?;
        self.marked = up_to;
        Ok(vec![(key, 0)])
    }

    async fn write_trim(&mut self) -> Result<Vec<Changed>, Status> {
        let (conversation_id, min_seq) = (self.conversation(), self.last_seq);
        let key = RecordKey::of_conversation(ChangeKind::Conversation, &conversation_id, 0);
        let request = TrimConversationRequest { conversation_id, min_seq };
        let answer = self.send(request, call!(MessageServiceClient::trim_conversation));
        answer.await?;
        self.trimmed = min_seq;
        Ok(vec![(key, 0)])
    }

    async fn write_notice(&self) -> Result<Vec<Changed>, Status> {
        let audience_id = self.audience_id();
        let notice = Notice { title: self.value(), audience_ids: vec![audience_id], ..Notice::default() };
        let request = PublishNoticeRequest { notice: Some(notice), request_id: self.request_id() };
        let answer = self.send(request, call!(NoticeServiceClient::publish_notice));
        let notice_id = answer.await?.notice.unwrap_or_default().notice_id;
        let audience = RecordKey::of_ids(ChangeKind::Audience, [audience_id.into(), 0]);
        Ok(vec![(RecordKey::of_ids(ChangeKind::Notice, [notice_id, 0]), 0), (audience, 0)])
    }

    async fn register_audience(&self) -> Result<(), Status> {
        let audience = Audience {
            audience_id: self.audience_id(),
            name: format!("audience {}", self.number),
            ..Audience::default()
        };
        let request = RegisterAudienceRequest { audience: Some(audience), request_id: self.request_id() };
        self.send(request, call!(NoticeServiceClient::register_audience)).await.map(drop)
    }

    /// Sends a request, first through this writer's node, until a node answers.
    async fn send<Q, A, F>(&self, request: Q, call: impl Fn(Channel, Request<Q>) -> F) -> Result<A, Status>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let first = usize::try_from(self.number).unwrap_or(0) % self.state.nodes.len();
        until_answered(&self.state.nodes, first, request, call).await
    }

    const fn user(&self, place: i64) -> i64 {
        self.number * USERS + place + 1
    }

    const fn group_id(&self) -> i64 {
        FIRST_GROUP + self.number
    }

    fn audience_id(&self) -> i32 {
        i32::try_from(self.number + 1).unwrap_or(i32::MAX)
    }

    fn conversation(&self) -> String {
        format!("d{}-{}", self.user(0), self.user(1))
    }

    /// A value that no earlier write has set.
    fn value(&self) -> String {
        format!("value {}", self.writes)
    }

    fn request_id(&self) -> String {
        format!("{}-{}", self.number, self.writes)
    }
}

/// Whether a call was refused because of what is stored.
fn is_of_state(status: &Status) -> bool {
    matches!(status.code(), Code::NotFound | Code::AlreadyExists | Code::FailedPrecondition)
}
