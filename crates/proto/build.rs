//! Compiles `proto/` with protox, so that no protoc is needed, and keeps the descriptor set for reflection.

use std::{env, error::Error, fs, path::PathBuf};

use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MessageDescriptor, MethodDescriptor, Value,
};

const FILES: [&str; 15] = [
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
    "kith/admin/v1/admin.proto",
];

/// The actions in `kith.type.v1.access` that read: `ACTION_READ`, `ACTION_EXPORT`, `ACTION_ADMIN_READ`.
const READS: [i32; 3] = [1, 5, 6];
/// The value in `google.protobuf.MethodOptions.idempotency_level`.
const NO_SIDE_EFFECTS: i32 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    let mut compiler = protox::Compiler::new(["../../proto"])?;
    compiler.include_source_info(true).include_imports(true).open_files(FILES)?;
    check_access(&compiler.descriptor_pool())?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is set by cargo")?);
    // `file_descriptor_set` does not work here: its types have no room for the contract's options.
    fs::write(out.join("kith.bin"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("identified_requests.rs"), identified_requests(&compiler.descriptor_pool()))?;
    tonic_prost_build::configure()
        .codec_path("crate::ExactCodec")
        .btree_map(".")
        .bytes(".kith.message.v1")
        .extern_path(".kith.user.v1.ImportUsersRequest", "crate::user::v1::ImportUsersRequest")
        .extern_path(".kith.user.v1.GetUserResponse", "crate::user::v1::GetUserResponse")
        .extern_path(".kith.group.v1.ImportGroupsRequest", "crate::group::v1::ImportGroupsRequest")
        .extern_path(".kith.relation.v1.ImportFollowsRequest", "crate::relation::v1::ImportFollowsRequest")
        .extern_path(".kith.message.v1.ImportMessagesRequest", "crate::message::v1::ImportMessagesRequest")
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

/// Checks that every method declares who may call it: without that a new method does not build.
fn check_access(pool: &DescriptorPool) -> Result<(), String> {
    let own = pool.services().filter(|service| service.full_name().starts_with("kith."));
    for method in own.flat_map(|service| service.methods().collect::<Vec<_>>()) {
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
/// user count as reached.
fn check_effects(pool: &DescriptorPool, method: &MethodDescriptor, action: i32) -> Result<(), &'static str> {
    let rules =
        pool.get_extension_by_name("kith.options.v1.rules").ok_or("kith.options.v1.rules is unknown")?;
    let options = method.options();
    let rules = options.get_extension(&rules);
    let watch = rules.as_message().and_then(|rules| rules.get_field_by_name("watch")?.as_bool());
    let level = options.get_field_by_name("idempotency_level").and_then(|level| level.as_enum_number());
    let (reads, declared) = (READS.contains(&action) && watch != Some(true), level == Some(NO_SIDE_EFFECTS));
    match (reads, declared) {
        (true, false) => Err("its action reads: it needs option idempotency_level = NO_SIDE_EFFECTS"),
        (false, true) => {
            Err("idempotency_level = NO_SIDE_EFFECTS is for actions that read, and not for watches")
        }
        _ => Ok(()),
    }
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
