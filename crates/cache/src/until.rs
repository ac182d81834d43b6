use std::pin::pin;

use tokio::sync::Notify;

/// Returns once it is so. Whoever makes it so notifies all waiters afterwards; they are woken in the order of waiting.
pub(crate) async fn until(notify: &Notify, is_so: impl Fn() -> bool) {
    loop {
        let mut notified = pin!(notify.notified());
        // From here on no notice is missed: looked at after this, it is so or will be told.
        notified.as_mut().enable();
        if is_so() {
            return;
        }
        notified.await;
    }
}
