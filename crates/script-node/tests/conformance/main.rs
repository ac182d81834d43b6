//! Plays the cases of `clients/conformance` on the node of the script, with the client for Rust.

#![expect(clippy::unwrap_used, reason = "a wrong case fails the test")]

mod near;

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Buf, BufMut};
use futures::{FutureExt as _, StreamExt as _, stream::BoxStream};
use kith_client::{
    Client, Error, State,
    proto::{
        message::v1::{self as message, delivery::What, message_service_client::MessageServiceClient},
        relation::v1 as relation,
        user::v1 as user,
    },
};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor};
use serde_json::{Value, json};
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// The program; it ends when its input does.
struct Script {
    address: String,
    process: Child,
    _input: ChildStdin,
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.process.kill());
    }
}

impl Script {
    fn start(cases: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kith-script"));
        let mut process = command.arg(cases).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").to_owned();
        Self { address, _input: process.stdin.take().unwrap(), process }
    }

    fn ask(&self, request: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{request} HTTP/1.1\r\nhost: script\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

/// A case that is played.
struct Play {
    client: Client,
    sessions: HashMap<String, Client>,
    exports: HashMap<String, String>,
    pool: DescriptorPool,
    asked: Arc<AtomicUsize>,
    warned: Arc<AtomicUsize>,
}

type Outcome = Result<(), String>;

fn differs(what: &str, found: impl std::fmt::Debug, wanted: impl std::fmt::Debug) -> Outcome {
    Err(format!("{what}: {found:?}, wanted {wanted:?}"))
}

/// Compares what the case has of an error.
fn check_error(status: &Status, wanted: &Value) -> Outcome {
    let Error { code, reason, field, outcome, until, retry_delay, .. } = Error::from(status);
    let found = json!({"code": format!("{code:?}").to_lowercase(), "reason": reason, "field": field, "outcome": outcome,
        "until": until, "retry_ms": retry_delay.map(|delay| u64::try_from(delay.as_millis()).unwrap())});
    for (name, value) in wanted.as_object().into_iter().flatten() {
        let value =
            if name == "code" { json!(value.as_str().unwrap().replace('_', "")) } else { value.clone() };
        if found[name] != value {
            return differs(name, (&found[name], status), value);
        }
    }
    if wanted.is_null() { Err(format!("an error: {status:?}")) } else { Ok(()) }
}

impl Play {
    fn new(begun: &Value) -> Self {
        let options = &begun["case"]["client"];
        let (asked, warned) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&warned);
        let mut builder = Client::builder()
            .address(begun["address"].as_str().unwrap())
            .key(options["key"].as_str().unwrap_or("script-key"))
            .pause(Duration::from_millis(options["pause_ms"].as_u64().unwrap_or(1)))
            .on_older_node(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        if let Some(contract) = options["contract"].as_u64() {
            builder = builder.contract(u32::try_from(contract).unwrap());
        }
        if let Some(tokens) = options["tokens"].as_array().cloned() {
            let count = Arc::clone(&asked);
            builder = builder.tokens(move || {
                let next = &tokens[count.fetch_add(1, Ordering::Relaxed).min(tokens.len() - 1)];
                let expires_in = Duration::from_millis(next["expires_in_ms"].as_u64().unwrap());
                let token = next["token"].as_str().unwrap().to_owned();
                async move { Ok((token, expires_in)) }
            });
        }
        let mut client = builder.connect().unwrap();
        if let Some(user) = options["acting_user"].as_i64() {
            client = client.acting_as(user);
        }
        if let Some(deadline) = options["deadline_ms"].as_u64() {
            client = client.with_deadline(Duration::from_millis(deadline));
        }
        let mut pool = DescriptorPool::new();
        pool.decode_file_descriptor_set(kith_client::proto::DESCRIPTOR_SET).unwrap();
        Self { client, sessions: HashMap::new(), exports: HashMap::new(), pool, asked, warned }
    }

    fn method(&self, step: &Value) -> MethodDescriptor {
        let name = ["call", "stream", "pages", "batch"].iter().find_map(|kind| step[*kind].as_str()).unwrap();
        let (service, method) = name.split_once('/').unwrap();
        self.pool
            .get_service_by_name(service)
            .unwrap()
            .methods()
            .find(|found| found.name() == method)
            .unwrap()
    }

    async fn step(&mut self, step: &Value) -> Outcome {
        let mut client = self.client.clone();
        if let Some(name) = step["session"].as_str() {
            client = self.sessions.entry(name.to_owned()).or_insert_with(|| client.session()).clone();
        }
        if let Some(user) = step["acting_user"].as_i64() {
            client = client.acting_as(user);
        }
        if let Some(deadline) = step["deadline_ms"].as_u64() {
            client = client.with_deadline(Duration::from_millis(deadline));
        }
        if let Some(steps) = step["together"].as_array() {
            return self.together(steps).await;
        }
        if let Some(name) = step["export"].as_str() {
            self.exports.insert(name.to_owned(), self.sessions[name].export_session());
        } else if let Some(name) = step["import"].as_str() {
            let exported = &self.exports[step["of"].as_str().unwrap()];
            self.sessions.insert(name.to_owned(), client.resume_session(exported));
        } else if let Some(time) = step["wait_ms"].as_u64() {
            tokio::time::sleep(Duration::from_millis(time)).await;
        } else if let Some(wanted) = step["tokens_asked"].as_u64() {
            return same("tokens asked", self.asked.load(Ordering::Relaxed) as u64, wanted);
        } else if let Some(wanted) = step["warned"].as_u64() {
            return same("warnings", self.warned.load(Ordering::Relaxed) as u64, wanted);
        } else if step["receive"].is_object() {
            return receive(&client, step).await;
        } else {
            let method = self.method(step);
            return if step["call"].is_string() {
                call(client, &method, step).await
            } else {
                listed(client, &method, step).await
            };
        }
        Ok(())
    }

    /// The sessions exist before, so that both steps share them.
    async fn together(&mut self, steps: &[Value]) -> Outcome {
        for name in steps.iter().filter_map(|step| step["session"].as_str()) {
            let client = self.client.clone();
            self.sessions.entry(name.to_owned()).or_insert_with(|| client.session());
        }
        let calls = steps.iter().map(|step| {
            let client = step["session"].as_str().map_or(&self.client, |name| &self.sessions[name]);
            let (client, method) = (client.clone(), self.method(step));
            async move { call(client, &method, step).await }.boxed()
        });
        futures::future::join_all(calls).await.into_iter().collect()
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Outcome {
    if found == wanted { Ok(()) } else { differs(what, found, wanted) }
}

fn read(descriptor: MessageDescriptor, value: &Value) -> DynamicMessage {
    DynamicMessage::deserialize(descriptor, value).unwrap()
}

/// Messages by their descriptors.
#[derive(Clone)]
struct ByDescriptor(MessageDescriptor);

impl Codec for ByDescriptor {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;
    fn encoder(&mut self) -> Self {
        self.clone()
    }
    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for ByDescriptor {
    type Item = DynamicMessage;
    type Error = Status;
    fn encode(&mut self, item: DynamicMessage, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&item.encode_to_vec());
        Ok(())
    }
}

impl Decoder for ByDescriptor {
    type Item = DynamicMessage;
    type Error = Status;
    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        Ok(Some(
            DynamicMessage::decode(self.0.clone(), bytes)
                .map_err(|why| Status::data_loss(why.to_string()))?,
        ))
    }
}

async fn call(client: Client, method: &MethodDescriptor, step: &Value) -> Outcome {
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name()).parse().unwrap();
    let mut grpc = Grpc::new(client);
    grpc.ready().await.unwrap();
    let request = Request::new(read(method.input(), &step["request"]));
    match grpc.unary(request, path, ByDescriptor(method.output())).await {
        Ok(answer) if step["error"].is_null() => {
            same("the answer", answer.into_inner(), read(method.output(), &step["answer"]))
        }
        Ok(answer) => differs("answered", answer.into_inner(), &step["error"]),
        Err(status) => check_error(&status, &step["error"]),
    }
}

fn typed<T: Message + Default>(method: &MethodDescriptor, step: &Value) -> T {
    read(method.input(), &step["request"]).transcode_to().unwrap()
}

/// Compares elements by their JSON, as messages of the kind of the wanted ones.
fn check_items<T: Message>(found: &[T], name: &str, method: &MethodDescriptor, wanted: &Value) -> Outcome {
    let kind = method.parent_pool().get_message_by_name(name).unwrap();
    let wanted: Vec<_> =
        wanted.as_array().unwrap().iter().map(|item| read(kind.clone(), item).encode_to_vec()).collect();
    same("items", found.iter().map(Message::encode_to_vec).collect::<Vec<_>>(), wanted)
}

async fn listed(client: Client, method: &MethodDescriptor, step: &Value) -> Outcome {
    let kind = "kith.message.v1.Message";
    match method.name() {
        "ListFollowing" => {
            let request: relation::ListFollowingRequest = typed(method, step);
            all(client.pages(request).boxed(), "kith.relation.v1.Follow", method, step).await
        }
        "PullMessages" => {
            let request: message::PullMessagesRequest = typed(method, step);
            all(client.pages(request).boxed(), kind, method, step).await
        }
        "History" => {
            let request: message::HistoryRequest = typed(method, step);
            all(client.pages(request).boxed(), kind, method, step).await
        }
        "ExportUsers" => {
            let request: user::ExportUsersRequest = typed(method, step);
            all(client.pages(request).boxed(), "kith.user.v1.User", method, step).await
        }
        "BatchGetUsers" => {
            let request: user::BatchGetUsersRequest = typed(method, step);
            let results = client.batch(request).boxed().await.map_err(|status| status.to_string())?;
            let wanted: user::BatchGetUsersResponse =
                read(method.output(), &step["answer"]).transcode_to().unwrap();
            same("results", results, wanted.results)
        }
        "WatchOffline" => {
            let stub = MessageServiceClient::new(client);
            watched(stub, method, step).await.unwrap_or_else(|status| Err(status.to_string()))
        }
        other => Err(format!("the runner has no list {other}")),
    }
}

async fn watched(
    mut stub: MessageServiceClient<Client>,
    method: &MethodDescriptor,
    step: &Value,
) -> Result<Outcome, Status> {
    let mut stream =
        stub.watch_offline(typed::<message::WatchOfflineRequest>(method, step)).await?.into_inner();
    let mut found = Vec::new();
    while found.len() < usize::try_from(step["take"].as_u64().unwrap()).unwrap() {
        found.extend(stream.message().await?);
    }
    Ok(check_items(&found, "kith.message.v1.WatchOfflineResponse", method, &step["answers"]))
}

async fn all<T: Message>(
    mut items: BoxStream<'_, Result<T, Status>>,
    kind: &str,
    method: &MethodDescriptor,
    step: &Value,
) -> Outcome {
    let mut found = Vec::new();
    while let Some(item) = items.next().await {
        match item {
            Ok(item) => found.push(item),
            Err(status) => check_error(&status, &step["error"])?,
        }
    }
    check_items(&found, kind, method, &step["items"])
}

fn state(value: &Value) -> State {
    let positions = value["positions"].as_object().into_iter().flatten();
    let positions = positions.map(|(id, seq)| (id.clone(), seq.as_i64().unwrap())).collect();
    State { cursor: value["cursor"].as_str().unwrap_or_default().to_owned(), positions }
}

async fn receive(client: &Client, step: &Value) -> Outcome {
    let request = message::ReceiveRequest {
        user_id: step["receive"]["userId"].as_i64().unwrap(),
        ..Default::default()
    };
    let mut events = client.receive(request, state(&step["state"])).boxed();
    let (mut found, mut missed, mut resets, mut last) = (Vec::new(), Vec::new(), 0, State::default());
    let wanted = |name: &str| step[name].as_array().map_or(0, Vec::len);
    let is_done = |found: usize, missed: usize, resets: u64| {
        found >= wanted("messages")
            && missed >= wanted("missed")
            && resets >= step["resets"].as_u64().unwrap_or(0)
    };
    loop {
        if step["error"].is_null()
            && is_done(found.len(), missed.len(), resets)
            && last == state(&step["end"])
        {
            break;
        }
        match tokio::time::timeout(Duration::from_secs(3), events.next()).await {
            Err(_) | Ok(None) => return differs("received", (found, missed, resets, last), step),
            Ok(Some(Err(status))) => {
                check_error(&status, &step["error"])?;
                break;
            }
            Ok(Some(Ok(received))) => {
                for event in received.events {
                    match event {
                        What::Message(one) => found.push(format!("{}/{}", one.conversation_id, one.seq)),
                        What::Missed(one) => {
                            missed.push(format!("{}/{}-{}", one.conversation_id, one.from_seq, one.to_seq))
                        }
                        What::Reset(_) => resets += 1,
                        _ => {}
                    }
                }
                last = received.state;
            }
        }
    }
    same("messages", json!(found), step["messages"].as_array().map_or(json!([]), |list| json!(list)))?;
    same("missed", json!(missed), step["missed"].as_array().map_or(json!([]), |list| json!(list)))?;
    same("the state", last, state(&step["end"]))
}

#[tokio::test]
async fn every_case_is_passed() {
    let script = Script::start(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/conformance")));
    let mut failed = Vec::new();
    let cases = script.ask("GET /cases");
    for name in cases.as_array().unwrap().iter().map(|name| name.as_str().unwrap()) {
        let begun = script.ask(&format!("POST /begin/{name}"));
        if begun["case"]["for"].as_str().unwrap_or("service") != "service" {
            continue;
        }
        let mut play = Play::new(&begun);
        let mut outcome = Ok(());
        for step in begun["case"]["steps"].as_array().unwrap() {
            outcome = play.step(step).await;
            if outcome.is_err() {
                break;
            }
        }
        drop(play);
        let verdict = script.ask(&format!("POST /end/{}", begun["run"]));
        if outcome.is_err() || verdict["wrong"] != json!([]) {
            failed.push(format!("{name}: {outcome:?} {}", verdict["wrong"]));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
