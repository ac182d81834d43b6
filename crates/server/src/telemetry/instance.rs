//! The id under which traces name this process, which is that of its node.

use std::sync::{
    LazyLock,
    atomic::{AtomicBool, Ordering},
};

use uuid::Uuid;

static ID: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().to_string());

/// The id of this process.
pub(super) fn id() -> &'static str {
    &ID
}

/// The id of a node that starts: that of the process for its first node, and another one for each further
/// node.
pub(crate) fn node_id() -> String {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) { Uuid::new_v4().to_string() } else { ID.clone() }
}
