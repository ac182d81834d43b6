//! Users who do not exist, because they were never created or are deleted: no method writes for them, so that
//! a later account with the id inherits nothing. The walk covers every contract method that users may call
//! and that writes.

use std::collections::BTreeMap;

use kith_proto::{
    member::v1::{ListMembershipsRequest, member_service_client::MemberServiceClient},
    message::v1::{ListConversationsRequest, message_service_client::MessageServiceClient},
    relation::v1::{
        ListBlocksRequest, ListDoNotDisturbRequest, relation_service_client::RelationServiceClient,
    },
    r#type::v1::{Action, Users},
    user::v1::{DeleteUserRequest, User},
};
use prost::Message as _;

use super::{Cell, ME, callers, known, reason};
use crate::{
    edge::raw::framed,
    secured_node::{ALL, SecuredNode, acting, bearer, by},
    signing::Signer,
};

/// An id that was never created.
const NEVER: i64 = 4_711;
/// A user who was created and deleted.
const DELETED: i64 = 30;

/// Methods that only read or remove: without the user there is nothing to remove, and they succeed.
const WRITES_NOTHING: [&str; 2] = ["UserService/VerifySecret", "RelationService/Unblock"];

/// The way in which a call names the user who does not exist.
#[derive(Clone, Copy, Debug)]
enum Naming {
    Token,
    ActingUser,
    /// The self field names it: a service calls for itself.
    SelfField,
}

async fn node() -> SecuredNode {
    let node = SecuredNode::start_with(callers(), Signer::new(1).tokens(), |_| {}).await;
    node.create_user(User { user_id: DELETED, user_name: "deleted".into(), ..Default::default() }).await;
    let request = DeleteUserRequest { user_id: DELETED, ..Default::default() };
    node.users().delete_user(by(ALL, request)).await.unwrap();
    node
}

impl Cell {
    fn writes_for_users(&self) -> bool {
        self.access.users() != Users::None
            && matches!(self.access.action(), Action::Write | Action::Secret)
            && !WRITES_NOTHING.contains(&self.name.as_str())
    }

    fn headers_of(&self, user: i64, naming: Naming) -> Vec<(&'static str, String)> {
        let acting = ("kith-acting-user", user.to_string());
        match naming {
            Naming::Token => vec![("authorization", format!("Bearer {}", Signer::new(1).token(user)))],
            Naming::ActingUser => {
                vec![("authorization", bearer(&format!("act-{}", self.scope))), acting]
            }
            Naming::SelfField => vec![("authorization", bearer(&format!("own-{}", self.scope)))],
        }
    }

    /// Returns the wrong error; `None`: the call was refused as expected.
    async fn taken_for(&self, node: &SecuredNode, user: i64, naming: Naming) -> Option<String> {
        let headers = self.headers_of(user, naming);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let status = node.grpc(&self.path, &headers, framed(&self.request(user).encode_to_vec())).await;
        let reason = status.as_ref().map(reason);
        let is_refused = match reason.as_deref() {
            // The record may decide first: a user who does not exist is no member, and has no role.
            Some("NOT_FOUND" | "NOT_ALLOWED" | "STATE_FORBIDS") => true,
            Some("SCOPE_MISSING") => matches!(naming, Naming::Token),
            // A deletion ends its user's tokens.
            Some("CREDENTIALS_REFUSED") => matches!(naming, Naming::Token) && user == DELETED,
            _ => false,
        };
        (!is_refused).then(|| format!("{} for {user} by {naming:?}: {reason:?}", self.name))
    }
}

/// Returns every method that writes: calls about groups, and, if they name a conversation, also calls about a
/// direct conversation.
fn cells(replacements: &BTreeMap<&'static str, String>, user: i64) -> Vec<Cell> {
    let direct = format!("\"d{}-{}\"", ME.min(user), ME.max(user));
    let mut of_direct = replacements.clone();
    of_direct.insert("\"g5\"", direct);
    let all = Cell::all(replacements).into_iter().chain(Cell::all(&of_direct));
    all.filter(Cell::writes_for_users).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn users_who_do_not_exist_write_nothing() {
    let node = node().await;
    let replacements = known::create(&node).await;
    let mut wrong = Vec::new();
    for user in [NEVER, DELETED] {
        for cell in cells(&replacements, user) {
            for naming in [Naming::Token, Naming::ActingUser, Naming::SelfField] {
                if matches!(naming, Naming::SelfField) && cell.access.self_field.is_empty() {
                    continue;
                }
                wrong.extend(cell.taken_for(&node, user, naming).await);
            }
        }
    }
    assert!(wrong.is_empty(), "{} calls: {wrong:#?}", wrong.len());
    node.create_user(User { user_id: NEVER, user_name: "never".into(), ..Default::default() }).await;
    assert_inherits_nothing(&node, NEVER).await;
}

async fn assert_inherits_nothing(node: &SecuredNode, user_id: i64) {
    let mut members = MemberServiceClient::new(node.channel.clone());
    let request = ListMembershipsRequest { user_id, ..Default::default() };
    let groups = members.list_memberships(acting(ALL, user_id, request)).await.unwrap().into_inner();
    assert_eq!(groups.group_ids, [0_i64; 0]);
    let mut relations = RelationServiceClient::new(node.channel.clone());
    let request = ListBlocksRequest { user_id, ..Default::default() };
    let blocks = relations.list_blocks(by(ALL, request)).await.unwrap().into_inner();
    assert_eq!(blocks.settings, []);
    let request = ListDoNotDisturbRequest { user_id, ..Default::default() };
    let silent = relations.list_do_not_disturb(by(ALL, request)).await.unwrap().into_inner();
    assert_eq!(silent.settings, []);
    let mut messages = MessageServiceClient::new(node.channel.clone());
    let request = ListConversationsRequest { user_id, ..Default::default() };
    let conversations = messages.list_conversations(by(ALL, request)).await.unwrap().into_inner();
    assert_eq!(conversations.conversations, []);
}

#[test]
fn exempt_methods_are_methods() {
    let none = BTreeMap::from([("$APPLICATION", "1".to_owned()), ("$APPLIED", "2".to_owned())]);
    let names: Vec<_> = Cell::all(&none).into_iter().map(|cell| cell.name).collect();
    assert!(WRITES_NOTHING.iter().all(|name| names.iter().any(|known| known == name)));
}
