//! Tables in CSV, such as a database writes.

use std::{fs::File, path::Path};

use anyhow::{Context as _, Result, bail};
use csv::{Position, Reader, StringRecord};
use serde_json::{Map, Value, json};

use super::{Conversion, ids::IdKind};

/// A kind of records, and the fields of a line of `kith import all` in which a row is.
struct Table {
    kind: &'static str,
    within: &'static [&'static str],
}

const TABLES: [Table; 5] = [
    Table { kind: "users", within: &[] },
    Table { kind: "groups", within: &[] },
    Table { kind: "members", within: &["member", "member"] },
    Table { kind: "follows", within: &[] },
    Table { kind: "settings", within: &["settings"] },
];
/// Between the elements of a list.
const LIST: char = ';';

/// A column: where its value is in a row's JSON, and how a cell is read.
struct CsvColumn {
    path: Vec<String>,
    form: CellForm,
}

#[derive(Clone, Copy)]
enum CellForm {
    Text,
    Bool,
    List,
    Id(IdKind),
}

/// Converts all tables in the folder. Fails if there is none, or the first row of one names no columns.
pub(super) fn convert(all: &mut Conversion) -> Result<()> {
    let mut found = false;
    for table in &TABLES {
        let file = all.dump.join(table.kind).with_extension("csv");
        if file.exists() {
            convert_table(all, table, &file).with_context(|| format!("could not read {}", file.display()))?;
            found = true;
        }
    }
    if !found {
        let names = TABLES.map(|table| format!("{}.csv", table.kind)).join(", ");
        bail!("{} has none of {names}", all.dump.display());
    }
    Ok(())
}

fn convert_table(all: &mut Conversion, table: &Table, file: &Path) -> Result<()> {
    let mut reader = Reader::from_reader(File::open(file)?);
    let columns = reader.headers()?.iter().map(CsvColumn::parse).collect::<Result<Vec<_>>>()?;
    let mut row = StringRecord::new();
    loop {
        let line = reader.position().line();
        let read = match reader.read_record(&mut row) {
            Ok(false) => return Ok(()),
            Ok(true) => record(all, table, &columns, &row),
            Err(error) if error.is_io_error() => return Err(error.into()),
            Err(error) => Err(error.to_string()),
        };
        let line = row.position().map_or(line, Position::line);
        match read {
            Ok(record) => all.out.line(table.kind, &record)?,
            Err(why) => all.skip(&format!("{}.csv:{line}: {why}", table.kind)),
        }
    }
}

/// A row as a line of an import.
fn record(
    all: &mut Conversion,
    table: &Table,
    columns: &[CsvColumn],
    row: &StringRecord,
) -> Result<Value, String> {
    let mut record = Map::new();
    for (column, cell) in columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
        let value = column.value(all, cell)?;
        place(&mut record, &column.path, value)?;
    }
    let inner = Value::Object(record);
    Ok(table.within.iter().rev().fold(inner, |inner, field| json!({ *field: inner })))
}

/// Puts a value where the path leads.
fn place(fields: &mut Map<String, Value>, path: &[String], value: Value) -> Result<(), String> {
    let [first, rest @ ..] = path else { return Ok(()) };
    if rest.is_empty() {
        fields.insert(first.clone(), value);
        return Ok(());
    }
    match fields.entry(first.clone()).or_insert_with(|| json!({})) {
        Value::Object(inner) => place(inner, rest, value),
        _ => Err(format!("{first} is a value and has fields")),
    }
}

impl CsvColumn {
    /// Reads the name of a column, such as `params.lang`, `tags:list`, `historyForNewMembers:bool`.
    fn parse(name: &str) -> Result<Self> {
        let (field, form) = name.split_once(':').unwrap_or((name, ""));
        let path: Vec<String> = field.split('.').map(|part| part.trim().to_owned()).collect();
        if path.iter().any(String::is_empty) {
            bail!("the first row has a column without a name: {name:?}");
        }
        let form = match (form.trim(), path.last().map(String::as_str)) {
            ("bool", _) => CellForm::Bool,
            ("list", _) => CellForm::List,
            ("", Some("userId" | "targetId" | "creatorId")) => CellForm::Id(IdKind::User),
            ("", Some("groupId")) => CellForm::Id(IdKind::Group),
            ("", _) => CellForm::Text,
            (form, _) => bail!("the column {field} has the form {form}; there are bool and list"),
        };
        Ok(Self { path, form })
    }

    fn value(&self, all: &mut Conversion, cell: &str) -> Result<Value, String> {
        Ok(match self.form {
            CellForm::Text => json!(cell),
            CellForm::Id(kind) => json!(all.ids.give(kind, cell).to_string()),
            CellForm::List => json!(cell.split(LIST).map(str::trim).collect::<Vec<_>>()),
            CellForm::Bool => match cell.to_ascii_lowercase().as_str() {
                "true" | "t" | "1" => json!(true),
                "false" | "f" | "0" => json!(false),
                _ => return Err(format!("{} is neither true nor false", self.path.join("."))),
            },
        })
    }
}
