//! Calls to a node, and what their answers mean.

use std::{error::Error as _, time::Duration};

use kith_proto::{
    ListRequest as _,
    message::v1::{Message, PullMessagesRequest, message_service_client::MessageServiceClient},
    r#type::v1::{AtLeast, Consistency, consistency},
    user::v1::{
        CreateUserRequest, DeleteUserRequest, GetUserRequest, UpdateUserRequest, User,
        user_service_client::UserServiceClient,
    },
};
use tokio::time::{sleep, timeout};
use tonic::{Code, Request, Status, transport::Channel};

use crate::history::{Level, Outcome, UserRequest};

/// The deadline for a call, which is sent to nodes.
const DEADLINE: Duration = Duration::from_secs(3);
/// A longer wait is given up here, for a node that does not answer at all.
const PATIENCE: Duration = Duration::from_secs(4);
/// Attempts for a call after a fault, and the pause between two.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);
/// The largest page of a conversation.
const LOG_PAGE: i32 = 1_000;

/// A call that can be sent any number of times.
#[derive(Clone, Debug)]
pub(super) struct UserCall {
    /// The user; 0 for a creation.
    pub(super) user_id: i64,
    pub(super) what: UserRequest,
    /// The token for a read; empty for none.
    pub(super) token: String,
    /// The request id for a write.
    pub(super) request_id: String,
}

/// The outcome, and the token from a successful write.
#[derive(Clone, Debug)]
pub(super) struct UserAnswer {
    pub(super) outcome: Outcome,
    pub(super) token: Option<String>,
}

impl UserCall {
    /// Makes a strong read.
    pub(super) const fn strong(user_id: i64) -> Self {
        let what = UserRequest::Read(Level::Strong);
        Self { user_id, what, token: String::new(), request_id: String::new() }
    }

    /// Sends the call once.
    pub(super) async fn send(&self, node: Channel) -> UserAnswer {
        let reads = matches!(self.what, UserRequest::Read(_));
        let may_be_gone = reads || matches!(self.what, UserRequest::Update { .. });
        let outcome = match answer_in_time(reads, self.ask(node)).await {
            Ok(answered) => return answered,
            Err((code, _)) if may_be_gone && code == "NOT_FOUND" => Outcome::Gone,
            Err((code, true)) => Outcome::Open(code),
            Err((code, false)) => Outcome::Refused(code),
        };
        UserAnswer { outcome, token: None }
    }

    async fn ask(&self, node: Channel) -> Result<UserAnswer, Status> {
        let mut users = UserServiceClient::new(node);
        match &self.what {
            UserRequest::Read(level) => {
                let consistency = consistency(*level, &self.token);
                let asked = GetUserRequest { user_id: self.user_id, consistency };
                let user = users.get_user(with_deadline(asked)).await?.into_inner().user;
                Ok(UserAnswer { outcome: outcome_of(user.as_ref())?, token: None })
            }
            UserRequest::Create { name, value } => {
                let user = User {
                    user_name: name.clone(),
                    nick_name: value.to_string(),
                    user_id: self.user_id,
                    ..User::default()
                };
                let request = CreateUserRequest { user: Some(user), request_id: self.request_id.clone() };
                let created = users.create_user(with_deadline(request)).await?.into_inner();
                let mut outcome = outcome_of(created.user.as_ref())?;
                if let (Outcome::Done { key, .. }, Some(user)) = (&mut outcome, &created.user) {
                    *key = Some(key_of(user.user_id));
                }
                Ok(UserAnswer { outcome, token: Some(created.consistency_token) })
            }
            UserRequest::Update { value } => {
                let asked = renaming(self.user_id, value.to_string(), self.request_id.clone());
                let updated = users.update_user(with_deadline(asked)).await?.into_inner();
                Ok(UserAnswer {
                    outcome: outcome_of(updated.user.as_ref())?,
                    token: Some(updated.consistency_token),
                })
            }
            UserRequest::Delete => {
                let request_id = self.request_id.clone();
                let asked = DeleteUserRequest { user_id: self.user_id, expected_version: 0, request_id };
                let deleted = users.delete_user(with_deadline(asked)).await?.into_inner();
                Ok(UserAnswer { outcome: Outcome::Gone, token: Some(deleted.consistency_token) })
            }
        }
    }
}

/// Waits for the answer to a call. The error: its code, and whether the request may have been, or may still
/// be, executed.
pub(super) async fn answer_in_time<T>(
    reads: bool,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, (String, bool)> {
    match timeout(PATIENCE, call).await {
        Ok(answer) => answer.map_err(|status| failed(&status, reads)),
        Err(_) => Err(("DEADLINE_EXCEEDED".to_owned(), !reads)),
    }
}

/// Calls again what fails, up to ten times: it comes after a fault.
pub(crate) async fn retried<T, E>(call: impl AsyncFn() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..TRIES {
        if let Ok(answer) = call().await {
            return Ok(answer);
        }
        sleep(PAUSE).await;
    }
    call().await
}

/// The name of an error, and whether the request may have been, or may still be, executed; never for a read.
/// A code that no disturbance explains is reported literally.
pub(super) fn failed(status: &Status, read: bool) -> (String, bool) {
    let code = code_of(status);
    let open = match code {
        Code::InvalidArgument
        | Code::AlreadyExists
        | Code::NotFound
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::ResourceExhausted
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::OutOfRange
        | Code::Unimplemented => false,
        _ => !read && !is_certain(status),
    };
    let name = name_of(code);
    if matches!(code, Code::Internal | Code::Unknown) {
        eprintln!("answered with {name}: {}", status.message());
    }
    (name, open)
}

/// The consistency for a read at this level. `token` is for reads by token.
pub(super) fn consistency(level: Level, token: &str) -> Option<Consistency> {
    let level = match level {
        Level::Cached => return None,
        Level::AtLeast(_) => {
            consistency::Level::AtLeast(AtLeast { consistency_tokens: vec![token.to_owned()] })
        }
        Level::Strong => consistency::Level::Strong(true),
    };
    Some(Consistency { level: Some(level) })
}

/// A user's key in a history.
pub(super) fn key_of(user_id: i64) -> String {
    format!("user:{user_id}")
}

/// The value in a found record. A record without a value from the run is an error in the run.
pub(super) fn outcome_of(user: Option<&User>) -> Result<Outcome, Status> {
    let read = user.and_then(|user| Some((user.version.try_into().ok()?, user.nick_name.parse().ok()?)));
    let (version, value) = read.ok_or_else(|| Status::internal("an answer without a user of the run"))?;
    Ok(Outcome::Done { version, value, key: None })
}

/// A change to the nickname only.
pub(crate) fn renaming(user_id: i64, nick_name: String, request_id: String) -> UpdateUserRequest {
    let user = User { user_id, nick_name, ..User::default() };
    let update_mask = Some(prost_types::FieldMask { paths: vec!["nick_name".to_owned()] });
    UpdateUserRequest { user: Some(user), update_mask, expected_version: 0, request_id }
}

/// A broken connection is UNAVAILABLE: this client reports it in many ways.
pub(super) fn code_of(status: &Status) -> Code {
    if status.source().is_some() { Code::Unavailable } else { status.code() }
}

/// A request with the deadline that all calls have.
pub(crate) fn with_deadline<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(DEADLINE);
    request
}

/// A whole conversation through a node. `at_least_seq` is a number that it is known to have; 0: none.
pub(crate) async fn whole_log(
    node: &Channel,
    conversation: &str,
    at_least_seq: i64,
) -> Result<Vec<Message>, Status> {
    let mut client = MessageServiceClient::new(node.clone());
    let (conversation_id, mut messages) = (conversation.to_owned(), Vec::new());
    let mut request = PullMessagesRequest {
        conversation_id,
        from_seq: 1,
        limit: LOG_PAGE,
        at_least_seq,
        ..Default::default()
    };
    loop {
        let page = client.pull_messages(with_deadline(request.clone())).await?.into_inner();
        let (items, more) = request.advance(page);
        messages.extend(items);
        if !more {
            return Ok(messages);
        }
    }
}

/// Whether the node itself reports that the write was not applied.
fn is_certain(status: &Status) -> bool {
    use tonic_types::StatusExt as _;
    let info = status.get_details_error_info();
    info.is_some_and(|info| info.metadata.get("outcome").is_some_and(|outcome| outcome == "not_applied"))
}

/// The code's name in the protocol.
pub(super) fn name_of(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}
