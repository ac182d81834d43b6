//! The services as routes on the port.

use std::sync::Arc;

use kith_cache::Node;
use kith_proto::{
    admin::v1::admin_service_server::AdminServiceServer,
    application::v1::application_service_server::ApplicationServiceServer,
    change::v1::change_service_server::ChangeServiceServer,
    group::v1::group_service_server::GroupServiceServer,
    member::v1::member_service_server::MemberServiceServer,
    message::v1::message_service_server::MessageServiceServer,
    notice::v1::notice_service_server::NoticeServiceServer,
    presence::v1::presence_service_server::PresenceServiceServer,
    receipt::v1::receipt_service_server::ReceiptServiceServer,
    relation::v1::relation_service_server::RelationServiceServer,
    sequence::v1::sequence_service_server::SequenceServiceServer,
    user::v1::user_service_server::UserServiceServer,
};
use kith_service::{
    application::{ApplicationRpc, Applications},
    change::{ChangeRpc, KeptChanges},
    group::{GroupRpc, member::MemberRpc},
    message::{DialogRpc, Dialogs, MessageRpc, Messages, OfflineRpc, ReceiveRpc, Receiving},
    notice::{NoticeRecords, NoticeRpc},
    presence::PresenceRpc,
    receipt::{ReceiptRpc, Receipts},
    relation::RelationRpc,
    rpc::{
        answer_size::MESSAGE_BYTES_MAX,
        batch::Limits,
        page_token::{PageSizes, PageTokens},
        record_quota::RecordQuota,
        search_quota::SearchQuota,
    },
    schema_agreement::SchemaAgreement,
    sequence::SequenceRpc,
    user::UserRpc,
};
use tonic::codec::CompressionEncoding;

use super::Domains;
use crate::{admin::AdminRpc, config::Config, edge::Routes};

/// Records in one import message that are written concurrently.
const IMPORT_AT_ONCE: usize = 64;

/// Generated servers share no trait; each has these methods.
macro_rules! compressed {
    ($server:expr, $bytes:expr) => {
        $server
            .max_decoding_message_size($bytes)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
    };
}

/// The domains that are built over the lower domains.
pub(super) struct UpperDomains {
    pub(super) applications: Applications,
    pub(super) online: PresenceRpc,
    pub(super) messaging: MessagingCalls,
    pub(super) notices: NoticeRecords,
    pub(super) sequences: SequenceRpc,
    pub(super) changes: KeptChanges,
}

/// The handlers for calls about messages.
pub(super) struct MessagingCalls {
    pub(super) messages: Messages,
    pub(super) dialogs: Dialogs,
    pub(super) receiving: Receiving,
    pub(super) receipts: Receipts,
    pub(super) offline: OfflineRpc,
    /// The nodes' agreement on the schema, without which messages are unavailable.
    pub(super) agreement: SchemaAgreement,
}

/// The services in all domains.
pub(super) fn routes(
    domains: Domains,
    upper: UpperDomains,
    admin: AdminRpc,
    pages: PageTokens,
    limits: Limits,
    config: &Config,
) -> Routes {
    let Domains { users, groups, members, follows, blocks } = domains;
    let UpperDomains { applications, online, messaging, notices, sequences, changes } = upper;
    let MessagingCalls { messages, dialogs, receiving, receipts, offline, agreement } = messaging;
    let searches = SearchQuota::per_minute(config.limits.searches_per_minute);
    let users = UserRpc::new(users, pages.clone(), limits.clone(), searches.clone());
    let (pending, invitations) = (Arc::new(applications.clone()), Arc::new(applications.clone()));
    let groups = GroupRpc::new(groups, members.clone(), pending, pages.clone(), limits.clone(), searches);
    let relations = RelationRpc::new(follows, blocks, members.clone(), pages.clone(), limits.clone());
    let members = MemberRpc::new(members, invitations, pages.clone(), limits.clone());
    let dialogs = DialogRpc::new(dialogs, pages.clone(), limits.clone());
    let notices = NoticeRpc::new(notices, pages.clone(), limits.clone());
    let receipts = ReceiptRpc::new(receipts, pages.clone(), limits.clone());
    let changes = ChangeRpc::new(changes, pages.clone());
    let applications = ApplicationRpc::new(applications, pages, limits.clone());
    let receivers = ReceiveRpc::new(receiving);
    let messages = MessageRpc::new(messages, dialogs, receivers, offline, limits, agreement);
    let bytes = config.limits.batch_message_bytes;
    Routes::default()
        .add_service(compressed!(UserServiceServer::new(users), bytes))
        .add_service(compressed!(GroupServiceServer::new(groups), bytes))
        .add_service(compressed!(RelationServiceServer::new(relations), bytes))
        .add_service(compressed!(MemberServiceServer::new(members), bytes))
        .add_service(compressed!(PresenceServiceServer::new(online), bytes))
        .add_service(compressed!(ApplicationServiceServer::new(applications), bytes))
        .add_service(compressed!(MessageServiceServer::new(messages), bytes))
        .add_service(compressed!(NoticeServiceServer::new(notices), config.limits.message_bytes))
        .add_service(compressed!(ReceiptServiceServer::new(receipts), bytes))
        .add_service(compressed!(SequenceServiceServer::new(sequences), config.limits.message_bytes))
        .add_service(compressed!(ChangeServiceServer::new(changes), config.limits.message_bytes))
        .add_service(compressed!(AdminServiceServer::new(admin), config.limits.message_bytes))
}

/// The limits on calls. Each result counts users' records apart, so a node makes only one.
pub(super) fn limits(config: &Config, node: Node) -> Limits {
    Limits {
        batch_ids: config.limits.batch_ids,
        import_records: config.limits.import_records,
        import_at_once: IMPORT_AT_ONCE,
        import_patience: config.limits.deadline_max,
        tokens: config.limits.tokens,
        node,
        pages: PageSizes { default: config.limits.page_default, max: config.limits.page_max },
        records: RecordQuota::per_minute(config.limits.user_records_per_minute),
    }
}
