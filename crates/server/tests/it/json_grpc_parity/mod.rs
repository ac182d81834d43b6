//! Makes calls twice, as JSON on one node and as gRPC on another, and makes their answers comparable.

pub mod generate;
pub mod raw;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use serde_json::{Map, Value, json};
use tonic::{Request, Status};
use tonic_types::pb;

use crate::{
    contract,
    http::{Answer, Connection},
    node::TestNode,
};

/// Fields that differ, and may be 0 or false and left out: reads in one call that miss the same record at
/// once may share a load, and upkeep writes when it is due, after which a conversation has no `trim`.
const COUNTED: [&str; 11] = [
    "entries",
    "weightBytes",
    "hits",
    "misses",
    "joined",
    "loads",
    "storeReads",
    "resyncChecked",
    "invalidations",
    "trim",
    "storeFreeBytes",
];
/// Fields that differ between nodes and moments.
const VARYING: [&str; 32] = [
    "lastTime",
    "time",
    "banTime",
    "createTime",
    "updateTime",
    "startTime",
    "followTime",
    "joinTime",
    "expireTime",
    "publishTime",
    "decideTime",
    "applicationId",
    "eventId",
    "blockTime",
    "age",
    "ttl",
    "nodeId",
    "consistencyToken",
    "p50",
    "p99",
    "nextPageToken",
    "inviteCode",
    "evictions",
    "mutationsInFlight",
    "applied",
    "sessionVersion",
    "sendTime",
    "editTime",
    "doNotDisturbTime",
    "pinTime",
    "gatewayToken",
    "tokensIssuedFrom",
];

/// A unary method.
#[derive(Clone)]
pub struct Rpc {
    pub path: String,
    pub input: MessageDescriptor,
    output: MessageDescriptor,
}

/// Returns every unary method in the contract.
pub fn rpcs() -> Vec<Rpc> {
    let rpc = |method: MethodDescriptor| Rpc {
        path: contract::path_of(&method),
        input: method.input(),
        output: method.output(),
    };
    contract::methods().into_iter().filter(contract::is_unary).map(rpc).collect()
}

/// A call's result, in one form for both protocols.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub code: String,
    pub message: String,
    details: Vec<(String, String)>,
    pub answer: Value,
    pub tier: Option<String>,
    version: Option<String>,
}

impl Outcome {
    /// Returns an error's reason.
    pub fn reason(&self) -> Option<String> {
        let (_, value) = self.details.iter().find(|(kind, _)| kind == "google.rpc.ErrorInfo")?;
        Some(pb::ErrorInfo::decode(STANDARD_NO_PAD.decode(value).unwrap().as_slice()).unwrap().reason)
    }

    /// Returns the field that an error names.
    pub fn field(&self) -> Option<String> {
        let (_, value) = self.details.iter().find(|(kind, _)| kind == "google.rpc.BadRequest")?;
        let bad = pb::BadRequest::decode(STANDARD_NO_PAD.decode(value).unwrap().as_slice()).unwrap();
        Some(bad.field_violations[0].field.clone())
    }
}

/// Calls a method by JSON.
pub async fn by_json(
    connection: &mut Connection<tokio::net::TcpStream>,
    rpc: &Rpc,
    headers: &[(&str, &str)],
    body: &Value,
) -> Outcome {
    let headers = [&[crate::http::JSON], headers].concat();
    let answer = connection.post(&rpc.path, &headers, body.to_string()).await;
    let json = answer.json();
    let trailer = |name| answer.header(name).map(str::to_owned);
    let (tier, version) = (trailer("trailer-kith-tier"), trailer("trailer-kith-version"));
    if answer.code == 200 {
        let answer = masked(json);
        return Outcome { code: "ok".into(), message: String::new(), details: vec![], answer, tier, version };
    }
    failed(&answer, &json)
}

fn failed(answer: &Answer, json: &Value) -> Outcome {
    assert!(answer.code >= 400, "{answer:?}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let details = json["details"].as_array().cloned().unwrap_or_default();
    Outcome {
        code: text(&json["code"]),
        message: text(&json["message"]),
        details: details.iter().map(|detail| (text(&detail["type"]), text(&detail["value"]))).collect(),
        answer: Value::Null,
        tier: None,
        version: None,
    }
}

/// Calls a method by gRPC.
pub async fn by_grpc(
    node: &TestNode,
    rpc: &Rpc,
    headers: &[(&str, &str)],
    message: &DynamicMessage,
) -> Outcome {
    let mut request = Request::new(message.encode_to_vec());
    for (name, value) in headers {
        let name: tonic::metadata::AsciiMetadataKey = name.parse().unwrap();
        request.metadata_mut().insert(name, value.parse().unwrap());
    }
    match raw::call(&node.channel, &rpc.path, request).await {
        Ok(response) => {
            let trailer =
                |name| response.metadata().get(name).map(|value| value.to_str().unwrap().to_owned());
            let message = DynamicMessage::decode(rpc.output.clone(), response.get_ref().as_slice()).unwrap();
            Outcome {
                code: "ok".into(),
                message: String::new(),
                details: vec![],
                answer: masked(serde_json::to_value(&message).unwrap()),
                tier: trailer("kith-tier"),
                version: trailer("kith-version"),
            }
        }
        Err(status) => refused(&status),
    }
}

fn refused(status: &Status) -> Outcome {
    let details = pb::Status::decode(status.details()).unwrap().details;
    let name = |url: &str| url.rsplit('/').next().unwrap().to_owned();
    Outcome {
        code: snake_case(&format!("{:?}", status.code())),
        message: status.message().to_owned(),
        details: details
            .iter()
            .map(|any| (name(&any.type_url), STANDARD_NO_PAD.encode(&any.value)))
            .collect(),
        answer: Value::Null,
        tier: None,
        version: None,
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Masks varying fields, so that only their presence counts, and removes [`COUNTED`] fields.
fn masked(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(name, _)| !COUNTED.contains(&name.as_str()));
            let mask = |(name, value): (String, Value)| {
                let value = if is_varying(&name, &value) { json!("masked") } else { masked(value) };
                (name, value)
            };
            Value::Object(fields.map(mask).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(masked).collect()),
        other => other,
    }
}

/// Returns whether a field varies. A user's age is a number and stays; a copy's age is a duration.
fn is_varying(name: &str, value: &Value) -> bool {
    VARYING.contains(&name) && !(name == "age" && value.is_number())
}
