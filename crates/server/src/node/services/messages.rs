//! Messages and dialogs, as they are configured.

use kith_service::{
    conversation::{self, ConversationRecords},
    dialog::{self, DialogRecords},
    domain_context::DomainContext,
    message::{Correspondents, Messages, Records},
};

use super::{Domains, caches::cache_defaults};
use crate::config::Config;

/// What is kept of conversations besides their messages.
pub(super) fn records(context: DomainContext<'_>, config: &Config) -> Records {
    let defaults = cache_defaults(config);
    Records {
        conversations: ConversationRecords::new(context, conversation::cache::policy(&defaults)),
        dialogs: DialogRecords::new(context, dialog::cache::policy(&defaults)),
    }
}

pub(super) fn messages(
    context: DomainContext<'_>,
    config: &Config,
    records: Records,
    domains: &Domains,
) -> Messages {
    let correspondents = Correspondents {
        users: domains.users.clone(),
        members: domains.members.clone(),
        follows: domains.follows.clone(),
        blocks: domains.blocks.clone(),
    };
    Messages::new(context, correspondents, records, config.messages)
}
