//! The window scripts.

use kith_cache::remote::redis::RedisScript;

macro_rules! text {
    ($name:literal) => {
        concat!(include_str!("lua/window.lua"), include_str!(concat!("lua/", $name, ".lua")))
    };
}

/// Reads one window as a function, which the script calls for each window.
const HEADS: &str =
    concat!("local function head(KEYS, ARGV)\n", text!("head"), "end\n", include_str!("lua/heads.lua"));

/// The scripts. Each begins with the shared part.
#[derive(Debug)]
pub(super) struct WindowScripts {
    pub(super) look_up: RedisScript,
    pub(super) fill: RedisScript,
    pub(super) append: RedisScript,
    pub(super) hold: RedisScript,
    pub(super) confirm: RedisScript,
    pub(super) heads: RedisScript,
    pub(super) require_check: RedisScript,
}

impl WindowScripts {
    pub(super) fn new() -> Self {
        Self::of(|text| text)
    }

    /// The scripts, changed by `edit`.
    pub(super) fn of(edit: impl Fn(&'static str) -> &'static str) -> Self {
        Self {
            look_up: RedisScript::new(edit(text!("look_up"))),
            fill: RedisScript::new(edit(text!("fill"))),
            append: RedisScript::new(edit(text!("append"))),
            hold: RedisScript::new(edit(text!("hold"))),
            confirm: RedisScript::new(edit(text!("confirm"))),
            heads: RedisScript::new(edit(HEADS)),
            require_check: RedisScript::new(edit(text!("require_check"))),
        }
    }
}
