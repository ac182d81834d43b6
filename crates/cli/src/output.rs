//! The output of commands.

use std::io::{self, IsTerminal as _, Write as _};

use clap::{Args, ValueEnum};
use comfy_table::{Table, presets::UTF8_BORDERS_ONLY};
use serde::Serialize;

/// A standard stream that cannot be written: a full device, or a pipe whose reader has gone.
#[derive(Debug, thiserror::Error)]
#[error("standard {stream} cannot be written: {error}")]
pub(super) struct Unwritable {
    stream: &'static str,
    error: io::Error,
}

impl Unwritable {
    /// Of standard output.
    pub(super) const fn output(error: io::Error) -> Self {
        Self { stream: "output", error }
    }

    /// Of standard error.
    pub(super) const fn error(error: io::Error) -> Self {
        Self { stream: "error", error }
    }
}

/// The form of the result of a command on standard output.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(super) struct Output {
    /// Form of the result [default: table on a terminal, else plain]
    #[arg(short = 'o', long = "output", global = true, value_enum, value_name = "FORM")]
    form: Option<Form>,
}

/// A form of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// With borders, for people
    Table,
    /// A header and lines of fields with tabs between them, for awk
    Plain,
    /// One JSON document
    Json,
}

/// The result of a command: a document, and the same as a table.
pub(super) trait Report: Serialize {
    /// Names of the columns: one word each.
    fn header(&self) -> Vec<&'static str>;
    /// The rows; each has as many cells as there are columns.
    fn rows(&self) -> Vec<Vec<String>>;

    /// Names of columns that a table for people does without.
    fn left_out(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

impl Output {
    /// The requested form, or the default for the destination.
    pub(super) fn form(self) -> Form {
        let usual = if io::stdout().is_terminal() { Form::Table } else { Form::Plain };
        self.form.unwrap_or(usual)
    }

    /// The requested form.
    pub(super) const fn asked(self) -> Option<Form> {
        self.form
    }

    /// Writes the report to standard error, for commands whose standard output has records.
    ///
    /// # Errors
    /// If standard error cannot be written.
    pub(super) fn print_beside(self, report: &impl Report) -> Result<(), Unwritable> {
        let usual = if io::stderr().is_terminal() { Form::Table } else { Form::Plain };
        let text = rendered(report, self.form.unwrap_or(usual)).map_err(Unwritable::error)?;
        io::stderr().lock().write_all(text.as_bytes()).map_err(Unwritable::error)
    }

    /// Writes the report.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(super) fn print(self, report: &impl Report) -> Result<(), Unwritable> {
        write(rendered(report, self.form()).map_err(Unwritable::output)?.as_bytes())
    }
}

/// Writes one of several reports that follow each other: as JSON it is one line, and plain text has its header before
/// the `first`. False if the reader of a pipe has gone (`head`), which ends an endless series.
///
/// # Errors
/// If standard output cannot be written.
pub(super) fn print_next(form: Form, report: &impl Report, first: bool) -> Result<bool, Unwritable> {
    let text = next(form, report, first).map_err(Unwritable::output)?;
    match write(text.as_bytes()) {
        Err(unwritable) if unwritable.error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

fn next(form: Form, report: &impl Report, first: bool) -> io::Result<String> {
    Ok(match form {
        Form::Json => serde_json::to_string(report)? + "\n",
        Form::Plain if !first => {
            let text = rendered(report, form)?;
            text.split_once('\n').map(|(_header, rows)| rows.to_owned()).unwrap_or_default()
        }
        Form::Plain | Form::Table => rendered(report, form)?,
    })
}

/// Writes a whole result. Commands write to standard output only through this.
///
/// # Errors
/// If standard output cannot be written, also if the reader of a pipe has gone.
pub(super) fn write(result: &[u8]) -> Result<(), Unwritable> {
    let mut out = io::stdout().lock();
    out.write_all(result).and_then(|()| out.flush()).map_err(Unwritable::output)
}

/// Writes one line to standard error. Where that cannot be written there is no place left to say so: the exit code remains.
pub(super) fn note(line: &str) {
    drop(writeln!(io::stderr().lock(), "{line}"));
}

/// The text of a report in this form.
///
/// # Errors
/// If it has no JSON form.
pub(super) fn rendered(report: &impl Report, form: Form) -> io::Result<String> {
    match form {
        Form::Json => Ok(serde_json::to_string_pretty(report)? + "\n"),
        Form::Plain => {
            let header = report.header().join("\t");
            let lines = report
                .rows()
                .into_iter()
                .map(|row| row.iter().map(|cell| plain(cell)).collect::<Vec<_>>().join("\t"));
            Ok(std::iter::once(header).chain(lines).fold(String::new(), |text, line| text + &line + "\n"))
        }
        Form::Table => {
            let (header, left_out) = (report.header(), report.left_out());
            let kept: Vec<_> = header.iter().map(|name| !left_out.contains(name)).collect();
            let rows = report.rows().into_iter().map(|row| only(&kept, row));
            let mut table = Table::new();
            table.load_style(UTF8_BORDERS_ONLY).set_header(only(&kept, header)).add_rows(rows);
            Ok(format!("{table}\n"))
        }
    }
}

/// The cells of the columns that are kept.
fn only<T>(kept: &[bool], cells: Vec<T>) -> Vec<T> {
    cells.into_iter().zip(kept).filter_map(|(cell, kept)| kept.then_some(cell)).collect()
}

/// A cell without separators and control characters.
fn plain(cell: &str) -> String {
    if cell.is_empty() {
        return "-".to_owned();
    }
    one_line(cell)
}

/// An external text in one line, without control characters.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Found(Vec<(&'static str, &'static str)>);

    impl Report for Found {
        fn header(&self) -> Vec<&'static str> {
            vec!["name", "value"]
        }

        fn rows(&self) -> Vec<Vec<String>> {
            self.0.iter().map(|(name, value)| vec![(*name).to_owned(), (*value).to_owned()]).collect()
        }
    }

    #[test]
    fn plain_text_has_one_line_for_each_row() {
        let text = rendered(&Found(vec![("a", "x\ny\t\u{1b}[1m"), ("b", "")]), Form::Plain).unwrap();
        assert_eq!(text, "name\tvalue\na\tx y  [1m\nb\t-\n");
    }

    #[test]
    fn json_is_one_document() {
        let text = rendered(&Found(vec![("a", "b")]), Form::Json).unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            serde_json::json!([["a", "b"]])
        );
    }

    #[test]
    fn a_table_has_a_header() {
        let text = rendered(&Found(vec![("a", "b")]), Form::Table).unwrap();
        assert!(text.contains("name") && text.contains("value"), "{text}");
    }
}
