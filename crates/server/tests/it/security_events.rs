//! Security events: the calls that leave a line in the log, and its content.

use std::{
    collections::HashSet,
    io,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use kith_proto::{
    admin::v1::{FlushMemoryRequest, InvalidateKeyRequest, admin_service_client::AdminServiceClient},
    group::v1 as groups,
    member::v1::{AddMembersRequest, Role, SetRoleRequest, member_service_client::MemberServiceClient},
    user::v1::{user_service_client::UserServiceClient, *},
};
use kith_server::auth::{Digest, Rights, Tokens, parse_scopes};
use serde_json::{Value, json};
use tonic::{Code, Request, transport::Channel};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::{Layer as _, filter::filter_fn, fmt::MakeWriter, layer::SubscriberExt as _};

use crate::{
    node::assert_error,
    secured_node::{ALL, NODE_PROOF, SecuredNode, acting, by, by_token, key_of},
    signing::{NAME, Signer},
};

const ANN: i64 = 7;
const BOB: i64 = 8;
const GROUP: i64 = 5;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// This thread's log lines: a test's node runs on it.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// A node that knows a caller with each preset, two users and the first user's group, and its events from now
/// on.
struct Stage {
    node: SecuredNode,
    lines: Lines,
    _log: DefaultGuard,
}

impl Stage {
    async fn with(presets: &[&str]) -> Self {
        Self::with_tokens(presets, Arc::new(Tokens::none())).await
    }

    async fn with_tokens(presets: &[&str], tokens: Arc<Tokens>) -> Self {
        let lines = Lines::default();
        let layer = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(lines.clone());
        let layer = layer.with_filter(filter_fn(|line| line.target() == "kith::audit"));
        let log = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let callers = presets.iter().map(|name| ((*name).to_owned(), parse_scopes([*name]).unwrap()));
        let node =
            SecuredNode::start_with(callers.chain([("few".to_owned(), Rights::NONE)]), tokens, |_| {}).await;
        let stage = Self { node, lines, _log: log };
        for (user_id, name) in [(ANN, "ann"), (BOB, "bob")] {
            stage.node.create_user(User { user_id, user_name: name.into(), ..Default::default() }).await;
        }
        let group = groups::Group {
            group_id: GROUP,
            creator_id: ANN,
            name: "secret plan".into(),
            ..Default::default()
        };
        stage.node.create_group(group).await;
        let request = AddMembersRequest { group_id: GROUP, user_ids: vec![BOB], ..Default::default() };
        stage.members().add_members(by(ALL, request)).await.unwrap();
        assert_eq!(stage.events(), [] as [Value; 0], "nothing of it is an event");
        stage
    }

    fn members(&self) -> MemberServiceClient<Channel> {
        MemberServiceClient::new(self.node.channel.clone())
    }

    fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.node.channel.clone())
    }

    /// Returns the events since the last call, without the fields that each line has. No line has a name, a
    /// text or a key.
    fn events(&self) -> Vec<Value> {
        let lines = String::from_utf8(std::mem::take(&mut *self.lines.0.lock().unwrap())).unwrap();
        for secret in ["ann", "secret plan", "key-of-the-tests", NODE_PROOF] {
            assert!(!lines.contains(secret), "{secret}: {lines}");
        }
        lines.lines().map(event).collect()
    }
}

fn event(line: &str) -> Value {
    let mut event: Value = serde_json::from_str(line).unwrap();
    let fields = event.as_object_mut().unwrap();
    assert_eq!(fields.remove("target"), Some(json!("kith::audit")));
    for field in ["timestamp", "level", "message"] {
        assert!(fields.remove(field).is_some(), "{line}");
    }
    event
}

fn key_id(caller: &str) -> String {
    Digest::of(key_of(caller).as_bytes()).key_id().to_string()
}

#[tokio::test]
async fn role_change_events_name_who_and_whom() {
    let stage = Stage::with(&["backend"]).await;
    let role = |role: Role| SetRoleRequest {
        group_id: GROUP,
        user_id: BOB,
        role: role.into(),
        request_id: format!("role-{}", i32::from(role)),
    };
    let mut request = acting("backend", ANN, role(Role::Admin));
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    stage.members().set_role(request).await.unwrap();
    let expected = json!({
        "event": "role_change", "caller": "backend", "key_id": key_id("backend"), "acting_user": ANN,
        "service": "kith.member.v1.MemberService", "method": "SetRole", "object": "group/5", "user": BOB,
        "request_id": format!("role-{}", i32::from(Role::Admin)), "trace_id": TRACE, "code": "OK",
    });
    assert_eq!(stage.events(), [expected]);
    // A refusal by the domain is an event, too.
    let refused = stage.members().set_role(acting("backend", BOB, role(Role::Member))).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let [found] = &stage.events()[..] else { panic!("one event") };
    let logged = (&found["event"], &found["acting_user"], &found["code"], &found["reason"]);
    assert_eq!(
        logged,
        (&json!("role_change"), &json!(BOB), &json!("PERMISSION_DENIED"), &json!("NOT_ALLOWED"))
    );
    let transfer = groups::TransferGroupRequest {
        group_id: GROUP,
        owner_id: BOB,
        request_id: "to bob@example.org".into(),
    };
    assert!(stage.node.groups().transfer_group(acting("backend", ANN, transfer.clone())).await.is_err());
    let [found] = &stage.events()[..] else { panic!("one event") };
    assert_eq!((&found["reason"], &found["request_id"]), (&json!("INVALID_FIELD"), &Value::Null));
    let transfer = groups::TransferGroupRequest { request_id: String::new(), ..transfer };
    stage.node.groups().transfer_group(acting("backend", ANN, transfer)).await.unwrap();
    let [found] = &stage.events()[..] else { panic!("one event") };
    let logged = (&found["event"], &found["object"], &found["user"], &found["code"]);
    assert_eq!(logged, (&json!("owner_change"), &json!("group/5"), &json!(BOB), &json!("OK")));
}

#[tokio::test]
async fn invite_code_events_have_no_code() {
    let stage = Stage::with(&["backend"]).await;
    let code = stage
        .node
        .groups()
        .get_invite_code(acting("backend", ANN, groups::GetInviteCodeRequest { group_id: GROUP }))
        .await
        .unwrap()
        .into_inner()
        .invite_code;
    let request = groups::RotateInviteCodeRequest { group_id: GROUP, ..Default::default() };
    stage.node.groups().rotate_invite_code(acting("backend", ANN, request)).await.unwrap();
    let events = stage.events();
    let logged: Vec<_> =
        events.iter().map(|event| (&event["event"], &event["method"], &event["object"])).collect();
    let (kind, object) = (&json!("invite_code"), &json!("group/5"));
    assert_eq!(logged, [(kind, &json!("GetInviteCode"), object), (kind, &json!("RotateInviteCode"), object)]);
    assert!(!code.is_empty() && !format!("{events:?}").contains(&code));
}

#[tokio::test]
async fn admin_writes_are_events_by_nodes_too() {
    let stage = Stage::with(&["operator"]).await;
    let key = |key: &str| InvalidateKeyRequest { key: key.into() };
    stage.admin().invalidate_key(by("operator", key("user/7"))).await.unwrap();
    stage.admin().invalidate_key(by("operator", key("user/ann"))).await.unwrap_err();
    let mut flush = Request::new(FlushMemoryRequest::default());
    flush.metadata_mut().insert("kith-node", NODE_PROOF.parse().unwrap());
    stage.admin().flush_memory(flush).await.unwrap();
    let events = stage.events();
    assert!(events.iter().all(|event| event["event"] == "admin_write"), "{events:?}");
    let logged = |field: &str| events.iter().map(|event| event[field].clone()).collect::<Vec<_>>();
    assert_eq!(logged("method"), ["InvalidateKey", "InvalidateKey", "FlushMemory"]);
    assert_eq!(logged("caller"), ["operator", "operator", "(node)"]);
    assert_eq!(logged("object"), [json!("user/7"), json!("user"), Value::Null]);
    assert_eq!(logged("code"), ["OK", "INVALID_ARGUMENT", "OK"]);
}

#[tokio::test]
async fn import_and_export_events_have_counts() {
    let stage = Stage::with(&[]).await;
    let record = |record: i64| {
        let user = User { user_name: format!("new{record}"), ..Default::default() };
        ImportUser { record, user: Some(user), request_id: String::new() }
    };
    let messages =
        [vec![record(1), record(2)], vec![record(3)]].map(|records| ImportUsersRequest { records });
    let mut answers =
        stage.node.users().import_users(by(ALL, futures::stream::iter(messages))).await.unwrap().into_inner();
    while answers.message().await.unwrap().is_some() {}
    let mut exported =
        stage.node.users().export_users(by(ALL, ExportUsersRequest::default())).await.unwrap().into_inner();
    while exported.message().await.unwrap().is_some() {}
    let events = stage.events();
    let logged: Vec<_> =
        events.iter().map(|event| (event["event"].as_str().unwrap(), event["records"].as_u64())).collect();
    let expected =
        [("import_begin", None), ("import_end", Some(3)), ("export_begin", None), ("export_end", Some(5))];
    assert_eq!(logged, expected);
    assert!(events.iter().all(|event| event["caller"] == "default" && event["key_id"] == key_id(ALL)));
    assert_eq!((&events[0]["code"], &events[1]["code"]), (&Value::Null, &json!("OK")));
}

#[tokio::test]
async fn import_that_is_given_up_has_an_end_too() {
    let stage = Stage::with(&[]).await;
    let record = ImportUser {
        record: 1,
        user: Some(User { user_name: "new".into(), ..Default::default() }),
        request_id: String::new(),
    };
    let messages = futures::stream::iter([ImportUsersRequest { records: vec![record] }]);
    let unending = futures::StreamExt::chain(messages, futures::stream::pending());
    // The call runs within this process: dropping it here drops it in the node.
    let mut users = UserServiceClient::new(stage.node.edge.clone());
    let mut answers = users.import_users(by(ALL, unending)).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some());
    drop(answers);
    let events = stage.events();
    let logged = |field: &str| events.iter().map(|event| event[field].clone()).collect::<Vec<_>>();
    assert_eq!(logged("event"), ["import_begin", "import_end"]);
    assert_eq!(
        (logged("code"), logged("records")),
        (vec![Value::Null, json!("CANCELLED")], vec![Value::Null, json!(1)])
    );
}

#[tokio::test]
async fn refused_calls_are_logged_once_then_counted() {
    let stage = Stage::with(&["backend"]).await;
    let get = GetUserRequest { user_id: ANN, consistency: None };
    for _ in 0..3 {
        stage.node.users().get_user(by("few", get.clone())).await.unwrap_err();
        stage.node.users().get_user(by("stranger", get.clone())).await.unwrap_err();
    }
    stage.node.users().get_user(Request::new(get.clone())).await.unwrap_err();
    stage.node.users().get_user(acting("few", BOB, get.clone())).await.unwrap_err();
    let create = CreateUserRequest::default();
    stage.node.users().create_user(acting("backend", ANN, create)).await.unwrap_err();
    let events = stage.events();
    let logged = |field: &str| events.iter().map(|event| event[field].clone()).collect::<Vec<_>>();
    assert!(events.iter().all(|event| event["event"] == "call_refused"), "{events:?}");
    assert_eq!(logged("caller"), ["few", "(unknown)", "(unknown)", "backend"]);
    assert_eq!(logged("cause"), ["scope", "unknown", "missing", "not_allowed"]);
    assert_eq!(
        logged("reason"),
        ["SCOPE_MISSING", "CREDENTIALS_REFUSED", "CREDENTIALS_MISSING", "NOT_ALLOWED"]
    );
    assert_eq!(logged("key_id"), [json!(key_id("few")), Value::Null, Value::Null, json!(key_id("backend"))]);
    assert_eq!(logged("acting_user"), [Value::Null, Value::Null, Value::Null, json!(ANN)]);
    stage.node.edge.report_refusals();
    let mut counted = stage.events();
    counted.sort_by_key(|event| event["caller"].to_string());
    let expected = [
        json!({ "event": "calls_refused", "caller": "(unknown)", "cause": "unknown", "refused": 2 }),
        json!({ "event": "calls_refused", "caller": "few", "cause": "scope", "refused": 3 }),
    ];
    assert_eq!(counted, expected);
    stage.node.edge.report_refusals();
    assert_eq!(stage.events(), [] as [Value; 0]);
}

/// The rule is only for the operator: every caller gets the same answer.
#[tokio::test]
async fn refused_token_names_its_rule_in_the_log_alone() {
    let (signer, stranger) = (Signer::new(1), Signer::new(2));
    let stage = Stage::with_tokens(&[], signer.tokens()).await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let good = json!({"iss": NAME, "aud": "kith", "sub": "7", "iat": now, "exp": now + 600});
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        signer.signed(&claims)
    };
    let wrong = [
        (with("exp", json!(now - 60)), "exp"),
        (with("aud", json!("other")), "aud"),
        (with("iss", json!("https://evil.test/")), "iss"),
        (with("iat", Value::Null), "no_iat"),
        (with("iat", json!(now + 100)), "iat"),
        (with("exp", json!(now + 100_000)), "lifetime"),
        (with("sub", json!("ben@example.org")), "user"),
        (stranger.signed(&good), "kid"),
        (with_other_signature(signer.signed(&good)), "signature"),
        ("a.b.c".to_owned(), "form"),
    ];
    let mut answers = HashSet::new();
    for (token, rule) in &wrong {
        for _ in 0..2 {
            let get = GetUserRequest { user_id: ANN, consistency: None };
            let refused = stage.node.users().get_user(by_token(token, get)).await;
            let refused = assert_error(refused, Code::Unauthenticated, "CREDENTIALS_REFUSED");
            answers.insert((refused.message().to_owned(), refused.details().to_vec()));
        }
        let [event] = &stage.events()[..] else { panic!("one event of {rule}") };
        assert_eq!((&event["cause"], &event["rule"]), (&json!("token"), &json!(rule)));
    }
    assert_eq!(answers.len(), 1, "one answer for every rule");
    stage.node.edge.report_refusals();
    let mut counted: Vec<_> = stage.events().iter().map(|event| event["rule"].to_string()).collect();
    counted.sort_unstable();
    let mut rules: Vec<_> = wrong.iter().map(|(_, rule)| json!(rule).to_string()).collect();
    rules.sort_unstable();
    assert_eq!(counted, rules);
}

fn with_other_signature(mut token: String) -> String {
    token.truncate(token.len() - 4);
    token + "AAAA"
}

#[tokio::test]
async fn what_changes_no_right_and_no_node_is_no_event() {
    let stage = Stage::with(&["backend", "login"]).await;
    let get = GetUserRequest { user_id: ANN, consistency: None };
    stage.node.users().get_user(acting("backend", ANN, get)).await.unwrap();
    let verify = VerifySecretRequest { user_id: ANN, name: "pwd".into(), secret: "guess".into() };
    stage.node.users().verify_secret(by("login", verify)).await.unwrap();
    stage.node.edge.report_refusals();
    assert_eq!(stage.events(), [] as [Value; 0]);
}
