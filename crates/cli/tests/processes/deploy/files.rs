//! Reads the files that are tested.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// An alert in `alerts.yml`.
#[derive(Debug)]
pub(crate) struct Alert {
    pub(crate) name: String,
    pub(crate) expression: String,
    pub(crate) severity: String,
    pub(crate) waits: String,
    pub(crate) summary: String,
    pub(crate) runbook: String,
}

/// A query on a board, and the labels by which it distinguishes the results.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) place: String,
    pub(crate) expression: String,
    pub(crate) legend: String,
}

/// Returns the path of a file or folder below the root.
pub(crate) fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Reads a file below the root.
pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(at(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// Returns the YAML block or one-line value that follows `key`, without its indentation.
pub(crate) fn block(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with(key));
    let first = lines.next()?;
    let (depth, value) = (first.len() - first.trim_start().len(), first.trim_start()[key.len()..].trim());
    if !["", "|"].contains(&value) {
        return Some(value.trim_matches('\'').to_owned());
    }
    let within = |line: &&str| line.trim().is_empty() || line.len() - line.trim_start().len() > depth;
    let block: Vec<&str> = lines.take_while(within).collect();
    let indent =
        block.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
    let indent = indent.min().unwrap_or(0);
    Some(block.iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect())
}

/// Returns all alerts, in their order.
pub(crate) fn alerts() -> Vec<Alert> {
    let text = text("deploy/prometheus/alerts.yml");
    let rules: Vec<&str> = text.split("- alert:").skip(1).collect();
    let alert = |rule: &&str| {
        let name = rule.lines().next().unwrap_or_default().trim();
        let value = |key: &str| block(rule, key).unwrap_or_else(|| panic!("{name} says no {key}"));
        Alert {
            name: name.to_owned(),
            expression: value("expr:"),
            severity: value("labels:"),
            waits: value("for:"),
            summary: value("summary:"),
            runbook: value("runbook_url:"),
        }
    };
    rules.iter().map(alert).collect()
}

/// Returns all queries on the boards, including those for their variables.
pub(crate) fn queries() -> Vec<Query> {
    let mut queries = Vec::new();
    for entry in fs::read_dir(at("deploy/grafana/dashboards")).unwrap() {
        let file = entry.unwrap().path();
        let board: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        collect(&board, &file.file_name().unwrap().to_string_lossy(), &mut queries);
    }
    queries
}

/// `place`: the title of the nearest panel around the value.
fn collect(value: &Value, place: &str, queries: &mut Vec<Query>) {
    match value {
        Value::Object(fields) => {
            let text = |key: &str| fields.get(key).and_then(Value::as_str);
            let place = text("title").map_or_else(|| place.to_owned(), |title| format!("{place}: {title}"));
            let legend = text("legendFormat").unwrap_or_default().to_owned();
            let variable = text("query").and_then(|query| query.strip_prefix("label_values("));
            if let Some(expression) = text("expr") {
                queries.push(Query { place: place.clone(), expression: expression.to_owned(), legend });
            } else if let Some((series, label)) = variable.and_then(|query| query.rsplit_once(',')) {
                let label = label.trim_end_matches(')').trim();
                let (expression, legend) = (series.to_owned(), format!("{{{{{label}}}}}"));
                queries.push(Query { place: place.clone(), expression, legend });
            }
            fields.values().for_each(|field| collect(field, &place, queries));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, place, queries)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the labels in a text like `{{instance}} {{ method }}`.
pub(crate) fn shown(legend: &str) -> Vec<String> {
    let labels = legend.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    labels.map(|(label, _)| label.trim().to_owned()).collect()
}
