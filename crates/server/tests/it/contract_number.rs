//! The number of the contract rises with each change of the contract, and the contract says which calls may
//! be made again.

use std::fmt::Write as _;

use kith_proto::{CONTRACT, DESCRIPTOR_SET};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};
use sha2::{Digest as _, Sha256};

use crate::contract;

/// The number, and the digest of the contract that has it.
const LINE: &str = include_str!("../../../proto/contract.txt");
/// Unary calls that have another effect when they are made twice, or are worth nothing later. Those of the
/// admin service are about the node that is called, and a repeated call may reach another.
const MADE_ONCE: [&str; 8] = [
    "/kith.user.v1.UserService/VerifySecret",
    "/kith.group.v1.GroupService/VerifySecret",
    "/kith.message.v1.MessageService/SendSignal",
    "/kith.sequence.v1.SequenceService/ReserveSeqs",
    "/kith.admin.v1.AdminService/FlushMemory",
    "/kith.admin.v1.AdminService/Resync",
    "/kith.admin.v1.AdminService/StartEpoch",
    "/kith.admin.v1.AdminService/SetLogFilter",
];

/// A digest of all that the files of the contract say, without their comments.
fn digest() -> String {
    let pool = DescriptorPool::decode(DESCRIPTOR_SET).unwrap();
    let set = pool.get_message_by_name("google.protobuf.FileDescriptorSet").unwrap();
    let set = DynamicMessage::decode(set, DESCRIPTOR_SET).unwrap();
    let files = set.get_field_by_name("file").unwrap();
    let own = files.as_list().unwrap().iter().filter_map(Value::as_message).filter_map(|file| {
        let name = file.get_field_by_name("name")?.as_str()?.to_owned();
        let mut file = file.clone();
        file.clear_field_by_name("source_code_info");
        name.starts_with("kith/").then(|| (name, file.encode_to_vec()))
    });
    let mut own: Vec<_> = own.collect();
    own.sort();
    assert!(own.len() > 10, "{} files", own.len());
    let hash = own.iter().fold(Sha256::new(), |hash, (_, file)| hash.chain_update(file));
    hash.finalize().iter().take(8).fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn number_rises_with_the_contract() {
    let (number, kept) = LINE.trim().split_once(' ').unwrap();
    let (number, digest): (u32, _) = (number.parse().unwrap(), digest());
    let next = number + 1;
    assert_eq!(
        kept, digest,
        "the contract has changed: raise CONTRACT in crates/proto/src/lib.rs to {next}, and put this line into \
         crates/proto/contract.txt: {next} {digest}"
    );
    assert_eq!(number, CONTRACT, "crates/proto/contract.txt is for {number}");
}

#[test]
fn calls_that_are_made_once_are_known() {
    let is_made_once = |method: &prost_reflect::MethodDescriptor| {
        let options = method.options();
        let level = options.get_field_by_name("idempotency_level").and_then(|level| level.as_enum_number());
        let has_id = ["request_id", "client_message_id"]
            .iter()
            .any(|id| method.input().get_field_by_name(id).is_some());
        contract::is_unary(method) && !has_id && level.unwrap_or_default() == 0
    };
    let methods = contract::methods();
    let found: Vec<_> = methods.iter().filter(|method| is_made_once(method)).map(contract::path_of).collect();
    let mut expected = MADE_ONCE.map(str::to_owned).to_vec();
    expected.sort_by_key(|path| methods.iter().position(|method| contract::path_of(method) == *path));
    assert_eq!(found, expected);
}
