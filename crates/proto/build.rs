//! Compiles `proto/` with protox, so that no protoc is needed, and keeps the descriptor set for reflection.

use std::{env, error::Error, fs, path::PathBuf};

const FILES: [&str; 14] = [
    "kith/options/v1/method.proto",
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

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    let mut compiler = protox::Compiler::new(["../../proto"])?;
    compiler.include_source_info(true).include_imports(true).open_files(FILES)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is set by cargo")?);
    // Not out of `file_descriptor_set`: its types have no room for the options of the contract.
    fs::write(out.join("kith.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
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
