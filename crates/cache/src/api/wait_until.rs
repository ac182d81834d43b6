use std::pin::pin;

use tokio::sync::Notify;

/// Returns when the condition holds. The task that makes it hold notifies all waiters afterwards; they are
/// woken in the order of waiting.
pub(crate) async fn until(notify: &Notify, is_so: impl Fn() -> bool) {
    loop {
        let mut notified = pin!(notify.notified());
        // From here on no notice is missed: the condition is checked after this, or a notice follows.
        notified.as_mut().enable();
        if is_so() {
            return;
        }
        notified.await;
    }
}
