//! Groups that rows start from.

use anyhow::Result;
use kith_proto::{
    group::v1::{CreateGroupRequest, Group, group_service_client::GroupServiceClient},
    member::v1::{AddMembersRequest, member_service_client::MemberServiceClient},
};
use tonic::{Code, transport::Channel};

use super::until_done::until_done;

/// Members that are added by one call.
const ADDED: usize = 100;

/// Creates a group with these users. The first user is its owner.
pub(super) async fn make_group(channel: &Channel, group_id: i64, users: &[i64]) -> Result<()> {
    let group = Group { group_id, name: "many".to_owned(), creator_id: users[0], ..Group::default() };
    let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
    let made = async || match GroupServiceClient::new(channel.clone()).create_group(request.clone()).await {
        // An earlier call that seemed to fail has created it.
        Err(status) if status.code() == Code::AlreadyExists => Ok(()),
        made => made.map(drop),
    };
    until_done(made).await?;
    for user_ids in users[1..].chunks(ADDED) {
        let user_ids = user_ids.to_vec();
        let request = AddMembersRequest { group_id, user_ids, ..AddMembersRequest::default() };
        let client = MemberServiceClient::new(channel.clone());
        until_done(async || client.clone().add_members(request.clone()).await).await?;
    }
    Ok(())
}
