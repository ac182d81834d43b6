//! Kith's public contract: messages, clients and servers generated from `proto/`.
//!
//! The comments in the `.proto` files are the API reference. This crate has no logic except in [`Records`],
//! whose decoding is bounded, in [`Results`] and [`user::v1::GetUserResponse`], whose encoding is cheap, and
//! in [`ExactCodec`], whose buffers have their messages' size.

#![expect(missing_docs, reason = "generated from the commented .proto files")]
#![expect(
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::large_enum_variant,
    clippy::missing_errors_doc,
    clippy::too_many_lines,
    reason = "generated"
)]

/// The number of the contract. It rises by one with each change of the contract: a client whose own number is
/// not higher knows that the node has everything that it may ask for. Answers have it as `kith-contract`.
pub const CONTRACT: u32 = 5;

mod call_rule;
mod codec;
mod fields;
mod get_user;
mod identified;
mod lists;
mod records;
mod results;

pub use call_rule::CallRule;
pub use codec::{ExactCodec, ExactEncoder};
pub use fields::Fields;
pub use identified::IdentifiedRequest;
pub use lists::{BatchRequest, ListRequest};
pub use records::{RECORDS_MAX, Records};
pub use results::Results;

/// Options that the contract sets on its methods.
pub mod options {
    pub mod v1 {
        tonic::include_proto!("kith.options.v1");
    }
}

/// Types that several services share.
pub mod r#type {
    pub mod v1 {
        tonic::include_proto!("kith.r#type.v1");
    }
}

/// The users and their profiles.
pub mod user {
    pub mod v1 {
        tonic::include_proto!("kith.user.v1");

        pub use crate::get_user::GetUserResponse;

        pub type ImportUsersRequest = crate::Records<ImportUser>;
    }
}

/// The groups of users.
pub mod group {
    pub mod v1 {
        tonic::include_proto!("kith.group.v1");

        pub type ImportGroupsRequest = crate::Records<ImportGroup>;
    }
}

/// Follows, friends and blocks.
pub mod relation {
    pub mod v1 {
        tonic::include_proto!("kith.relation.v1");

        pub type ImportFollowsRequest = crate::Records<ImportFollow>;
        pub type ImportSettingsRequest = crate::Records<ImportSettings>;
        pub type BatchGetRelationsResponse = crate::Results<RelationResult>;
    }
}

/// Group memberships and roles.
pub mod member {
    pub mod v1 {
        tonic::include_proto!("kith.member.v1");

        pub type ImportMembersRequest = crate::Records<ImportMember>;
    }
}

/// Presence: users who are online.
pub mod presence {
    pub mod v1 {
        tonic::include_proto!("kith.presence.v1");
    }
}

/// Applications to be a friend, or to join a group.
pub mod application {
    pub mod v1 {
        tonic::include_proto!("kith.application.v1");
    }
}

/// Messages between users and in groups.
pub mod message {
    pub mod v1 {
        tonic::include_proto!("kith.message.v1");

        pub type ImportMessagesRequest = crate::Records<ImportMessage>;
        pub type ImportDialogsRequest = crate::Records<ImportDialog>;
    }
}

/// Receipts: users who have read a message.
pub mod receipt {
    pub mod v1 {
        tonic::include_proto!("kith.receipt.v1");
    }
}

/// Sequence numbers for logs that are kept elsewhere.
pub mod sequence {
    pub mod v1 {
        tonic::include_proto!("kith.sequence.v1");
    }
}

/// Notices to all readers in an audience, and their read state.
pub mod notice {
    pub mod v1 {
        tonic::include_proto!("kith.notice.v1");
    }
}

/// Changes of records, for other systems.
pub mod change {
    pub mod v1 {
        tonic::include_proto!("kith.change.v1");
    }
}

/// Node operations for administrators.
pub mod admin {
    pub mod v1 {
        tonic::include_proto!("kith.admin.v1");
    }
}

/// The encoded descriptors for all files above: for reflection and for dynamic clients.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kith.bin"));
