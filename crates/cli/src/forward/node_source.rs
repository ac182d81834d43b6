//! Reads changes and records from a node.

use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use kith_forward::{Change, ChangeRecord, ChangeSource, Page, SourceError};
use kith_proto::change::v1::{
    GetCursorRequest, ReadChangesRequest, change_service_client::ChangeServiceClient,
};
use kith_server::json;
use prost_reflect::DynamicMessage;
use serde_json::value::{RawValue, to_raw_value};
use tonic::{Code, Request, Status, client::Grpc};
use tonic_types::StatusExt as _;

use super::records::{self, RecordCall};
use crate::{
    call::{
        codec::{DynamicCodec, path},
        methods::Methods,
    },
    client::{Channel, Target, may_pass, message_of},
};

/// A node, as the source of a forwarder.
pub(super) struct NodeSource {
    target: Target,
    channel: Channel,
    methods: Methods,
    kinds: Vec<i32>,
    /// Says what to do if the cursor has expired.
    expired: String,
}

impl NodeSource {
    /// Connects to a node. Fails if none answers.
    pub(super) async fn connect(target: &Target, kinds: Vec<i32>, expired: String) -> Result<Self> {
        let methods = Methods::built_in()?;
        Ok(Self { target: target.clone(), channel: target.connect().await?, methods, kinds, expired })
    }

    /// Returns a cursor at the present end. Fails if the node refuses it.
    pub(super) async fn end(&self) -> Result<String> {
        let mut client = ChangeServiceClient::new(self.channel.clone());
        let request = self.target.request(GetCursorRequest {});
        let answer = self.target.response(client.get_cursor(request)).await;
        Ok(answer.context("there is no cursor to begin from")?.cursor)
    }

    fn refusal(&self, status: &Status) -> SourceError {
        let text = format!("{} answers {:?}: {}", self.target.addr, status.code(), message_of(status));
        let reason = status.get_error_details().error_info().map(|info| info.reason.clone());
        match status.code() {
            Code::FailedPrecondition if reason.as_deref() == Some("CURSOR_EXPIRED") => {
                SourceError::Refused(format!("{text}; {}", self.expired))
            }
            Code::FailedPrecondition
            | Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented => SourceError::Refused(text),
            _ => SourceError::Away(text),
        }
    }

    /// The answer to the call that reads a record.
    async fn answer(&self, call: &RecordCall) -> Result<DynamicMessage, Status> {
        let internal = |error: anyhow::Error| Status::internal(error.to_string());
        let method = self.methods.find(call.method).map_err(internal)?;
        let request =
            json::message(&method.input(), call.request.to_string().as_bytes()).map_err(|status| *status)?;
        let mut request = Request::new(request);
        request.set_timeout(self.target.options.answer_limit());
        let mut client = Grpc::new(self.channel.clone());
        let answered = async {
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            client.unary(request, path(&method)?, DynamicCodec::of(&method)).await
        };
        Ok(self.target.answer(answered).await?.into_inner())
    }
}

#[async_trait]
impl ChangeSource for NodeSource {
    async fn page(&self, cursor: &str, limit: usize) -> Result<Page, SourceError> {
        let limit = i32::try_from(limit).unwrap_or_default();
        let request = ReadChangesRequest { cursor: cursor.to_owned(), kinds: self.kinds.clone(), limit };
        let mut client = ChangeServiceClient::new(self.channel.clone());
        let answered = self.target.answer(client.read_changes(self.target.request(request))).await;
        let page = answered.map_err(|status| self.refusal(&status))?.into_inner();
        let wait = page.ask_again_after.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or_default();
        let changes = page.changes.iter().map(records::forwarded).collect();
        Ok(Page { changes, cursor: page.cursor, wait })
    }

    async fn record(&self, change: &Change) -> Result<ChangeRecord, SourceError> {
        let Some(call) = records::call(change) else { return Ok(ChangeRecord::KeyAlone) };
        match self.answer(&call).await {
            Ok(answer) => record_in(&answer, call.field),
            Err(status) => match status.code() {
                Code::NotFound => Ok(ChangeRecord::Removed),
                Code::PermissionDenied | Code::Unauthenticated => Err(self.refusal(&status)),
                code if may_pass(code) => Err(self.refusal(&status)),
                code => {
                    Err(SourceError::Failed(format!("{} answers {code:?} for this record", self.target.addr)))
                }
            },
        }
    }
}

/// Takes the record out of an answer.
fn record_in(answer: &DynamicMessage, field: &str) -> Result<ChangeRecord, SourceError> {
    let is_cut = answer.get_field_by_name("more").is_some_and(|more| more.as_bool() == Some(true));
    if is_cut {
        return Ok(ChangeRecord::TooLarge);
    }
    let failed = || SourceError::Failed("the node's answer cannot be written as JSON".to_owned());
    let mut answer: std::collections::BTreeMap<String, Box<RawValue>> =
        to_raw_value(answer).and_then(|text| serde_json::from_str(text.get())).map_err(|_| failed())?;
    // An empty list is absent in JSON.
    let empty = || RawValue::from_string("[]".to_owned()).map_err(|_| failed());
    answer.remove(field).map_or_else(empty, Ok).map(ChangeRecord::Present)
}
