//! Compiles `proto/` with protox, so that no protoc is needed, and keeps the descriptor set for reflection.

use std::{env, error::Error, fs, path::PathBuf};

use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor, Value,
};

const FILES: [&str; 16] = [
    "kith/options/v1/method.proto",
    "kith/type/v1/access.proto",
    "kith/type/v1/consistency.proto",
    "kith/type/v1/result.proto",
    "kith/user/v1/user.proto",
    "kith/group/v1/group.proto",
    "kith/relation/v1/relation.proto",
    "kith/member/v1/member.proto",
    "kith/presence/v1/presence.proto",
    "kith/application/v1/application.proto",
    "kith/message/v1/message.proto",
    "kith/receipt/v1/receipt.proto",
    "kith/sequence/v1/sequence.proto",
    "kith/notice/v1/notice.proto",
    "kith/change/v1/change.proto",
    "kith/admin/v1/admin.proto",
];

/// The actions in `kith.type.v1.access` that read: `ACTION_READ`, `ACTION_EXPORT`, `ACTION_ADMIN_READ`.
const READS: [i32; 3] = [1, 5, 6];
/// Values in `google.protobuf.MethodOptions.idempotency_level`.
const IDEMPOTENCY_UNKNOWN: i32 = 0;
const NO_SIDE_EFFECTS: i32 = 1;
const IDEMPOTENT: i32 = 2;
/// Fields that make repeated requests one write.
const IDS: [&str; 2] = ["request_id", "client_message_id"];
/// The field that says where a list goes on, how an answer changes it, and whether more follows.
const CONTINUATIONS: [(&str, &str, &str); 5] = [
    ("page_token", "self.page_token = response.next_page_token;", "!self.page_token.is_empty()"),
    (
        "from_seq",
        "self.from_seq = items.last().map_or(self.from_seq, |last| last.seq + 1);",
        "response.more && !items.is_empty()",
    ),
    (
        "before_seq",
        "self.before_seq = items.last().map_or(self.before_seq, |last| last.seq);",
        "response.more && !items.is_empty()",
    ),
    (
        "after_user_id",
        "self.after_user_id = items.last().map_or(self.after_user_id, |last| last.user_id);",
        "true",
    ),
    (
        "after_group_id",
        "self.after_group_id = items.last().map_or(self.after_group_id, |last| last.group_id);",
        "true",
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    let mut compiler = protox::Compiler::new(["../../proto"])?;
    compiler.include_source_info(true).include_imports(true).open_files(FILES)?;
    check_access(&compiler.descriptor_pool())?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is set by cargo")?);
    // `file_descriptor_set` does not work here: its types have no room for the contract's options.
    fs::write(out.join("kith.bin"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("identified_requests.rs"), identified_requests(&compiler.descriptor_pool()))?;
    fs::write(out.join("call_rules.rs"), call_rules(&compiler.descriptor_pool()))?;
    fs::write(out.join("list_requests.rs"), list_requests(&compiler.descriptor_pool()))?;
    tonic_prost_build::configure()
        .codec_path("crate::ExactCodec")
        .btree_map(".")
        .bytes(".kith.message.v1")
        .extern_path(".kith.user.v1.ImportUsersRequest", "crate::user::v1::ImportUsersRequest")
        .extern_path(".kith.user.v1.GetUserResponse", "crate::user::v1::GetUserResponse")
        .extern_path(".kith.group.v1.ImportGroupsRequest", "crate::group::v1::ImportGroupsRequest")
        .extern_path(".kith.relation.v1.ImportFollowsRequest", "crate::relation::v1::ImportFollowsRequest")
        .extern_path(".kith.relation.v1.ImportSettingsRequest", "crate::relation::v1::ImportSettingsRequest")
        .extern_path(".kith.member.v1.ImportMembersRequest", "crate::member::v1::ImportMembersRequest")
        .extern_path(".kith.message.v1.ImportMessagesRequest", "crate::message::v1::ImportMessagesRequest")
        .extern_path(".kith.message.v1.ImportDialogsRequest", "crate::message::v1::ImportDialogsRequest")
        .extern_path(
            ".kith.relation.v1.BatchGetRelationsResponse",
            "crate::relation::v1::BatchGetRelationsResponse",
        )
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

/// Implements `IdentifiedRequest` for every request with a `request_id`.
fn identified_requests(pool: &DescriptorPool) -> String {
    let requests = pool.all_messages().filter(|message| message.get_field_by_name("request_id").is_some());
    let code = requests.filter_map(|message| {
        let method = message.name().strip_suffix("Request")?;
        let module = message.package_name().strip_prefix("kith.")?.replace('.', "::");
        let path = format!("crate::{module}::{}", message.name());
        let version = message.get_field_by_name("expected_version").map_or("0", |_| "self.expected_version");
        Some(format!(
            "impl IdentifiedRequest for {path} {{
                const METHOD: &'static str = \"{method}\";
                fn take_request_id(&mut self) -> String {{ std::mem::take(&mut self.request_id) }}
                fn expected_version(&self) -> i64 {{ {version} }}
            }}\n"
        ))
    });
    code.collect()
}

/// Makes the table of all methods' rules, ordered by path.
fn call_rules(pool: &DescriptorPool) -> String {
    let mut rules: Vec<String> = methods(pool).map(|method| call_rule(&method)).collect();
    rules.sort();
    format!("static RULES: [(&str, CallRule); {}] = [\n{}];", rules.len(), rules.concat())
}

/// A method is repeatable if it has no side effects or is idempotent, or if its request has an id.
fn call_rule(method: &MethodDescriptor) -> String {
    let id = IDS.iter().find_map(|name| Some(method.input().get_field_by_name(name)?.number()));
    let level = idempotency_level(method);
    format!(
        "(\"/{}/{}\", CallRule {{ streams: {}, reads: {}, is_repeatable: {}, id: {id:?} }}),\n",
        method.parent_service().full_name(),
        method.name(),
        method.is_client_streaming() || method.is_server_streaming(),
        level == NO_SIDE_EFFECTS,
        id.is_some() || level != IDEMPOTENCY_UNKNOWN,
    )
}

fn methods(pool: &DescriptorPool) -> impl Iterator<Item = MethodDescriptor> {
    let own = pool.services().filter(|service| service.full_name().starts_with("kith."));
    own.flat_map(|service| service.methods().collect::<Vec<_>>())
}

/// Implements `ListRequest` for every method that answers by a single list, and says where it goes on or
/// has a result for each id.
fn list_requests(pool: &DescriptorPool) -> String {
    methods(pool).filter_map(|method| list_request(&method)).collect()
}

fn list_request(method: &MethodDescriptor) -> Option<String> {
    let (request, response) = (method.input(), method.output());
    let module = request.package_name().strip_prefix("kith.")?.replace('.', "::");
    let mut lists = response.fields().filter(FieldDescriptor::is_list);
    let (list, None) = (lists.next()?, lists.next()) else { return None };
    let item = match list.kind() {
        Kind::Message(item) if item.package_name() == request.package_name() => {
            format!("crate::{module}::{}", item.name())
        }
        Kind::Int64 => "i64".to_owned(),
        _ => return None,
    };
    let goes_on = CONTINUATIONS.iter().find(|(field, ..)| request.get_field_by_name(field).is_some());
    let batch = batch_request(&request, &list, &module);
    let (advance, more) = match (goes_on, &batch) {
        (Some((_, advance, more)), _) => (*advance, *more),
        (None, Some(_)) => ("", "false"),
        (None, None) => return None,
    };
    Some(format!(
        "impl ListRequest for crate::{module}::{} {{
            const PATH: &'static str = \"/{}/{}\";
            type Response = crate::{module}::{};
            type Item = {item};
            fn advance(&mut self, response: Self::Response) -> (Vec<Self::Item>, bool) {{
                let items = response.{};
                {advance}
                let more = {more};
                (items, more)
            }}
        }}\n{}",
        request.name(),
        method.parent_service().full_name(),
        method.name(),
        response.name(),
        list.name(),
        batch.unwrap_or_default(),
    ))
}

/// Implements `BatchRequest` for a request with ids whose results have an id each, and may have an error.
fn batch_request(request: &MessageDescriptor, results: &FieldDescriptor, module: &str) -> Option<String> {
    let ids = request.fields().find(|field| field.is_list() && field.kind() == Kind::Int64)?;
    let Kind::Message(result) = results.kind() else { return None };
    let id = result.get_field_by_name(&format!("{}_id", ids.name().strip_suffix("_ids")?))?;
    result.get_field_by_name("error")?.containing_oneof()?;
    let enclosing = snake_case(result.name());
    Some(format!(
        "impl BatchRequest for crate::{module}::{} {{
            fn ids(&mut self) -> &mut Vec<i64> {{ &mut self.{} }}
            fn id_and_reason(result: &Self::Item) -> (i64, &str) {{
                let reason = match &result.result {{
                    Some(crate::{module}::{enclosing}::Result::Error(error)) => &*error.reason,
                    _ => \"\",
                }};
                (result.{}, reason)
            }}
        }}\n",
        request.name(),
        ids.name(),
        id.name(),
    ))
}

/// The module that prost makes for a message: `user_result` for `UserResult`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// Checks that every method declares who may call it: without that a new method does not build.
fn check_access(pool: &DescriptorPool) -> Result<(), String> {
    for method in methods(pool) {
        check_method(pool, &method).map_err(|why| format!("{}: {why}", method.full_name()))?;
    }
    Ok(())
}

fn check_method(pool: &DescriptorPool, method: &MethodDescriptor) -> Result<(), &'static str> {
    let option = pool.get_extension_by_name("kith.type.v1.access").ok_or("kith.type.v1.access is unknown")?;
    let options = method.options();
    let access = options.get_extension(&option);
    let access = access.as_message().ok_or("option (kith.type.v1.access) is missing")?;
    let number = |name| access.get_field_by_name(name).and_then(|value| value.as_enum_number()).unwrap_or(0);
    if number("action") == 0 || number("users") == 0 {
        return Err("option (kith.type.v1.access) needs action and users");
    }
    check_effects(pool, method, number("action"))?;
    let self_field = text(access, "self_field");
    if number("users") == 3 && self_field.is_empty() {
        return Err("USERS_SELF needs self_field");
    }
    if number("users") < 3 && !self_field.is_empty() {
        return Err("self_field needs USERS_SELF or USERS_OBJECT");
    }
    if !self_field.is_empty() && !is_int64(method.input(), &self_field) {
        return Err("self_field is no int64 field of the request");
    }
    Ok(())
}

/// Checks that the contract marks a method as free from side effects exactly where its action reads, so that
/// clients may rely on it. Endless streams are left out: an open stream has effects, for example it makes a
/// user count as reached. Clients repeat these methods, those marked as idempotent, and writes with an id.
fn check_effects(pool: &DescriptorPool, method: &MethodDescriptor, action: i32) -> Result<(), &'static str> {
    let rules =
        pool.get_extension_by_name("kith.options.v1.rules").ok_or("kith.options.v1.rules is unknown")?;
    let options = method.options();
    let rules = options.get_extension(&rules);
    let watch = rules.as_message().and_then(|rules| rules.get_field_by_name("watch")?.as_bool());
    let level = idempotency_level(method);
    let (reads, declared) = (READS.contains(&action) && watch != Some(true), level == NO_SIDE_EFFECTS);
    let is_plain_write = !READS.contains(&action)
        && !method.is_client_streaming()
        && !method.is_server_streaming()
        && !IDS.iter().any(|id| method.input().get_field_by_name(id).is_some());
    if level == IDEMPOTENT && !is_plain_write {
        return Err("idempotency_level = IDEMPOTENT is for writes without a stream and without an id");
    }
    match (reads, declared) {
        (true, false) => Err("its action reads: it needs option idempotency_level = NO_SIDE_EFFECTS"),
        (false, true) => {
            Err("idempotency_level = NO_SIDE_EFFECTS is for actions that read, and not for watches")
        }
        _ => Ok(()),
    }
}

fn idempotency_level(method: &MethodDescriptor) -> i32 {
    let options = method.options();
    let level = options.get_field_by_name("idempotency_level").and_then(|level| level.as_enum_number());
    level.unwrap_or(IDEMPOTENCY_UNKNOWN)
}

fn text(message: &DynamicMessage, field: &str) -> String {
    let value = message.get_field_by_name(field);
    value.as_deref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn is_int64(request: MessageDescriptor, path: &str) -> bool {
    let mut kind = Kind::Message(request);
    for name in path.split('.') {
        let Kind::Message(message) = kind else { return false };
        let Some(field) = message.get_field_by_name(name).filter(|field| !field.is_list()) else {
            return false;
        };
        kind = field.kind();
    }
    matches!(kind, Kind::Int64)
}
