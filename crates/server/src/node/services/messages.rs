//! Messages, as they are configured.

use kith_service::{
    domain_context::DomainContext,
    message::{Correspondents, Messages},
};

use super::Domains;
use crate::config::Config;

pub(super) fn messages(context: DomainContext<'_>, config: &Config, domains: &Domains) -> Messages {
    let correspondents = Correspondents {
        users: domains.users.clone(),
        members: domains.members.clone(),
        follows: domains.follows.clone(),
        blocks: domains.blocks.clone(),
    };
    Messages::new(context, correspondents, config.messages)
}
