//! `kith check`: values against thresholds, for monitoring that runs a program (Nagios and its kin).

mod threshold;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use self::threshold::{Limit, Overrides, Threshold};
use super::{
    Common,
    client::Target,
    facts::{Facts, share},
    output::Report,
};

/// Which node to check, and against what.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Checked, each printed with its value, and the value at which it is a warning and critical:\n  \
        node                whether it answers\n  \
        serving             whether its health says that it serves\n  \
        store               whether its store answers\n  \
        migrations_pending  of its store\n  \
        memory_hit_rate     part of the reads that memory answered since the start, 0 to 1; lower is worse\n  \
        memory_used         part of the bytes of memory in use, 0 to 1\n  \
        log_lines_dropped   since the start\n  \
        calls_used          calls in flight as part of limits.in_flight, 0 to 1\n  \
        clock_seconds       by how much its clock and ours differ\n\n\
        Exit codes: 0 all well, 1 a warning, 2 critical."
)]
pub(super) struct Arguments {
    /// What it is when the node does not answer
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "critical")]
    node_away_is: Away,
    /// At which value a check warns: --warn calls_used=0.5; `none`: never
    #[arg(long, value_name = "NAME=VALUE", value_parser = Limit::parse)]
    warn: Vec<Limit>,
    /// At which value a check is critical: --critical calls_used=0.8; `none`: never
    #[arg(long, value_name = "NAME=VALUE", value_parser = Limit::parse)]
    critical: Vec<Limit>,
    #[command(flatten)]
    target: Target,
}

/// What a node that does not answer is taken for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Away {
    Warning,
    Critical,
}

/// Checks the node. The exit code is the worst of what was found.
///
/// # Errors
/// When the result cannot be written.
pub(super) async fn run(common: &Common, arguments: &Arguments) -> Result<u8> {
    let overrides = Overrides { warn: &arguments.warn, critical: &arguments.critical };
    let checks = match Facts::of(&arguments.target).await {
        Ok(facts) => checks(&facts, &overrides),
        Err(why) => {
            eprintln!("kith: {why:#}");
            vec![Check::state("node", "away", Level::from(arguments.node_away_is))]
        }
    };
    let worst = checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok);
    common.output.print(&Checked { node: arguments.target.addr.clone(), level: worst, checks })?;
    Ok(worst as u8)
}

/// How well a value is; the number is that of the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
enum Level {
    Ok = 0,
    Warning = 1,
    Critical = 2,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl From<Away> for Level {
    fn from(away: Away) -> Self {
        match away {
            Away::Warning => Self::Warning,
            Away::Critical => Self::Critical,
        }
    }
}

#[derive(Serialize)]
struct Checked {
    node: String,
    level: Level,
    checks: Vec<Check>,
}

/// One value with what it was held against.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    level: Level,
    value: String,
    warn: String,
    critical: String,
}

impl Check {
    /// Of something that is as it should be or not.
    fn state(check: &'static str, value: &str, level: Level) -> Self {
        let critical = if level == Level::Ok { String::new() } else { value.to_owned() };
        Self { check, level, value: value.to_owned(), warn: String::new(), critical }
    }

    fn number(threshold: &Threshold, value: Option<f64>) -> Self {
        Self {
            check: threshold.name,
            level: value.map_or(Level::Ok, |value| threshold.level(value)),
            value: value.map_or_else(|| "unknown".to_owned(), threshold::shown),
            warn: threshold.warn.map_or_else(String::new, threshold::shown),
            critical: threshold.critical.map_or_else(String::new, threshold::shown),
        }
    }
}

fn checks(facts: &Facts, overrides: &Overrides<'_>) -> Vec<Check> {
    let of = |good| if good { Level::Ok } else { Level::Critical };
    let mut checks = vec![
        Check::state("node", "answers", Level::Ok),
        Check::state("serving", facts.state(), of(facts.serving)),
    ];
    if let Some(node) = &facts.node {
        let store = if node.store_answers { "answers" } else { "away" };
        checks.push(Check::state("store", store, of(node.store_answers)));
    }
    checks.extend(threshold::all(overrides).iter().map(|threshold| {
        let value = value(facts, threshold.name);
        Check::number(threshold, value)
    }));
    checks
}

/// What the node says of a threshold's value; `None`: nothing.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn value(facts: &Facts, name: &str) -> Option<f64> {
    let node = facts.node.as_ref()?;
    match name {
        "migrations_pending" => node.store_answers.then_some(node.migrations_pending as f64),
        "memory_hit_rate" => facts.hit_rate(),
        "memory_used" => {
            let used = facts.memory.iter().map(|namespace| namespace.weight_bytes).sum();
            share(used, facts.memory.iter().map(|namespace| namespace.weight_limit_bytes).sum())
        }
        "log_lines_dropped" => Some(node.log_lines_dropped as f64),
        "calls_used" => share(node.calls_in_flight, node.calls_limit),
        "clock_seconds" => facts.clock_ahead_seconds.map(f64::abs),
        _ => None,
    }
}

impl Report for Checked {
    fn header(&self) -> Vec<&'static str> {
        vec!["check", "level", "value", "warn", "critical"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |check: &Check| {
            vec![
                check.check.to_owned(),
                check.level.name().to_owned(),
                check.value.clone(),
                check.warn.clone(),
                check.critical.clone(),
            ]
        };
        self.checks.iter().map(row).collect()
    }
}
