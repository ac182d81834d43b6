//! Writes what commands print.

use std::io::{self, IsTerminal as _, Write as _};

use clap::{Args, ValueEnum};
use comfy_table::{Table, presets::UTF8_BORDERS_ONLY};
use serde::Serialize;
use serde_json::Value;

/// A standard stream that cannot be written: a full device, or a pipe whose reader has gone.
#[derive(Debug, thiserror::Error)]
#[error("standard {stream} cannot be written: {error}")]
pub(super) struct WriteError {
    stream: &'static str,
    error: io::Error,
}

impl WriteError {
    /// Describes a failure of standard output.
    pub(super) const fn output(error: io::Error) -> Self {
        Self { stream: "output", error }
    }

    /// Describes a failure of standard error.
    pub(super) const fn error(error: io::Error) -> Self {
        Self { stream: "error", error }
    }
}

/// The form of the result of a command on standard output.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(super) struct Output {
    /// Form of the result [default: table on a terminal, else plain]
    #[arg(short = 'o', long = "output", global = true, value_enum, value_name = "FORM")]
    form: Option<OutputForm>,
}

/// A form of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputForm {
    /// With borders, for people
    Table,
    /// A header and lines of fields with tabs between them, for awk
    Plain,
    /// One JSON document
    Json,
}

/// A command's result: a document, and the same as a table.
pub(super) trait Report: Serialize {
    /// The column names: one word each.
    const COLUMNS: &'static [&'static str];

    /// Returns the cells of the single row. By default the columns are named like the document's fields.
    fn row(&self) -> Vec<String> {
        fields(self, Self::COLUMNS)
    }

    /// Returns the rows, if there is not exactly one; each row has as many cells as there are columns.
    fn rows(&self) -> Vec<Vec<String>> {
        vec![self.row()]
    }

    /// Returns the names of columns that a table for people omits.
    fn left_out(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// A row for each item.
impl<R: Report> Report for Vec<R> {
    const COLUMNS: &'static [&'static str] = R::COLUMNS;

    fn rows(&self) -> Vec<Vec<String>> {
        self.iter().map(R::row).collect()
    }
}

/// The columns for a report with a row for each field.
pub(super) const FIELD_AND_VALUE: &[&str] = &["field", "value"];

/// Returns a row for each named field.
pub(super) fn field_rows(document: &impl Serialize, names: &[&str]) -> Vec<Vec<String>> {
    let cells = fields(document, names);
    names.iter().zip(cells).map(|(name, cell)| vec![(*name).to_owned(), cell]).collect()
}

/// Returns the named fields as cells.
fn fields<T: Serialize + ?Sized>(document: &T, names: &[&str]) -> Vec<String> {
    let document = serde_json::to_value(document).unwrap_or_default();
    let cell = |name: &&str| match document.get(*name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::Bool(is)) => yes(*is),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    names.iter().map(cell).collect()
}

/// Formats a cell with yes or no.
pub(super) fn yes(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

impl Output {
    /// The requested form, or the default for the destination.
    pub(super) fn form(self) -> OutputForm {
        let usual = if io::stdout().is_terminal() { OutputForm::Table } else { OutputForm::Plain };
        self.form.unwrap_or(usual)
    }

    /// Returns the requested form.
    pub(super) const fn requested_form(self) -> Option<OutputForm> {
        self.form
    }

    /// Writes the report to standard error, for commands whose standard output has records. Fails if standard
    /// error cannot be written.
    pub(super) fn print_to_stderr(self, report: &impl Report) -> Result<(), WriteError> {
        let usual = if io::stderr().is_terminal() { OutputForm::Table } else { OutputForm::Plain };
        let text = rendered(report, self.form.unwrap_or(usual)).map_err(WriteError::error)?;
        io::stderr().lock().write_all(text.as_bytes()).map_err(WriteError::error)
    }

    /// Writes the report. Fails if standard output cannot be written.
    pub(super) fn print(self, report: &impl Report) -> Result<(), WriteError> {
        write(rendered(report, self.form()).map_err(WriteError::output)?.as_bytes())
    }

    /// Writes a text unchanged, or the document that holds it if JSON is requested. Fails if standard output
    /// cannot be written.
    pub(super) fn print_text(self, text: &[u8], document: &impl Serialize) -> Result<(), WriteError> {
        match self.form() {
            OutputForm::Json => write(json(document).map_err(WriteError::output)?.as_bytes()),
            OutputForm::Table | OutputForm::Plain => write(text),
        }
    }
}

/// Writes the next report in a series: as JSON it is one line, and plain text has its header before the
/// `first`. Returns false if the reader at the other end of a pipe has gone (`head`), which ends an endless
/// series. Fails if standard output cannot be written.
pub(super) fn print_next(form: OutputForm, report: &impl Report, first: bool) -> Result<bool, WriteError> {
    let text = next(form, report, first).map_err(WriteError::output)?;
    match write(text.as_bytes()) {
        Err(unwritable) if unwritable.error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

fn next(form: OutputForm, report: &impl Report, first: bool) -> io::Result<String> {
    Ok(match form {
        OutputForm::Json => serde_json::to_string(report)? + "\n",
        OutputForm::Plain if !first => {
            let text = rendered(report, form)?;
            text.split_once('\n').map(|(_header, rows)| rows.to_owned()).unwrap_or_default()
        }
        OutputForm::Plain | OutputForm::Table => rendered(report, form)?,
    })
}

/// Writes a whole result. Commands write to standard output only through this. Fails if standard output
/// cannot be written, or if a pipe's reader has gone.
pub(super) fn write(result: &[u8]) -> Result<(), WriteError> {
    let mut out = io::stdout().lock();
    out.write_all(result).and_then(|()| out.flush()).map_err(WriteError::output)
}

/// Writes one line to standard error. If that cannot be written, no other place can report it: the exit code
/// remains.
pub(super) fn note(line: &str) {
    drop(writeln!(io::stderr().lock(), "{line}"));
}

/// Formats a report. Fails if it has no JSON form.
pub(super) fn rendered<R: Report>(report: &R, form: OutputForm) -> io::Result<String> {
    match form {
        OutputForm::Json => json(report),
        OutputForm::Plain => {
            let header = R::COLUMNS.join("\t");
            let lines = report
                .rows()
                .into_iter()
                .map(|row| row.iter().map(|cell| plain(cell)).collect::<Vec<_>>().join("\t"));
            Ok(std::iter::once(header).chain(lines).fold(String::new(), |text, line| text + &line + "\n"))
        }
        OutputForm::Table => {
            let left_out = report.left_out();
            let kept: Vec<_> = R::COLUMNS.iter().map(|name| !left_out.contains(name)).collect();
            let rows = report.rows().into_iter().map(|row| only(&kept, row));
            let mut table = Table::new();
            table.load_style(UTF8_BORDERS_ONLY).set_header(only(&kept, R::COLUMNS.to_vec())).add_rows(rows);
            Ok(format!("{table}\n"))
        }
    }
}

fn json(document: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

/// Keeps the cells in the columns that are kept.
fn only<T>(kept: &[bool], cells: Vec<T>) -> Vec<T> {
    cells.into_iter().zip(kept).filter_map(|(cell, kept)| kept.then_some(cell)).collect()
}

/// Returns a cell without separators and control characters.
fn plain(cell: &str) -> String {
    if cell.is_empty() {
        return "-".to_owned();
    }
    one_line(cell)
}

/// Returns an external text in one line, without control characters.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct NamedValue {
        name: &'static str,
        value: Value,
    }

    impl Report for NamedValue {
        const COLUMNS: &'static [&'static str] = &["name", "value"];
    }

    /// A row for each value.
    fn found(values: &[Value]) -> Vec<NamedValue> {
        ["a", "b", "c", "d"]
            .into_iter()
            .zip(values)
            .map(|(name, value)| NamedValue { name, value: value.clone() })
            .collect()
    }

    #[test]
    fn plain_text_has_one_line_for_each_row() {
        let values = ["x\ny\t\u{1b}[1m".into(), "".into(), true.into(), 7.into()];
        let text = rendered(&found(&values), OutputForm::Plain).unwrap();
        assert_eq!(text, "name\tvalue\na\tx y  [1m\nb\t-\nc\tyes\nd\t7\n");
    }

    #[test]
    fn json_is_one_document() {
        let text = rendered(&found(&["b".into()]), OutputForm::Json).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document, serde_json::json!([{ "name": "a", "value": "b" }]));
    }

    #[test]
    fn a_table_has_a_header() {
        let text = rendered(&found(&["b".into()]), OutputForm::Table).unwrap();
        assert!(text.contains("name") && text.contains("value"), "{text}");
    }
}
