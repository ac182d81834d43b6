//! Users that a node is given before it is measured.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kith_proto::{
    r#type::v1::import_result,
    user::v1::{ImportUser, ImportUsersRequest, User, user_service_client::UserServiceClient},
};
use tokio::time::{Instant, sleep};
use tonic::{
    Code, Status,
    body::Body,
    client::GrpcService,
    codegen::{Body as HttpBody, Bytes, StdError},
    transport::Channel,
};

use crate::people;

/// Records in one message.
const RECORDS: usize = 500;
/// Users in one import.
const IMPORTED: usize = 5_000;
/// How long a node may take until it has them all.
const PATIENCE: Duration = Duration::from_secs(20);
/// Wait before another try.
const PAUSE: Duration = Duration::from_millis(50);

/// Imports users, as soon as the node takes them: those that it has no room for now are sent again.
///
/// # Errors
/// If the node refuses a user for another reason, or has not taken all in time.
pub async fn fill<T>(client: &mut UserServiceClient<T>, ids: &[i64]) -> Result<()>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    let until = Instant::now() + PATIENCE;
    let mut left = ids.to_vec();
    loop {
        match import(client, &left).await {
            Ok(again) if again.is_empty() => return Ok(()),
            Ok(again) => left = again,
            Err(error) if !is_unavailable(&error) => return Err(error.context("the node takes no users")),
            Err(_) => {}
        }
        if Instant::now() >= until {
            bail!("the node has not taken {} users in time", left.len());
        }
        sleep(PAUSE).await;
    }
}

/// Imports the users from 1 up to an id, a part at a time.
///
/// # Errors
/// Like [`fill`], over a new client, with the ids from 1 to `users`.
pub async fn fill_up_to(channel: Channel, users: i64) -> Result<()> {
    let ids: Vec<i64> = (1..=users).collect();
    for ids in ids.chunks(IMPORTED) {
        fill(&mut UserServiceClient::new(channel.clone()), ids).await?;
    }
    Ok(())
}

/// Sends all users once. Returns the users that were turned away before anything was begun.
async fn import<T>(client: &mut UserServiceClient<T>, ids: &[i64]) -> Result<Vec<i64>>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    let messages: Vec<_> = ids.chunks(RECORDS).map(message).collect::<Result<_>>()?;
    let mut results = client.import_users(tokio_stream::iter(messages)).await?.into_inner();
    let mut again = Vec::new();
    while let Some(message) = results.message().await? {
        for result in message.results {
            match result.result.context("a record has no result")? {
                import_result::Result::Id(_) => {}
                import_result::Result::Error(error) if error.code == Code::ResourceExhausted as i32 => {
                    again.push(result.record);
                }
                import_result::Result::Error(error) => bail!("a user was refused: {}", error.message),
            }
        }
    }
    Ok(again)
}

fn is_unavailable(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Status>().is_some_and(|status| status.code() == Code::Unavailable)
}

fn message(ids: &[i64]) -> Result<ImportUsersRequest> {
    let record = |id: &i64| Ok(ImportUser { record: *id, user: Some(wire(*id)?), request_id: String::new() });
    Ok(ImportUsersRequest { records: ids.iter().map(record).collect::<Result<_>>()? })
}

fn wire(id: i64) -> Result<User> {
    let user = people::user(id)?;
    Ok(User {
        user_id: id,
        user_name: user.user_name.to_string(),
        nick_name: user.nick_name.to_string(),
        email: user.email.to_string(),
        phone: user.phone.to_string(),
        gender: i32::from(user.gender as u8),
        age: i32::from(user.age),
        region: user.region.to_string(),
        icon: user.icon.to_string(),
        params: user.params.to_map(),
        ..User::default()
    })
}
