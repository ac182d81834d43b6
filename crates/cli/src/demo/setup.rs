//! Makes the demo's people, with their friends, groups, first messages and notices.

use kith_proto::{
    group::v1::{
        CreateGroupRequest, GetGroupRequest, Group, GroupType, JoinPolicy, Visibility,
        group_service_client::GroupServiceClient,
    },
    member::v1::{AddMembersRequest, member_service_client::MemberServiceClient},
    message::v1::{
        BatchSendRequest, SendMessageRequest, message_service_client::MessageServiceClient,
        send_message_request::To, send_result,
    },
    notice::v1::{
        Audience, Notice, PublishNoticeRequest, RegisterAudienceRequest,
        notice_service_client::NoticeServiceClient,
    },
    relation::v1::{ImportFollow, ImportFollowsRequest, relation_service_client::RelationServiceClient},
    r#type::v1::{ImportResult, ResultError, import_result},
    user::v1::{ImportUser, ImportUsersRequest, User, user_service_client::UserServiceClient},
};
use tonic::{Code, Status, transport::Channel};

use super::{
    names::{GROUPS, PEOPLE, friends, is_chinese, members, name},
    phrases::phrase,
};

/// How many records a message in an import has, and how many messages or members a call has.
const RECORDS: usize = 500;
const BATCH: usize = 100;
/// The audience that the demo page asks for.
const AUDIENCE: i32 = 1;
/// Each notice has an id, a title, a body, and whether it asks for a confirmation.
const NOTICES: [(i64, &str, &str, bool); 2] = [
    (
        1,
        "Welcome \u{b7} \u{6b22}\u{8fce}",
        "Open a second window as the same person: what you read here is read there, too.",
        false,
    ),
    (
        2,
        "House rules \u{b7} \u{5b88}\u{5219}",
        "Be kind. The demo forgets all that is written when it ends.",
        true,
    ),
];

/// Makes everything that is not there yet. After an interrupted start, the next start makes the rest.
pub(super) async fn create(channel: &Channel) -> Result<(), Status> {
    // Earlier demo versions made no notices.
    notices(channel).await?;
    if is_created(channel).await? {
        return Ok(());
    }
    people(channel).await?;
    friendships(channel).await?;
    let last = GROUPS.len();
    for (at, name) in GROUPS.iter().enumerate() {
        if at + 1 == last {
            // The last group marks that everything else exists.
            history(channel).await?;
        }
        group(channel, i64::try_from(at + 1).unwrap_or_default(), name).await?;
    }
    Ok(())
}

async fn is_created(channel: &Channel) -> Result<bool, Status> {
    let group_id = i64::try_from(GROUPS.len()).unwrap_or_default();
    let found = GroupServiceClient::new(channel.clone())
        .get_group(GetGroupRequest { group_id, ..Default::default() })
        .await;
    match found {
        Ok(_) => Ok(true),
        Err(status) if status.code() == Code::NotFound => Ok(false),
        Err(status) => Err(status),
    }
}

async fn people(channel: &Channel) -> Result<(), Status> {
    let person = |id: i64| User {
        user_id: id,
        user_name: format!("demo.{id}"),
        nick_name: name(id),
        region: if is_chinese(id) { "CN" } else { "EU" }.to_owned(),
        ..User::default()
    };
    let record = |id: i64| ImportUser { record: id, user: Some(person(id)), ..Default::default() };
    let records = (1..=PEOPLE).map(record).collect();
    let stream = tokio_stream::once(ImportUsersRequest { records });
    let mut answers = UserServiceClient::new(channel.clone()).import_users(stream).await?.into_inner();
    while let Some(answer) = answers.message().await? {
        check_results(answer.results)?;
    }
    Ok(())
}

/// Publishes the notices that all people see behind the bell on the page. Publishing them again changes
/// nothing.
async fn notices(channel: &Channel) -> Result<(), Status> {
    let mut service = NoticeServiceClient::new(channel.clone());
    let audience = Audience {
        audience_id: AUDIENCE,
        name: "People of the demo".to_owned(),
        of_users: true,
        ..Audience::default()
    };
    let request = RegisterAudienceRequest { audience: Some(audience), ..Default::default() };
    service.register_audience(request).await?;
    for (notice_id, title, body, must_confirm) in NOTICES {
        let notice = Notice {
            notice_id,
            title: title.to_owned(),
            body: body.to_owned(),
            audience_ids: vec![AUDIENCE],
            must_confirm,
            for_newcomers: true,
            ..Notice::default()
        };
        match service
            .publish_notice(PublishNoticeRequest { notice: Some(notice), ..Default::default() })
            .await
        {
            Ok(_) => {}
            Err(status) if status.code() == Code::AlreadyExists => {}
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

async fn friendships(channel: &Channel) -> Result<(), Status> {
    let pairs = (1..=PEOPLE).flat_map(|id| friends(id).map(move |friend| (id, friend)));
    let records: Vec<_> = (1..)
        .zip(pairs)
        .map(|(record, (user_id, target_id))| ImportFollow { record, user_id, target_id, follow_time: None })
        .collect();
    let messages: Vec<_> =
        records.chunks(RECORDS).map(|part| ImportFollowsRequest { records: part.to_vec() }).collect();
    let mut relations = RelationServiceClient::new(channel.clone());
    let mut answers = relations.import_follows(tokio_stream::iter(messages)).await?.into_inner();
    while let Some(answer) = answers.message().await? {
        check_results(answer.results)?;
    }
    Ok(())
}

/// Checks an import's results. A record that was there before is fine.
fn check_results(results: Vec<ImportResult>) -> Result<(), Status> {
    let refused = |result| match result {
        Some(import_result::Result::Error(error)) => Some(error),
        _ => None,
    };
    let mut refused = results.into_iter().filter_map(|result| refused(result.result));
    refused
        .find(|error| error.code != i32::from(Code::AlreadyExists))
        .map_or(Ok(()), |error| Err(status(&error)))
}

fn status(error: &ResultError) -> Status {
    Status::new(Code::from_i32(error.code), error.message.clone())
}

async fn group(channel: &Channel, id: i64, name: &str) -> Result<(), Status> {
    let members: Vec<_> = members(id).collect();
    let group = Group {
        group_id: id,
        name: name.to_owned(),
        creator_id: members[0],
        r#type: GroupType::Chat.into(),
        visibility: Visibility::Public.into(),
        join_policy: JoinPolicy::Open.into(),
        history_for_new_members: true,
        ..Group::default()
    };
    let request = CreateGroupRequest { group: Some(group), ..Default::default() };
    match GroupServiceClient::new(channel.clone()).create_group(request).await {
        Ok(_) => {}
        Err(status) if status.code() == Code::AlreadyExists => {}
        Err(status) => return Err(status),
    }
    for part in members.chunks(BATCH) {
        let request = AddMembersRequest { group_id: id, user_ids: part.to_vec(), ..Default::default() };
        MemberServiceClient::new(channel.clone()).add_members(request).await?;
    }
    Ok(())
}

/// Sends some messages in each group except the last, and between each person and the next. Sending them
/// again changes nothing.
async fn history(channel: &Channel) -> Result<(), Status> {
    let groups = (1..i64::try_from(GROUPS.len()).unwrap_or_default()).flat_map(|group| {
        let talk = move |(at, by): (usize, i64)| message(To::GroupId(group), by, "g", group, at);
        members(group).step_by(4).enumerate().map(talk)
    });
    let pairs = (1..=PEOPLE).flat_map(|one| {
        let other = one % PEOPLE + 1;
        [(one, other), (other, one)]
            .into_iter()
            .enumerate()
            .map(move |(at, (by, to))| message(To::UserId(to), by, "d", one, at))
    });
    let all: Vec<_> = groups.chain(pairs).collect();
    let mut messages = MessageServiceClient::new(channel.clone());
    for part in all.chunks(BATCH) {
        let answer = messages.batch_send(BatchSendRequest { messages: part.to_vec() }).await?.into_inner();
        let refused = answer.results.into_iter().find_map(|result| match result.result {
            Some(send_result::Result::Error(error)) => Some(error),
            _ => None,
        });
        if let Some(error) = refused {
            return Err(status(&error));
        }
    }
    Ok(())
}

fn message(to: To, by: i64, kind: &str, of: i64, at: usize) -> SendMessageRequest {
    let chosen = usize::try_from(by * 13 + of * 5).unwrap_or_default() + at;
    SendMessageRequest {
        to: Some(to),
        sender_id: by,
        client_message_id: format!("demo-{kind}{of}-{at}"),
        content_type: "text/plain".to_owned(),
        body: phrase(by, chosen).into(),
        ..SendMessageRequest::default()
    }
}
