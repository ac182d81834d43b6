use kith_cache::Namespace;
use kith_proto::admin::v1 as wire;
use tokio::time::Instant;

use super::convert::signed;

/// How many copies a step compares.
const STEP: usize = 500;

/// Compares one step of a namespace, or steps until the namespace or the time ends.
pub(super) async fn compare(namespace: &dyn Namespace, full: bool, until: Instant) -> wire::NamespaceResync {
    let mut found = wire::NamespaceResync { namespace: namespace.name().to_owned(), ..Default::default() };
    loop {
        match namespace.resync(STEP).await {
            Ok(step) => {
                found.checked = found.checked.saturating_add(signed(step.checked));
                found.stale = found.stale.saturating_add(signed(step.stale));
                found.suspects = signed(step.suspects);
                found.complete = step.round_ended;
            }
            Err(_) => "Redis or the store does not answer".clone_into(&mut found.unanswered),
        }
        let goes_on = full && !found.complete && found.unanswered.is_empty();
        if !goes_on || Instant::now() >= until {
            return found;
        }
    }
}
