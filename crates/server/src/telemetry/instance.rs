//! The id under which traces name this process. It is the id of its node.

use std::sync::{
    LazyLock,
    atomic::{AtomicBool, Ordering},
};

use uuid::Uuid;

static ID: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().to_string());

/// This process's id.
pub(super) fn id() -> &'static str {
    &ID
}

/// The id for a node that starts: the process's id for the first node, and a new id for each further node.
pub(crate) fn node_id() -> String {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) { Uuid::new_v4().to_string() } else { ID.clone() }
}
