//! A call about relations to a node, and what its answer means.

use kith_proto::{
    relation::v1::{
        BlockRequest, CheckPermissionRequest, CountRelationsRequest, Follow, FollowRequest,
        GetRelationRequest, ListFansRequest, ListFollowingRequest, SetPermissionsRequest, UnblockRequest,
        UnfollowRequest, UserSettings, relation_service_client::RelationServiceClient,
    },
    r#type::v1::Consistency,
};
use tonic::{Status, transport::Channel};

use super::calls::{answer_in_time, consistency, with_deadline};
use crate::history::{Edge, Level, RelationOutcome, RelationRequest, Setting, Settings, Side};

/// A call that can be sent any number of times.
#[derive(Clone, Debug)]
pub(super) struct PreparedRelationCall {
    pub(super) what: RelationRequest,
    /// The token for a read; empty for none.
    pub(super) token: String,
    /// The request id for a write.
    pub(super) request_id: String,
    /// Entries on a page.
    pub(super) page: i32,
}

type RelationRpc = RelationServiceClient<Channel>;
type RelationResult = Result<RelationOutcome, Status>;
/// The second value is the token from a successful follow.
type RelationAnswer = Result<(RelationOutcome, Option<String>), Status>;

impl PreparedRelationCall {
    /// Makes a strong read.
    pub(super) fn strong(what: RelationRequest) -> Self {
        Self { what, token: String::new(), request_id: String::new(), page: 1_000 }
    }

    /// A write with its own request id.
    pub(super) fn write(what: RelationRequest) -> Self {
        Self { request_id: rand::random::<u64>().to_string(), ..Self::strong(what) }
    }

    /// Sends the call once. The second value is the token from a successful follow.
    pub(super) async fn send(&self, node: Channel) -> (RelationOutcome, Option<String>) {
        match answer_in_time(self.reads(), self.ask(RelationRpc::new(node))).await {
            Ok(answered) => answered,
            Err((code, true)) => (RelationOutcome::Open(code), None),
            Err((code, false)) => (RelationOutcome::Refused(code), None),
        }
    }

    fn reads(&self) -> bool {
        !matches!(
            self.what,
            RelationRequest::Follow(_) | RelationRequest::Unfollow(_) | RelationRequest::Set(..)
        )
    }

    async fn ask(&self, mut client: RelationRpc) -> RelationAnswer {
        Ok((
            match self.what {
                RelationRequest::Follow(edge) => return self.follow(client, edge).await,
                RelationRequest::Unfollow(edge) => return self.unfollow(client, edge).await,
                RelationRequest::Set(edge, setting) => self.set(client, edge, setting).await?,
                RelationRequest::Get(edge, level) => self.get(client, edge, level).await?,
                RelationRequest::Check(Edge(user, other), permissions) => {
                    let permissions = u32::from(permissions);
                    let (user_id, target_id) = (other, user);
                    let asked = CheckPermissionRequest { user_id, target_id, permissions, consistency: None };
                    let answer = client.check_permission(with_deadline(asked)).await?.into_inner();
                    RelationOutcome::Allows(answer.allowed, u8::try_from(answer.denied).map_err(strange)?)
                }
                RelationRequest::List(user, side, level) => self.list(client, user, side, level).await?,
                RelationRequest::Count(user_id) => counted(client, user_id, None).await?,
            },
            None,
        ))
    }

    async fn follow(&self, mut client: RelationRpc, edge: Edge) -> RelationAnswer {
        let Edge(user_id, target_id) = edge;
        let asked = FollowRequest { user_id, target_id, request_id: self.request_id.clone() };
        let answer = client.follow(with_deadline(asked)).await?.into_inner();
        let version = answer.follow.as_ref().map(version).ok_or_else(absent)??;
        Ok((RelationOutcome::Follows(version), Some(answer.consistency_token)))
    }

    async fn unfollow(&self, mut client: RelationRpc, edge: Edge) -> RelationAnswer {
        let Edge(user_id, target_id) = edge;
        let asked = UnfollowRequest { user_id, target_id, request_id: self.request_id.clone() };
        let answer = client.unfollow(with_deadline(asked)).await?.into_inner();
        Ok((
            RelationOutcome::Ended(answer.version.try_into().map_err(strange)?),
            Some(answer.consistency_token),
        ))
    }

    async fn set(&self, mut client: RelationRpc, edge: Edge, setting: Setting) -> RelationResult {
        let (Edge(user_id, target_id), expected_version) = (edge, 0);
        let request_id = self.request_id.clone();
        let (set, cuts) = match setting {
            Setting::Block => {
                let asked = BlockRequest { user_id, target_id, expected_version, request_id };
                let answer = client.block(with_deadline(asked)).await?.into_inner();
                (answer.settings, answer.follow_ended)
            }
            Setting::Unblock => {
                let asked = UnblockRequest { user_id, target_id, expected_version, request_id };
                (client.unblock(with_deadline(asked)).await?.into_inner().settings, false)
            }
            Setting::Permissions(set) => {
                let permissions = Some(u32::from(set));
                let asked =
                    SetPermissionsRequest { user_id, target_id, permissions, expected_version, request_id };
                (client.set_permissions(with_deadline(asked)).await?.into_inner().settings, false)
            }
        };
        Ok(RelationOutcome::Set(
            settings(set.as_ref().and_then(|set: &UserSettings| set.settings.as_ref()))?,
            cuts,
        ))
    }

    async fn get(&self, mut client: RelationRpc, edge: Edge, level: Level) -> RelationResult {
        let Edge(user_id, target_id) = edge;
        let asked = GetRelationRequest { user_id, target_id, consistency: self.consistency(level) };
        let answer =
            client.get_relation(with_deadline(asked)).await?.into_inner().relation.ok_or_else(absent)?;
        Ok(RelationOutcome::Found {
            follow: answer.follow.as_ref().map(version).transpose()?,
            followed_by: answer.followed_by.as_ref().map(version).transpose()?,
            settings: settings(answer.settings.as_ref())?,
        })
    }

    /// Reads all pages in it.
    async fn list(&self, mut client: RelationRpc, user_id: i64, side: Side, level: Level) -> RelationResult {
        let (mut entries, mut page_token) = (Vec::new(), String::new());
        loop {
            let (page_size, consistency) = (self.page, self.consistency(level));
            let (follows, next) = match side {
                Side::Following => {
                    let asked = ListFollowingRequest { user_id, page_size, page_token, consistency };
                    let answer = client.list_following(with_deadline(asked)).await?.into_inner();
                    (answer.follows, answer.next_page_token)
                }
                Side::Fans => {
                    let asked = ListFansRequest { user_id, page_size, page_token, consistency };
                    let answer = client.list_fans(with_deadline(asked)).await?.into_inner();
                    (answer.follows, answer.next_page_token)
                }
            };
            for follow in &follows {
                let other = if side == Side::Following { follow.target_id } else { follow.user_id };
                entries.push((other, version(follow)?));
            }
            if next.is_empty() {
                return Ok(RelationOutcome::Listed(entries));
            }
            page_token = next;
        }
    }

    fn consistency(&self, level: Level) -> Option<Consistency> {
        consistency(level, &self.token)
    }
}

/// The lengths of a user's lists, from the store.
pub(super) async fn counted_strong(node: Channel, user_id: i64) -> RelationResult {
    counted(RelationRpc::new(node), user_id, consistency(Level::Strong, "")).await
}

async fn counted(mut client: RelationRpc, user_id: i64, consistency: Option<Consistency>) -> RelationResult {
    let answer = client
        .count_relations(with_deadline(CountRelationsRequest { user_id, consistency }))
        .await?
        .into_inner();
    Ok(RelationOutcome::Counted(answer.following, answer.fans))
}

fn version(follow: &Follow) -> Result<u64, Status> {
    follow.version.try_into().map_err(strange)
}

/// # Errors
/// INTERNAL, where they are absent, or cannot be.
pub(super) fn settings(found: Option<&kith_proto::relation::v1::Settings>) -> Result<Settings, Status> {
    let found = found.ok_or_else(absent)?;
    let permissions = u8::try_from(found.permissions).map_err(strange)?;
    Ok(Settings {
        version: found.version.try_into().map_err(strange)?,
        blocked: found.blocked,
        permissions: found.permissions_set.then_some(permissions),
    })
}

fn absent() -> Status {
    Status::internal("an answer without what was asked for")
}

fn strange(_: std::num::TryFromIntError) -> Status {
    Status::internal("a number that cannot be")
}
