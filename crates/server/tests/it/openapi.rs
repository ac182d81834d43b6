//! The OpenAPI document describes the requests and answers that a node uses as JSON.

use std::collections::BTreeSet;

use boon::{Compiler, Schemas};
use kith_server::{json, openapi};
use rand::{SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};

use crate::{
    auth_matrix::requests::REQUESTS,
    contract,
    http::{Connection, JSON},
    json_grpc_parity::{generate, rpcs},
    node::TestNode,
};

const LOCATION: &str = "https://kith.example/openapi.json";
/// How often every method is called.
const ROUNDS: usize = 32;

/// The document, whose schemas are compiled once.
struct Document {
    read: Value,
    compiler: Compiler,
    schemas: Schemas,
}

impl Document {
    fn read() -> Self {
        let read: Value = serde_json::from_str(&openapi::document().unwrap()).unwrap();
        let mut compiler = Compiler::new();
        compiler.enable_format_assertions();
        compiler.add_resource(LOCATION, read.clone()).unwrap();
        Self { read, compiler, schemas: Schemas::new() }
    }

    /// Checks a value against the schema at this pointer.
    fn check(&mut self, pointer: &str, value: &Value) -> Result<(), String> {
        let location = format!("{LOCATION}#{pointer}");
        let schema = self.compiler.compile(&location, &mut self.schemas).unwrap();
        self.schemas.validate(value, schema).map_err(|why| format!("{why:#}"))
    }

    /// Returns the path to the schema of the content at this pointer in an operation.
    fn pointer(&self, path: &str, within: &str) -> String {
        let operation =
            format!("/paths/{}/post{within}/content/application~1json/schema", path.replace('/', "~1"));
        let reference =
            self.read.pointer(&operation).unwrap_or_else(|| panic!("{operation}"))["$ref"].clone();
        reference.as_str().unwrap().strip_prefix('#').unwrap().to_owned()
    }
}

#[tokio::test]
async fn answers_of_every_call_fit_the_document() {
    let (node, mut document) = (TestNode::start().await, Document::read());
    let mut connection = Connection::open(node.address).await;
    let (mut rng, mut answered) = (StdRng::seed_from_u64(50), BTreeSet::new());
    for _ in 0..ROUNDS {
        for rpc in rpcs() {
            let message = generate::message(&mut rng, &rpc.input);
            let body = generate::json(&mut rng, &message).to_string();
            let answer = connection.post(&rpc.path, &[JSON], body).await;
            let pointer = match answer.code {
                200 => document.pointer(&rpc.path, "/responses/200"),
                _ => "/components/schemas/Error".to_owned(),
            };
            document.check(&pointer, &answer.json()).unwrap_or_else(|why| panic!("{}: {why}", rpc.path));
            if answer.code == 200 {
                answered.insert(rpc.path);
            }
        }
    }
    assert!(answered.len() * 2 >= rpcs().len(), "half of the methods succeed now and then: {answered:#?}");
    node.stop().await;
}

#[test]
fn requests_of_every_method_fit_the_document() {
    let mut document = Document::read();
    let mut checked = 0;
    for method in contract::methods().into_iter().filter(contract::is_unary) {
        let name = format!("{}/{}", method.parent_service().name(), method.name());
        let Some((_, text)) = REQUESTS.iter().find(|(known, _)| *known == name) else { continue };
        let text = text.replace("$APPLICATION", "1").replace("$APPLIED", "2");
        let message = json::message(&method.input(), text.as_bytes()).unwrap();
        let pointer = document.pointer(&contract::path_of(&method), "/requestBody");
        document
            .check(&pointer, &serde_json::to_value(&message).unwrap())
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        checked += 1;
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn wrong_messages_do_not_fit_the_document() {
    let mut document = Document::read();
    let get = document.pointer("/kith.user.v1.UserService/GetUser", "/requestBody");
    let create = document.pointer("/kith.user.v1.UserService/CreateUser", "/requestBody");
    assert_eq!(document.check(&get, &json!({ "userId": "7" })), Ok(()));
    for (pointer, wrong) in [
        (&get, json!({ "usrId": "7" })),
        (&get, json!({ "userId": 7 })),
        (&get, json!({ "userId": "seven" })),
        (&create, json!({ "user": [] })),
        (&create, json!({ "user": { "gender": "WOMAN" } })),
        (&create, json!({ "user": { "createTime": "yesterday" } })),
        (&"/components/schemas/Error".to_owned(), json!({ "code": "gone", "message": "" })),
        (&"/components/schemas/Error".to_owned(), json!({ "message": "" })),
    ] {
        assert!(document.check(pointer, &wrong).is_err(), "{wrong}");
    }
}
