//! The scripts of inboxes.

use kith_cache::remote::redis::RedisScript;

macro_rules! text {
    ($($name:literal),+) => {
        concat!($(include_str!(concat!("lua/", $name, ".lua"))),+)
    };
}

/// The scripts. Those of one inbox begin with the shared part.
#[derive(Debug)]
pub(super) struct InboxScripts {
    pub(super) fan: RedisScript,
    pub(super) open: RedisScript,
    pub(super) close: RedisScript,
    pub(super) mark: RedisScript,
    pub(super) read: RedisScript,
    pub(super) note: RedisScript,
    pub(super) receiving: RedisScript,
    pub(super) register: RedisScript,
    pub(super) registered: RedisScript,
    pub(super) publish: RedisScript,
    pub(super) confirm: RedisScript,
    pub(super) forget: RedisScript,
    pub(super) silent: RedisScript,
    pub(super) confirmed: RedisScript,
}

impl InboxScripts {
    pub(super) fn new() -> Self {
        Self::of(|text| text)
    }

    /// The scripts, changed by `edit`.
    pub(super) fn of(edit: impl Fn(&'static str) -> &'static str) -> Self {
        Self {
            fan: RedisScript::new(edit(text!("inbox", "fan"))),
            open: RedisScript::new(edit(text!("inbox", "nodes", "open"))),
            close: RedisScript::new(edit(text!("inbox", "nodes", "close"))),
            mark: RedisScript::new(edit(text!("inbox", "mark"))),
            read: RedisScript::new(edit(text!("inbox", "read"))),
            note: RedisScript::new(edit(text!("inbox", "note"))),
            receiving: RedisScript::new(edit(text!("inbox", "receiving"))),
            register: RedisScript::new(edit(text!("inbox", "nodes", "register"))),
            registered: RedisScript::new(edit(text!("inbox", "registered"))),
            publish: RedisScript::new(edit(text!("publish"))),
            confirm: RedisScript::new(edit(text!("confirm"))),
            forget: RedisScript::new(edit(text!("forget"))),
            silent: RedisScript::new(edit(text!("silent"))),
            confirmed: RedisScript::new(edit(text!("confirmed"))),
        }
    }
}
