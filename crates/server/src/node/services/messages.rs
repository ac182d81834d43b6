//! Messages, as they are configured.

use kith_service::{
    domain_context::DomainContext,
    message::{Correspondents, MessageRpc, Messages},
    schema_agreement::SchemaAgreement,
};

use super::{Domains, limits};
use crate::config::Config;

pub(super) fn messages(
    context: DomainContext<'_>,
    config: &Config,
    domains: &Domains,
    agreement: SchemaAgreement,
) -> MessageRpc {
    let correspondents = Correspondents {
        users: domains.users.clone(),
        members: domains.members.clone(),
        follows: domains.follows.clone(),
        blocks: domains.blocks.clone(),
    };
    MessageRpc::new(Messages::new(context, correspondents, config.messages), limits(config), agreement)
}
