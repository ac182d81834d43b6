use std::time::Duration;

/// What bounds windows, and reads that no window answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    /// Most messages of a window; from 1 to 100.
    pub messages: usize,
    /// Most bytes of the entries of a window.
    pub bytes: usize,
    /// How long a window is kept after its last use. Longer than `hold`.
    pub kept: Duration,
    /// How long a window is used without proof that the log still ends where the window does.
    pub checked: Duration,
    /// After this time another reader may fill a window that one began to fill.
    pub lease: Duration,
    /// How long a window is held for a change of a message. Longer than the change may take.
    pub hold: Duration,
    /// Most reads of the store at one time.
    pub loads: usize,
    /// How long a read of the store waits for its turn.
    pub load_wait: Duration,
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
