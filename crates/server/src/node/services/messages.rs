//! Messages and dialogs, as they are configured.

use std::sync::Arc;

use kith_cache::SystemClock;
use kith_delivery::Windows;
use kith_service::{
    conversation::{self, ConversationRecords},
    dialog::{self, DialogRecords},
    domain_context::DomainContext,
    message::{Correspondents, Logs, Messages, Records, documents},
};

use super::{Domains, caches::cache_defaults};
use crate::{cluster::Cluster, config::Config};

/// What is kept of conversations besides their messages.
pub(super) fn records(context: DomainContext<'_>, config: &Config) -> Records {
    let defaults = cache_defaults(config);
    Records {
        conversations: ConversationRecords::new(context, conversation::cache::policy(&defaults)),
        dialogs: DialogRecords::new(context, dialog::cache::policy(&defaults)),
    }
}

/// The messages, the last ones of each conversation in windows where nodes share a Redis.
pub(super) fn logs(context: DomainContext<'_>, config: &Config, cluster: Option<&Cluster>) -> Logs {
    let (store, limits) = (&context.stores.messages, config.messages.windows());
    let windows = match cluster {
        Some(cluster) => cluster.windows(Arc::clone(store), limits),
        None => Windows::none(Arc::clone(store), Arc::new(SystemClock::new()), limits),
    };
    Logs::new(Arc::clone(store), context.tiers, documents::cache::policy(&cache_defaults(config)), windows)
}

pub(super) fn messages(
    context: DomainContext<'_>,
    config: &Config,
    records: Records,
    logs: Logs,
    domains: &Domains,
) -> Messages {
    let correspondents = Correspondents {
        users: domains.users.clone(),
        members: domains.members.clone(),
        follows: domains.follows.clone(),
        blocks: domains.blocks.clone(),
    };
    Messages::new(context, correspondents, records, logs, config.messages)
}
