//! Every method in the contract is called by every kind of principal. The expected result follows only from
//! the method's option, so a check that is missing in the edge or in a domain is a cell that fails.

mod absent;
mod known;
mod presets;
mod repeated;
pub(crate) mod requests;
mod streams;
mod wrong_fields;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use kith_proto::r#type::v1::{Access, Action, Users};
use kith_server::{
    auth::{Rights, Scope},
    descriptors, json,
};
use prost::Message as _;
use prost_reflect::{DynamicMessage, MethodDescriptor, ReflectMessage as _, Value};
use serde_json::json;
use tonic::Status;
use tonic_types::StatusExt as _;

use self::requests::{ME, OTHER, REQUESTS, SHOWN_TO_STRANGERS, SPARE};
use crate::{
    contract,
    edge::raw::framed,
    http,
    secured_node::{NODE_PROOF, SecuredNode, all_but, bearer},
    signing::Signer,
    sockets::Socket,
};

/// A method, as the matrix calls it.
struct Cell {
    path: String,
    /// The service and method, such as `UserService/GetUser`.
    name: String,
    method: MethodDescriptor,
    access: Access,
    scope: Scope,
    /// The scope to call for itself; `None`: the scope implies it.
    own: Option<Scope>,
    request: DynamicMessage,
}

/// The kind of caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallerKind {
    /// A caller without a credential.
    Nothing,
    /// A key that the node does not know.
    WrongKey,
    /// A key with every scope except the method's.
    WithoutScope,
    /// A key with the method's scope, and `own`.
    Itself,
    /// A key with the method's scope, and `own`, which acts for a user.
    ItselfForUser,
    /// A key with the method's scope, and `act`, for no user.
    ForNoUser,
    /// A key with the method's scope, and `act`, for the user in the self field, who owns the object.
    ForSelf,
    /// A key with the method's scope, and `act`, for another user than in the self field, or a stranger to
    /// the object.
    ForOther,
    /// A key with the administration scopes.
    Operator,
    /// Another cluster node.
    Node,
    /// A token for the user in the self field, who owns the object.
    User,
    /// A token for another user than in the self field, or for a stranger to the object.
    UserForOther,
}

/// Numbers for gateways.
static GATEWAYS: AtomicU32 = AtomicU32::new(0);
/// Deviations from the contract.
static WRONG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Callers that a method refuses come first: accepted calls change the known data.
const PRINCIPALS: [CallerKind; 12] = [
    CallerKind::Nothing,
    CallerKind::WrongKey,
    CallerKind::WithoutScope,
    CallerKind::ItselfForUser,
    CallerKind::ForNoUser,
    CallerKind::Node,
    CallerKind::Operator,
    CallerKind::ForOther,
    CallerKind::UserForOther,
    CallerKind::ForSelf,
    CallerKind::Itself,
    CallerKind::User,
];

/// The expected result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The call passes every check of rights. It may fail otherwise.
    Taken,
    /// The call is refused for this reason.
    Refused(&'static str),
    /// The domain does not show the object, or refuses.
    Hidden,
}

impl Cell {
    /// Returns a cell for every method in the contract.
    fn all(replacements: &BTreeMap<&str, String>) -> Vec<Self> {
        contract::methods().into_iter().map(|method| Self::of(method, replacements)).collect()
    }

    fn of(method: MethodDescriptor, replacements: &BTreeMap<&str, String>) -> Self {
        let service = method.parent_service();
        let name = format!("{}/{}", service.name(), method.name());
        let access = descriptors::access(&method).unwrap_or_else(|| panic!("{name} has a rule"));
        let (scope, own) = scopes(service.full_name().split('.').nth(1).unwrap(), access.action());
        let text = REQUESTS.iter().find(|(known, _)| *known == name);
        let mut text = text.unwrap_or_else(|| panic!("a request of {name}")).1.to_owned();
        for (from, to) in replacements {
            text = text.replace(from, to);
        }
        let request =
            json::message(&method.input(), text.as_bytes()).unwrap_or_else(|why| panic!("{name}: {why}"));
        let path = contract::path_of(&method);
        Self { path, name, method, access, scope, own, request }
    }

    /// Makes the request. If the method has a self field, it names the user.
    fn request(&self, user: i64) -> DynamicMessage {
        let mut request = self.request.clone();
        if !self.access.self_field.is_empty() {
            set(&mut request, &self.access.self_field, user);
        }
        // A gateway belongs to the caller that named it first.
        if request.descriptor().get_field_by_name("gateway_id").is_some() {
            let number = GATEWAYS.fetch_add(1, Ordering::Relaxed);
            request.set_field_by_name("gateway_id", Value::String(format!("gw-{number}")));
        }
        request
    }

    fn me(&self) -> i64 {
        if self.method.name() == "DeleteUser" { SPARE } else { ME }
    }

    /// Returns the user in the request, and the acting user.
    fn users(&self, by: CallerKind) -> (i64, Option<i64>) {
        let me = self.me();
        match by {
            CallerKind::ForOther | CallerKind::UserForOther if self.access.self_field.is_empty() => {
                (me, Some(OTHER))
            }
            CallerKind::ForOther | CallerKind::UserForOther => (OTHER, Some(me)),
            CallerKind::ForSelf | CallerKind::ItselfForUser | CallerKind::User => (me, Some(me)),
            _ => (me, None),
        }
    }

    fn headers(&self, by: CallerKind) -> Vec<(&'static str, String)> {
        let caller = |kind: &str| ("authorization", bearer(&format!("{kind}-{}", self.scope)));
        if matches!(by, CallerKind::User | CallerKind::UserForOther) {
            return vec![("authorization", format!("Bearer {}", self.token(by)))];
        }
        let mut headers = match by {
            CallerKind::User | CallerKind::UserForOther | CallerKind::Nothing => vec![],
            CallerKind::WrongKey => vec![("authorization", bearer("unknown"))],
            CallerKind::WithoutScope => vec![caller("without")],
            CallerKind::Itself | CallerKind::ItselfForUser => vec![caller("own")],
            CallerKind::ForNoUser | CallerKind::ForSelf | CallerKind::ForOther => vec![caller("act")],
            CallerKind::Operator => vec![("authorization", bearer("operator"))],
            CallerKind::Node => vec![("kith-node", NODE_PROOF.to_owned())],
        };
        headers.extend(self.users(by).1.map(|user| ("kith-acting-user", user.to_string())));
        headers
    }

    fn expected(&self, by: CallerKind) -> Expected {
        use Expected::{Hidden, Refused, Taken};
        let for_services = self.access.users() == Users::None;
        let of_admin = matches!(self.access.action(), Action::AdminRead | Action::AdminWrite);
        match by {
            CallerKind::User | CallerKind::UserForOther if !self.is_for_users() => Refused("SCOPE_MISSING"),
            CallerKind::User | CallerKind::UserForOther if for_services => Refused("NOT_ALLOWED"),
            CallerKind::Nothing => Refused("CREDENTIALS_MISSING"),
            CallerKind::WrongKey => Refused("CREDENTIALS_REFUSED"),
            CallerKind::WithoutScope => Refused("SCOPE_MISSING"),
            CallerKind::ItselfForUser => Refused("ACTING_USER_REFUSED"),
            CallerKind::ForNoUser if self.own.is_some() && for_services => Refused("SCOPE_MISSING"),
            CallerKind::ForNoUser if self.own.is_some() => Refused("ACTING_USER_NEEDED"),
            CallerKind::Operator if !of_admin => Refused("SCOPE_MISSING"),
            CallerKind::Node
                if !["InspectKey", "FlushMemory", "ReadCanary"].contains(&self.method.name()) =>
            {
                Refused("NOT_ALLOWED")
            }
            CallerKind::ForSelf | CallerKind::ForOther if for_services => Refused("NOT_ALLOWED"),
            CallerKind::ForOther | CallerKind::UserForOther if !self.access.self_field.is_empty() => {
                Refused("NOT_ALLOWED")
            }
            CallerKind::ForOther | CallerKind::UserForOther if self.access.users() == Users::Object => {
                if SHOWN_TO_STRANGERS.contains(&self.name.as_str()) {
                    Taken
                } else {
                    Hidden
                }
            }
            _ => Taken,
        }
    }

    /// Returns whether the design lets users call it: reads and writes in every domain except sequences, and
    /// invite codes.
    fn is_for_users(&self) -> bool {
        let (domain, verb) = self.scope.text().split_once(':').unwrap();
        let reads_or_writes = ["read", "write"].contains(&verb) && !["sequence", "admin"].contains(&domain);
        reads_or_writes || self.scope == Scope::GroupSecret
    }

    fn token(&self, by: CallerKind) -> String {
        Signer::new(1).token(self.users(by).1.unwrap_or(ME))
    }

    fn check(&self, by: CallerKind, how: &str, reason: Option<&str>) {
        // The first deletion ends its user's tokens.
        let ended = self.method.name() == "DeleteUser" && reason == Some("CREDENTIALS_REFUSED");
        let right = match self.expected(by) {
            Expected::Taken if by == CallerKind::User && ended => true,
            Expected::Taken => !reason.is_some_and(is_of_rights),
            Expected::Refused(wanted) => reason == Some(wanted),
            Expected::Hidden => matches!(reason, Some("NOT_ALLOWED" | "NOT_FOUND")),
        };
        if !right {
            let wrong = format!("{} {by:?} {how}: {:?}, got {reason:?}", self.name, self.expected(by));
            WRONG.lock().unwrap().push(wrong);
        }
    }

    async fn grpc(&self, node: &SecuredNode, by: CallerKind) {
        let headers = self.headers(by);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = framed(&self.request(self.users(by).0).encode_to_vec());
        let answer = node.grpc(&self.path, &headers, body).await;
        self.check(by, "gRPC", answer.as_ref().map(reason).as_deref());
    }

    /// Calls as JSON and checks the HTTP code and the reason.
    async fn json(&self, node: &SecuredNode, by: CallerKind) {
        let headers = self.headers(by);
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(http::JSON);
        let text = serde_json::to_string(&self.request(self.users(by).0)).unwrap();
        let answer = http::send(node.address, "POST", &self.path, &headers, text).await;
        if let Expected::Refused(reason) = self.expected(by) {
            let unauthenticated = reason.starts_with("CREDENTIALS");
            assert_eq!(answer.code, if unauthenticated { 401 } else { 403 }, "{} {by:?}", self.name);
            assert_eq!(
                answer.header("www-authenticate"),
                unauthenticated.then_some("Bearer"),
                "{}",
                self.name
            );
        }
        self.check(by, "JSON", (answer.code != 200).then(|| answer.reason()).as_deref());
    }

    async fn grpc_web(&self, node: &SecuredNode, by: CallerKind) {
        let headers = self.headers(by);
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("content-type", "application/grpc-web+proto"));
        let body = framed(&self.request(self.users(by).0).encode_to_vec());
        let answer = http::send(node.address, "POST", &self.path, &headers, body).await;
        self.check(by, "gRPC-Web", web_status(&answer).as_ref().map(reason).as_deref());
    }

    /// Calls over the user's socket. Sockets accept only user calls, and not all of them.
    async fn socket(&self, node: &SecuredNode, by: CallerKind) {
        let mut socket =
            Socket::greeted(node.address, &json!({"credential": self.token(by), "list": false})).await;
        socket.until("live").await;
        let name = self.name.replace('/', ".");
        let body = serde_json::to_value(self.request(self.users(by).0)).unwrap();
        let frame = socket.call(&name, &body).await;
        let reason = frame["error"]["reason"].as_str();
        match self.expected(by) {
            Expected::Refused("SCOPE_MISSING") => assert_eq!(reason, Some("METHOD_UNKNOWN"), "{name}"),
            Expected::Refused(_) if self.access.users() == Users::None => {
                assert_eq!(reason, Some("METHOD_UNKNOWN"), "{name}");
            }
            _ if reason == Some("METHOD_UNKNOWN") => {}
            _ => self.check(by, "socket", reason),
        }
        socket.close().await;
    }

    fn is_unary(&self) -> bool {
        contract::is_unary(&self.method)
    }
}

/// Returns a method's scope, and the scope that a caller also needs to call for itself, as the design defines
/// them.
fn scopes(domain: &str, action: Action) -> (Scope, Option<Scope>) {
    let verb = match action {
        Action::Unspecified => panic!("every method has an action"),
        Action::Read | Action::AdminRead => "read",
        Action::Write | Action::AdminWrite => "write",
        Action::Secret => "secret",
        Action::Import => "import",
        Action::Export => "export",
    };
    let scope = |what: &str| Scope::named(&format!("{domain}:{what}"));
    let needs_own = matches!(action, Action::Read | Action::Write | Action::Secret);
    let own = needs_own.then(|| scope("own").unwrap_or_else(|| panic!("{domain}:own is a scope")));
    (scope(verb).unwrap_or_else(|| panic!("{domain}:{verb} is a scope")), own)
}

fn set(message: &mut DynamicMessage, path: &str, user: i64) {
    match path.split_once('.') {
        None => message.set_field_by_name(path, Value::I64(user)),
        Some((outer, rest)) => {
            let mut inner = message.get_field_by_name(outer).unwrap().as_message().unwrap().clone();
            set(&mut inner, rest, user);
            message.set_field_by_name(outer, Value::Message(inner));
        }
    }
}

fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    details.error_info().map_or_else(|| format!("none in {status:?}"), |info| info.reason.clone())
}

/// Returns whether a call was refused because its caller has no right.
fn is_of_rights(reason: &str) -> bool {
    reason.starts_with("CREDENTIALS_")
        || reason.starts_with("ACTING_USER_")
        || ["SCOPE_MISSING", "NOT_ALLOWED"].contains(&reason)
}

/// Returns the status in a gRPC-Web answer, which is in its headers if there is no message.
fn web_status(answer: &http::Answer) -> Option<Status> {
    let mut headers = ::http::HeaderMap::new();
    for (name, value) in &answer.headers {
        headers.append(
            ::http::HeaderName::try_from(name.as_str()).unwrap(),
            ::http::HeaderValue::try_from(value.as_str()).unwrap(),
        );
    }
    Status::from_header_map(&headers).filter(|status| status.code() != tonic::Code::Ok)
}

/// Returns three callers for each method scope: without it, with it and `own`, and with it and `act`.
fn callers() -> Vec<(String, Rights)> {
    let named = |kind: &str, scope: Scope| format!("{kind}-{scope}");
    let mut callers = vec![("operator".to_owned(), Rights::of(&[Scope::AdminRead, Scope::AdminWrite]))];
    for scope in Scope::ALL {
        let domain = scope.text().split(':').next().unwrap();
        let own = Scope::named(&format!("{domain}:own"));
        callers.push((named("without", scope), all_but(scope)));
        callers.push((named("own", scope), own.into_iter().chain([scope]).collect()));
        callers.push((named("act", scope), Rights::of(&[scope, Scope::Act])));
    }
    callers
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_follows_its_access_rule() {
    let node =
        SecuredNode::start_with(callers(), Signer::new(1).tokens(), |config| config.ws.enabled = true).await;
    let replacements = known::create(&node).await;
    let cells = Cell::all(&replacements);
    for by in PRINCIPALS {
        for (at, cell) in cells.iter().enumerate() {
            cell.grpc(&node, by).await;
            let refused = matches!(cell.expected(by), Expected::Refused(_) | Expected::Hidden);
            if at % 3 == 0 && cell.is_unary() {
                cell.json(&node, by).await;
            }
            if at % 3 == 2
                && cell.is_unary()
                && matches!(by, CallerKind::User | CallerKind::UserForOther)
                && cell.me() == ME
            {
                cell.socket(&node, by).await;
            }
            // An accepted call may be an endless stream.
            if at % 3 == 1 && (cell.is_unary() || refused) {
                cell.grpc_web(&node, by).await;
            }
        }
    }
    let wrong = WRONG.lock().unwrap();
    assert!(wrong.is_empty(), "{} cells: {wrong:#?}", wrong.len());
}

#[test]
fn every_request_is_of_a_method() {
    assert_eq!(REQUESTS.len(), contract::methods().len());
}

#[tokio::test]
async fn foreign_contracts_follow_the_exemption_table() {
    let node = SecuredNode::start([("few".to_owned(), Rights::NONE)]).await;
    let check = "/grpc.health.v1.Health/Check";
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let unknown = "/kith.user.v1.UserService/Nothing";
    let few = bearer("few");
    let code = async |path: &str, headers: &[(&str, &str)]| {
        let answer = node.grpc(path, headers, framed(&[])).await;
        answer.map_or("OK".to_owned(), |status| {
            let code = kith_server::edge::code_name(status.code());
            status.get_error_details().error_info().map_or(code.to_owned(), |info| info.reason.clone())
        })
    };
    assert_eq!(code(check, &[]).await, "OK");
    assert_eq!(code(check, &[("authorization", "Bearer wrong")]).await, "OK");
    for path in [reflection, unknown] {
        assert_eq!(code(path, &[]).await, "CREDENTIALS_MISSING", "{path}");
        assert_eq!(code(path, &[("authorization", "Bearer wrong")]).await, "CREDENTIALS_REFUSED", "{path}");
        // The test's node has no reflection: the call passed the check.
        assert_eq!(code(path, &[("authorization", &few)]).await, "METHOD_UNKNOWN", "{path}");
    }
    let json = http::post(node.address, unknown, "{}").await;
    assert_eq!((json.code, json.reason().as_str()), (404, "METHOD_UNKNOWN"));
}
