//! Rules that are taken away, to see that the histories need them.

/// A naive version, which breaks a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    pub(crate) rule: &'static str,
    /// Replacements in the script texts.
    pub(super) edits: &'static [(&'static str, &'static str)],
    /// How a receiver, or its node, deviates.
    pub(super) deviation: Deviation,
}

/// How a receiver, or its node, deviates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Deviation {
    #[default]
    None,
    /// Reads the log up to the end that it has read itself.
    OwnEnd,
    /// Leaves nothing out of the entries from the time in which it caught up.
    NoCut,
    /// Goes on after its first marks' position.
    AfterFirstMarks,
    /// Does not compare the number of marks with its number of conversations.
    ListsOnce,
    /// Keeps a cursor from the time in which it caught up.
    EarlyCursor,
    /// Goes on with another generation's position.
    AnyGeneration,
    /// The node opens inboxes before the earlier epoch has ended.
    Unsettled,
}

const fn script(rule: &'static str, edits: &'static [(&'static str, &'static str)]) -> Mutant {
    Mutant { rule, edits, deviation: Deviation::None }
}

const fn deviation(rule: &'static str, deviation: Deviation) -> Mutant {
    Mutant { rule, edits: &[], deviation }
}

/// One mutant for each rule.
pub(crate) const MUTANTS: [Mutant; 16] = [
    script(
        "a mark is raised without an entry",
        &[("if mark or (all and last ~= '0') then", "if false then")],
    ),
    script(
        "a conversation that is new by a mark is not entered",
        &[("if mark or (all and last ~= '0') then", "if mark then")],
    ),
    script(
        "a fan-out adds entries with ids of Redis",
        &[
            ("'MAXLEN', '~', most, id, 'e'", "'MAXLEN', '~', most, '*', 'e'"),
            ("redis.call('XADD', stream, id, 'e'", "redis.call('XADD', stream, '*', 'e'"),
        ],
    ),
    script(
        "a fan-out enters its own message alone",
        &[("range(ARGV[1], mark, ARGV[2])", "range(ARGV[1], last - 1, ARGV[2])")],
    ),
    script(
        "a wake names its own message alone",
        &[(
            "answer = { nodes, g, position, mark and mark + 1 or 0 }",
            "answer = { nodes, g, position, last }",
        )],
    ),
    script(
        "a fan-out is entered whatever the mark is",
        &[("if g and mark and mark >= last then", "if false then")],
    ),
    script("a fan-out sets no mark", &[("'p', position, ARGV[1], ARGV[2])", "'p', position)")]),
    script(
        "an evicted stream counts as read",
        &[("if count == 0 or ", "if count == 0 then return {} end\nif ")],
    ),
    script(
        "trimmed entries are skipped",
        &[("found[1][1] ~= id(after + 1) or found[count][1] ~= id(after + count)", "false")],
    ),
    deviation("a receiver goes on in another generation", Deviation::AnyGeneration),
    deviation("a receiver reads the log up to the end that it has read itself", Deviation::OwnEnd),
    deviation("a receiver leaves nothing out after it caught up", Deviation::NoCut),
    deviation("a receiver goes on after the position of its first marks", Deviation::AfterFirstMarks),
    deviation("a receiver reads its conversations once", Deviation::ListsOnce),
    deviation("a receiver keeps a cursor while it catches up", Deviation::EarlyCursor),
    deviation("an inbox is opened before the earlier epoch has ended", Deviation::Unsettled),
];
