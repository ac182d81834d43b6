//! Rules that are taken away, to see that the histories need them.

/// A naive version, which breaks a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    /// The rule, as the interleaving table names it.
    pub(crate) rule: &'static str,
    /// Replacements in the script texts.
    pub(super) edits: &'static [(&'static str, &'static str)],
    /// A fill reads the document before the last one first.
    pub(super) reads_oldest_first: bool,
    /// Keys do not carry the epoch.
    pub(super) ignores_epochs: bool,
}

const fn script(rule: &'static str, edits: &'static [(&'static str, &'static str)]) -> Mutant {
    Mutant { rule, edits, reads_oldest_first: false, ignores_epochs: false }
}

/// At least one mutant for each rule. Rules that random histories hardly ever need have their own tests in
/// `windows_keeper.rs`.
pub(crate) const MUTANTS: [Mutant; 14] = [
    script(
        "W1: messages behind a gap are added",
        &[
            ("elseif hi and first > hi + 1 then", "elseif false then"),
            ("for seq = hi + 1, last", "for seq = math.max(first, hi + 1), last"),
        ],
    ),
    script("W2: a fill below the floor is taken", &[("if to < floor then return { BELOW, now } end", "")]),
    script(
        "W3: a fill needs no lease of its own",
        &[("if lease ~= token then return { LOST, now } end", "")],
    ),
    script(
        "W4: the window is dropped only after the change",
        &[(
            "tonumber(ARGV[2])\ndrop(HOLD)",
            "tonumber(ARGV[2])\nif lasts > 0 then return { now, 0 } end\ndrop(HOLD)",
        )],
    ),
    script("W4: a release ends every hold", &[("and holder ~= token", "and false")]),
    script(
        "W5: a late append makes a window",
        &[(
            "if not hi then\n    raise(last)\nelseif last > hi and",
            "if not hi then\n    redis.call('DEL', LIST)\n    lo, hi, bytes = first, first - 1, 0\nend\nif last > hi and",
        )],
    ),
    script("W6: the end is never compared with the store", &[("return now - checked", "return 0")]),
    script(
        "W7: a list that was evicted counts as a window",
        &[("redis.call('LLEN', LIST) == count", "true")],
    ),
    Mutant { ignores_epochs: true, ..script("W8: keys do not carry the epoch", &[]) },
    Mutant { reads_oldest_first: true, ..script("W9: a fill reads the oldest document first", &[]) },
    script(
        "W10: a fill counts from its arrival",
        &[("math.max(checked, at))\nredis.call('HDEL'", "now)\nredis.call('HDEL'")],
    ),
    script(
        "W10: an append counts from its arrival",
        &[("'bytes', bytes, 'checked', math.max(checked, at))\nend", "'bytes', bytes, 'checked', now)\nend")],
    ),
    script("W11: the event of a change is added", &[("if ARGV[4] == '1' then", "if false then")]),
    script(
        "an event raises no floor",
        &[("if not hi then\n    raise(last)", "if not hi then\n    -- raise(last)")],
    ),
];
