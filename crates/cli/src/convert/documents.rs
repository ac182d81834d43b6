//! The documents of a dump: files of `mongoexport` (a document of JSON in each line) or `mongodump` (BSON).

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::{Number, Value, json};

/// The most bytes of one document: more than MongoDB stores, as JSON.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The deepest nesting of a document.
const DEPTH_MAX: usize = 100;

/// A file with the documents of one collection.
pub(super) struct Documents {
    path: PathBuf,
    is_bson: bool,
    file: BufReader<File>,
    offset: u64,
    number: u64,
}

/// A document, where it is in its file, and its number from 1.
pub(super) struct DumpDocument {
    pub(super) value: Result<Value, String>,
    pub(super) offset: u64,
    pub(super) number: u64,
}

impl Documents {
    /// Opens the file of a collection; `None`: the dump has none.
    pub(super) fn open(dump: &Path, collection: &str) -> Result<Option<Self>> {
        for (ending, is_bson) in [("json", false), ("jsonl", false), ("bson", true)] {
            let path = dump.join(format!("{collection}.{ending}"));
            if path.is_file() {
                let file = File::open(&path).with_context(|| format!("could not read {}", path.display()))?;
                return Ok(Some(Self { path, is_bson, file: BufReader::new(file), offset: 0, number: 0 }));
            }
        }
        Ok(None)
    }

    /// The name of the file.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The next document; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<DumpDocument>> {
        loop {
            let offset = self.offset;
            let read = if self.is_bson { self.next_bson() } else { self.next_line() };
            let bytes = read.with_context(|| format!("could not read {}", self.path.display()))?;
            let Some(bytes) = bytes else { return Ok(None) };
            self.offset += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            self.number += 1;
            if !self.is_bson && bytes.trim_ascii().is_empty() {
                continue;
            }
            return Ok(Some(DumpDocument { value: self.value(&bytes), offset, number: self.number }));
        }
    }

    /// Reads the document at an offset again.
    pub(super) fn at(&mut self, offset: u64) -> Result<Option<DumpDocument>> {
        self.file
            .seek(SeekFrom::Start(offset))
            .with_context(|| format!("could not read {}", self.path.display()))?;
        self.offset = offset;
        self.next()
    }

    fn value(&self, bytes: &[u8]) -> Result<Value, String> {
        if self.is_bson {
            return document(&mut &bytes[..], 0).ok_or_else(|| "not BSON".to_owned());
        }
        let value: Value = serde_json::from_slice(bytes).map_err(|_| "not a document of JSON".to_owned())?;
        if value.is_object() { Ok(value) } else { Err("not a document of JSON".to_owned()) }
    }

    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = self.file.by_ref().take(BYTES_MAX).read_until(b'\n', &mut line)?;
        Ok((read > 0).then_some(line))
    }

    fn next_bson(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut length = [0; 4];
        if self.file.fill_buf()?.is_empty() {
            return Ok(None);
        }
        self.file.read_exact(&mut length)?;
        let rest = u64::from(u32::from_le_bytes(length)).saturating_sub(4);
        if rest > BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a document is too long"));
        }
        let mut bytes = length.to_vec();
        self.file.by_ref().take(rest).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }
}

/// Reads a BSON document.
fn document(bytes: &mut &[u8], depth: usize) -> Option<Value> {
    Some(Value::Object(fields(bytes, depth)?.into_iter().collect()))
}

/// Reads the fields of a BSON document in their order. Types that no collection here has are left out.
fn fields(bytes: &mut &[u8], depth: usize) -> Option<Vec<(String, Value)>> {
    let length =
        usize::try_from(i32::from_le_bytes(take(bytes, 4)?.try_into().ok()?)).ok()?.checked_sub(4)?;
    let mut body = take(bytes, length)?;
    let mut fields = Vec::new();
    while let [kind, rest @ ..] = body {
        let kind = *kind;
        body = rest;
        if kind == 0 {
            return Some(fields);
        }
        let name = text_to_zero(&mut body)?;
        if let Some(value) = element(kind, &mut body, depth + 1)? {
            fields.push((name, value));
        }
    }
    None
}

/// Reads a value of this type; `Some(None)`: it is left out.
fn element(kind: u8, body: &mut &[u8], depth: usize) -> Option<Option<Value>> {
    if depth > DEPTH_MAX {
        return None;
    }
    let value = match kind {
        1 => {
            let number = f64::from_le_bytes(take(body, 8)?.try_into().ok()?);
            Number::from_f64(number).map_or(Value::Null, Value::Number)
        }
        2 => text(body)?,
        3 => document(body, depth)?,
        4 => Value::Array(fields(body, depth)?.into_iter().map(|(_, value)| value).collect()),
        7 => {
            take(body, 12)?;
            return Some(None);
        }
        8 => Value::Bool(take(body, 1)? == [1]),
        9 => json!({ "$date": i64::from_le_bytes(take(body, 8)?.try_into().ok()?) }),
        10 => Value::Null,
        16 => json!(i32::from_le_bytes(take(body, 4)?.try_into().ok()?)),
        17 | 18 => json!(i64::from_le_bytes(take(body, 8)?.try_into().ok()?)),
        5 => {
            let length = usize::try_from(i32::from_le_bytes(take(body, 4)?.try_into().ok()?)).ok()?;
            take(body, length.checked_add(1)?)?;
            return Some(None);
        }
        _ => return None,
    };
    Some(Some(value))
}

fn text(body: &mut &[u8]) -> Option<Value> {
    let length = usize::try_from(i32::from_le_bytes(take(body, 4)?.try_into().ok()?)).ok()?;
    let bytes = take(body, length)?;
    Some(Value::String(String::from_utf8_lossy(bytes.strip_suffix(&[0])?).into_owned()))
}

fn text_to_zero(body: &mut &[u8]) -> Option<String> {
    let end = body.iter().position(|byte| *byte == 0)?;
    let name = String::from_utf8_lossy(&body[..end]).into_owned();
    *body = &body[end + 1..];
    Some(name)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// The text of a field; empty if it has none.
pub(super) fn string<'a>(document: &'a Value, field: &str) -> &'a str {
    document.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The number in a field, in any form of extended JSON; 0 if it has none.
pub(super) fn number(document: &Value, field: &str) -> i64 {
    document.get(field).and_then(whole).unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, reason = "numbers are whole")]
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)),
        Value::Object(fields) => {
            ["$numberLong", "$numberInt"].iter().find_map(|name| fields.get(*name)?.as_str()?.parse().ok())
        }
        _ => None,
    }
}

/// The time in a field, in milliseconds; `None`: it has none, or one before 1970.
pub(super) fn time(document: &Value, field: &str) -> Option<i64> {
    let date = document.get(field)?.get("$date")?;
    let millis = match date {
        Value::String(text) => {
            let time = humantime::parse_rfc3339_weak(text).ok()?;
            i64::try_from(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis()).ok()?
        }
        other => whole(other)?,
    };
    (millis > 0).then_some(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bson_is_read_as_json_is() {
        // {"a": "hi", "n": int64 7, "d": date 5, "l": [true, null]}
        let mut body = Vec::new();
        body.extend(b"\x02a\0\x03\0\0\0hi\0\x12n\0\x07\0\0\0\0\0\0\0\x09d\0\x05\0\0\0\0\0\0\0");
        body.extend(b"\x04l\0\x0c\0\0\0\x080\0\x01\x0a1\0\0\0");
        let length = u32::try_from(body.len() + 4).unwrap();
        let bytes = [length.to_le_bytes().as_slice(), &body].concat();
        let read = document(&mut &bytes[..], 0).unwrap();
        assert_eq!(read, json!({ "a": "hi", "n": 7, "d": { "$date": 5 }, "l": [true, null] }));
        assert_eq!(document(&mut &bytes[..bytes.len() - 3], 0), None);
    }

    #[test]
    fn numbers_and_times_have_several_forms() {
        let document = json!({
            "a": 7, "b": { "$numberLong": "7" }, "c": 7.0, "d": "7",
            "t": { "$date": "1970-01-01T00:00:01.005Z" }, "u": { "$date": { "$numberLong": "1005" } },
            "v": { "$date": "0001-01-01T00:00:00Z" },
        });
        let numbers = ["a", "b", "c", "d", "e"].map(|field| number(&document, field));
        assert_eq!(numbers, [7, 7, 7, 0, 0]);
        assert_eq!(["t", "u", "v"].map(|field| time(&document, field)), [Some(1005), Some(1005), None]);
    }
}
