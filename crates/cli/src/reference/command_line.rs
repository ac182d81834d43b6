//! The page of the command line.

use clap::{Arg, Command};

use super::markdown::{begin, code, definitions, ended, paragraphs, table};

/// A flag that so many commands take is printed once.
const SHARED_BY: usize = 6;
/// The heading of the flags that are printed once.
const SHARED: &str = "Flags of calls";

/// Name with value, and meaning of a flag.
type FlagRow = [String; 2];

pub(super) fn write(mut root: Command) -> String {
    root.build();
    let shared = shared(&root);
    let mut text = begin("Command line", "the definitions in `crates/cli/src`");
    text += "A flag that sets a value of the [configuration](configuration.md) wins over the environment and \
             the file.\n\n## Flags of every command\n\n";
    text +=
        &definitions(root.get_arguments().filter(|flag| flag.is_global_set() && is_listed(flag)).map(row));
    text += &format!("## {SHARED}\n\n");
    text += &definitions(shared.iter().cloned());
    text += &codes();
    for command in root.get_subcommands().filter(|command| is_shown(command)) {
        text += &describe(command, &shared, &[]);
    }
    ended(&text)
}

/// The flags that many commands take, in the order of the first that takes them.
fn shared(root: &Command) -> Vec<FlagRow> {
    let mut counted: Vec<(FlagRow, usize)> = Vec::new();
    let mut open: Vec<&Command> = root.get_subcommands().collect();
    while let Some(command) = open.pop() {
        open.extend(command.get_subcommands());
        for row in own(command) {
            match counted.iter_mut().find(|(known, _)| *known == row) {
                Some((_, count)) => *count += 1,
                None => counted.push((row, 1)),
            }
        }
    }
    counted.into_iter().filter(|(_, count)| *count >= SHARED_BY).map(|(row, _)| row).collect()
}

fn codes() -> String {
    let rows = [
        [crate::OK.to_string(), "It ended well.".to_owned()],
        [crate::FAILED.to_string(), "It failed while it ran.".to_owned()],
        [
            crate::NOT_STARTED.to_string(),
            "It could not begin: a flag, the configuration, a port, a file, a store.".to_owned(),
        ],
    ];
    let others = "Other exit codes are listed with their command below.\n\n";
    format!("## Exit codes\n\n{}{others}", table(["code", "meaning"], &rows))
}

/// A command with its own flags, and then the commands below it. `known` are flags that were printed with the
/// command above.
fn describe(command: &Command, shared: &[FlagRow], known: &[FlagRow]) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let below: Vec<_> = command.get_subcommands().filter(|below| is_shown(below)).collect();
    let mut text = format!("## {name}\n\n{}", about(command));
    let usage = usage(command);
    if usage != name && below.is_empty() {
        let is_line = !usage.contains('\n');
        text += &if is_line { code(&usage) + "\n\n" } else { format!("```text\n{usage}\n```\n\n") };
    }
    let (calls, own): (Vec<_>, Vec<_>) = own(command).into_iter().partition(|row| shared.contains(row));
    let further = calling(&calls, &own, shared);
    text += &definitions(own.into_iter().filter(|row| !known.contains(row)));
    text += &further;
    let common = common(&below, shared);
    if !common.is_empty() {
        text += "Each of the commands below takes:\n\n";
        text += &definitions(common.iter().cloned());
    }
    if let Some(after) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        text += &after_help(after.to_string().trim_end());
    }
    below.into_iter().fold(text, |text, below| text + &describe(below, shared, &common))
}

/// The text behind the flags: in its form if it has indented lines, else a paragraph for each line.
fn after_help(text: &str) -> String {
    if text.lines().any(|line| line.starts_with(' ')) {
        return format!("```text\n{text}\n```\n\n");
    }
    paragraphs(&text.lines().collect::<Vec<_>>().join("\n\n"))
}

/// Says which of the shared flags a command takes, besides its own.
fn calling(taken: &[FlagRow], own: &[FlagRow], shared: &[FlagRow]) -> String {
    if taken.is_empty() {
        return String::new();
    }
    let has = |rows: &[FlagRow], name: &String| rows.iter().any(|[known, _]| known == name);
    let names = shared.iter().map(|[name, _]| name);
    let left: Vec<_> =
        names.filter(|name| !has(taken, name) && !has(own, name)).map(String::as_str).collect();
    let without = if left.is_empty() { String::new() } else { format!(", without {}", left.join(" and ")) };
    format!(
        "Takes the [{}](#{}){without}.\n\n",
        SHARED.to_lowercase(),
        SHARED.to_lowercase().replace(' ', "-")
    )
}

/// The flags that each of these commands takes, without the shared flags.
fn common(commands: &[&Command], shared: &[FlagRow]) -> Vec<FlagRow> {
    let [first, others @ ..] = commands else { return Vec::new() };
    let others: Vec<_> = others.iter().map(|command| own(command)).collect();
    let is_common = |row: &FlagRow| !others.is_empty() && others.iter().all(|rows| rows.contains(row));
    own(first).into_iter().filter(|row| is_common(row) && !shared.contains(row)).collect()
}

fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// The usage without the place of flags, which every command has.
fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    usage.trim_start_matches("Usage:").trim().replace(" [OPTIONS]", "")
}

fn about(command: &Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about());
    about
        .map(|about| paragraphs(&format!("{}.", about.to_string().trim_end_matches('.'))))
        .unwrap_or_default()
}

/// The flags of a command, without those of every command.
fn own(command: &Command) -> Vec<FlagRow> {
    command.get_arguments().filter(|flag| !flag.is_global_set() && is_listed(flag)).map(row).collect()
}

fn is_listed(flag: &Arg) -> bool {
    !flag.is_hide_set() && !matches!(flag.get_id().as_str(), "help" | "version")
}

fn row(flag: &Arg) -> FlagRow {
    let named = [flag.get_short().map(|c| format!("-{c}")), flag.get_long().map(|long| format!("--{long}"))];
    let mut named: Vec<_> = named.into_iter().flatten().collect();
    let values =
        flag.get_value_names().map(|names| names.iter().map(|name| name.as_str()).collect::<Vec<_>>());
    let values = match values {
        Some(values) if flag.get_action().takes_values() => values.join(" "),
        Some(_) | None => String::new(),
    };
    match named.last_mut() {
        Some(name) if !values.is_empty() => *name += &format!(" {values}"),
        Some(_) => {}
        None => named.push(values),
    }
    let named: Vec<_> = named.iter().map(|name| code(name)).collect();
    [named.join(", "), meaning(flag)]
}

fn meaning(flag: &Arg) -> String {
    let help = flag.get_long_help().or_else(|| flag.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = help.trim_end_matches('.').to_owned();
    let possible = flag.get_possible_values();
    if flag.get_action().takes_values() && !possible.is_empty() {
        let names: Vec<_> =
            possible.iter().filter(|value| !value.is_hide_set()).map(|v| code(v.get_name())).collect();
        text += &format!(". One of {}", names.join(", "));
    }
    let defaults: Vec<_> = flag
        .get_default_values()
        .iter()
        .filter_map(|value| value.to_str())
        .filter(|value| !value.is_empty())
        .map(code)
        .collect();
    if flag.get_action().takes_values() && !defaults.is_empty() {
        text += &format!(". Default {}", defaults.join(" "));
    }
    if let Some(variable) = flag.get_env().and_then(|name| name.to_str()) {
        text += &format!(". Environment {}", code(variable));
    }
    text + "."
}
