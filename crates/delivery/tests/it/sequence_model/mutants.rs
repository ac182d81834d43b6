//! Rules that are taken away, to see that the histories need them.

/// A naive version, which breaks a rule.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mutant {
    /// The rule, as the decision's table names it.
    pub(crate) rule: &'static str,
    /// Replacements in the script texts.
    pub(super) edits: &'static [(&'static str, &'static str)],
    /// The store is read, and written in another step.
    pub(super) reads_then_writes: bool,
    /// An offer that was not answered is made a second time.
    pub(super) offers_again: bool,
    /// Takes do not name what the node was given and what its caller knows.
    pub(super) forgets: bool,
    /// Keys do not carry the epoch, and every server is taken for the right server.
    pub(super) ignores_epochs: bool,
}

const NONE: Mutant = Mutant {
    rule: "",
    edits: &[],
    reads_then_writes: false,
    offers_again: false,
    forgets: false,
    ignores_epochs: false,
};

const fn script(rule: &'static str, edits: &'static [(&'static str, &'static str)]) -> Mutant {
    Mutant { rule, edits, ..NONE }
}

/// At least one mutant for each rule.
pub(crate) const MUTANTS: [Mutant; 11] = [
    Mutant { rule: "S1: a block is taken in one step of the store", reads_then_writes: true, ..NONE },
    script("S2: a take raises the last number", &[("redis.call('HSET', KEY, 'at', at + taken)", "")]),
    script("S3: a take ends with the block", &[("math.min(count, last - at)", "count")]),
    script("S6: a take is above what is known", &[("if at >= seen then", "if true then")]),
    script(
        "S4: a block is extended only by the one that follows it",
        &[("elseif first == last + 1 then", "elseif first > last then")],
    ),
    script(
        "S5: a block below the present one is dropped",
        &[("elseif first <= last then", "elseif false then")],
    ),
    script("S6: a block above what is known replaces an old one", &[("if at < seen then", "if false then")]),
    Mutant { rule: "S7: a block is offered once", offers_again: true, ..NONE },
    Mutant { rule: "S6: a take names what the node and its caller know", forgets: true, ..NONE },
    script("S9: one node fetches at a time", &[("if not fetch or fetch <= now then", "if true then")]),
    Mutant { rule: "S8: keys carry the epoch, and its server answers", ignores_epochs: true, ..NONE },
];
