//! Writes `docs/command-line.md`.

use clap::{Arg, Command};

use super::markdown::{begin, code, ended, paragraphs, table};

pub(super) fn write(mut root: Command) -> String {
    root.build();
    let mut text = begin("Command line", "the definitions in `crates/cli/src`");
    text += &about(&root);
    text += "A flag that sets a value of the [configuration](configuration.md) wins over the environment and the \
             file.\n\n## Flags of every command\n\n";
    text += &flags(root.get_arguments().filter(|flag| flag.is_global_set()));
    text += &codes();
    for command in root.get_subcommands() {
        text += &describe(command);
    }
    ended(&text)
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

/// Describes a command with its own flags, then the commands below it.
fn describe(command: &Command) -> String {
    if command.is_hide_set() || command.get_name() == "help" {
        return String::new();
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut text = format!("## {name}\n\n{}```text\n{usage}\n```\n\n", about(command));
    text += &flags(command.get_arguments().filter(|flag| !flag.is_global_set()));
    if let Some(after) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        text += &format!("```text\n{}\n```\n\n", after.to_string().trim_end());
    }
    command.get_subcommands().fold(text, |text, below| text + &describe(below))
}

fn about(command: &Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about());
    about
        .map(|about| paragraphs(&format!("{}.", about.to_string().trim_end_matches('.'))))
        .unwrap_or_default()
}

fn flags<'a>(flags: impl Iterator<Item = &'a Arg>) -> String {
    let shown =
        flags.filter(|flag| !flag.is_hide_set() && !matches!(flag.get_id().as_str(), "help" | "version"));
    table(["flag", "value", "meaning"], &shown.map(row).collect::<Vec<_>>())
}

fn row(flag: &Arg) -> [String; 3] {
    let named = [flag.get_short().map(|c| format!("-{c}")), flag.get_long().map(|long| format!("--{long}"))];
    let named: Vec<_> = named.into_iter().flatten().map(|name| code(&name)).collect();
    let values =
        flag.get_value_names().map(|names| names.iter().map(|name| name.as_str()).collect::<Vec<_>>());
    let values = match values {
        Some(values) if flag.get_action().takes_values() => values.join(" "),
        Some(_) | None => String::new(),
    };
    let name = if named.is_empty() { code(&values) } else { named.join(", ") };
    let value = if named.is_empty() { "in this place".to_owned() } else { code(&values) };
    [name, value, meaning(flag)]
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
    let defaults: Vec<_> =
        flag.get_default_values().iter().filter_map(|value| value.to_str()).map(code).collect();
    if flag.get_action().takes_values() && !defaults.is_empty() {
        text += &format!(". Default {}", defaults.join(" "));
    }
    if let Some(variable) = flag.get_env().and_then(|name| name.to_str()) {
        text += &format!(". Environment {}", code(variable));
    }
    text + "."
}
