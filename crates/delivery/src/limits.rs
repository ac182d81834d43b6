//! Window and inbox limits.

use std::time::Duration;

/// The limits for windows, and for reads that no window answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    /// The most messages in a window; from 1 to 100.
    pub messages: usize,
    /// The most bytes in a window's entries.
    pub bytes: usize,
    /// How long a window is kept after its last use. Longer than `hold`.
    pub kept: Duration,
    /// How long a window is used without proof that the log still ends where the window does.
    pub checked: Duration,
    /// After this time another reader may fill a window that one began to fill.
    pub lease: Duration,
    /// How long a window is held while a message changes. Longer than the change may take.
    pub hold: Duration,
    /// The most store reads at the same time.
    pub loads: usize,
    /// How long a store read waits for its turn.
    pub load_wait: Duration,
}

/// The limits for inboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxLimits {
    /// The most entries in an inbox; a few more may stay. The oldest go first.
    pub entries: usize,
    /// How long an inbox is kept after the user last had a receiver.
    pub kept: Duration,
    /// How long a node counts as a node with receivers for a user, or with readers in a conversation, unless
    /// it renews.
    pub receiver_kept: Duration,
    /// The most recipients in one fan-out.
    pub users_at_once: usize,
    /// The most marks in one call.
    pub marks_at_once: usize,
    /// The most bytes in the entries that a wake carries.
    pub wake_bytes: usize,
    /// How many wakes may wait on a node; further wakes are dropped.
    pub wakes_waiting: usize,
    /// The most bytes in all inboxes on a single node without Redis.
    pub memory_bytes: usize,
    /// How long a single node without Redis keeps an inbox after the user last had a receiver.
    pub memory_kept: Duration,
    /// How long an inbox's opening may wait until the node follows a new epoch.
    pub follows_within: Duration,
}

impl Default for InboxLimits {
    /// 200 entries, 7 d, 90 s, 500 recipients, 250 marks, 2 KiB, 10,000 wakes, 64 MiB, 15 min, 4 s.
    fn default() -> Self {
        Self {
            entries: 200,
            kept: Duration::from_secs(7 * 24 * 3_600),
            receiver_kept: Duration::from_secs(90),
            users_at_once: 500,
            marks_at_once: 250,
            wake_bytes: 2 * 1024,
            wakes_waiting: 10_000,
            memory_bytes: 64 * 1024 * 1024,
            memory_kept: Duration::from_secs(15 * 60),
            follows_within: Duration::from_secs(4),
        }
    }
}

impl Default for WindowLimits {
    /// 100 messages, 256 KiB, 10 min, 10 s, 3 s, 15 s, 64 reads, 1 s.
    fn default() -> Self {
        Self {
            messages: 100,
            bytes: 256 * 1024,
            kept: Duration::from_secs(600),
            checked: Duration::from_secs(10),
            lease: Duration::from_secs(3),
            hold: Duration::from_secs(15),
            loads: 64,
            load_wait: Duration::from_secs(1),
        }
    }
}
