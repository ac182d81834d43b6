//! One line of JSON, field by field: names in snake or camel case, 64-bit numbers as numbers or strings,
//! enum values by name or number, as proto3 JSON has it. What is wrong is told without the value.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The fields of a record that have not been taken yet.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Takes a line.
    ///
    /// # Errors
    /// When it is not one JSON object.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        match serde_json::from_slice(line) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err("not a JSON object".to_owned()),
            Err(why) => Err(format!("not JSON: {}", why.to_string().replace("line 1 column", "column"))),
        }
    }

    /// Whether a field is there, in either case of its name.
    #[cfg(feature = "embedded")]
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name) || self.0.contains_key(&camel(name))
    }

    /// The fields of the object under `name`, when nothing stands beside it; taken out then.
    #[cfg(feature = "embedded")]
    pub(super) fn only(&mut self, name: &str) -> Option<Self> {
        if self.0.len() != 1 || !self.0.get(name)?.is_object() {
            return None;
        }
        match self.0.remove(name) {
            Some(Value::Object(fields)) => Some(Self(fields)),
            _ => None,
        }
    }

    /// A text; absent: empty.
    pub(super) fn text(&mut self, name: &str) -> Result<String, String> {
        match self.take(name)? {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(format!("{name} must be a string")),
        }
    }

    /// A whole number; absent: 0.
    pub(super) fn integer<T: TryFrom<i64>>(&mut self, name: &str) -> Result<T, String> {
        let number = match self.take(name)? {
            None => Some(0),
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) => text.parse().ok(),
            Some(_) => None,
        };
        let fitting = number.and_then(|number| T::try_from(number).ok());
        fitting.ok_or_else(|| format!("{name} must be a whole number of its range"))
    }

    /// True or false; absent: false.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, String> {
        match self.take(name)? {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(format!("{name} must be true or false")),
        }
    }

    /// A value of an enum, which `known` finds by its name; absent: 0. Numbers are left to the node.
    pub(super) fn choice(&mut self, name: &str, known: impl Fn(&str) -> Option<i32>) -> Result<i32, String> {
        let number = match self.take(name)? {
            None => Some(0),
            Some(Value::String(text)) => known(&text),
            Some(Value::Number(number)) => number.as_i64().and_then(|number| i32::try_from(number).ok()),
            Some(_) => None,
        };
        number.ok_or_else(|| format!("{name} must be a known value"))
    }

    /// A list of texts; absent: empty.
    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, String> {
        let wrong = || format!("{name} must be a list of strings");
        match self.take(name)? {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.into_iter().map(|item| owned_text(item).ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    }

    /// Texts by name; absent: none.
    pub(super) fn texts_by_name(&mut self, name: &str) -> Result<BTreeMap<String, String>, String> {
        let wrong = || format!("{name} must be an object of strings");
        match self.take(name)? {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(items)) => {
                items.into_iter().map(|(key, item)| Ok((key, owned_text(item).ok_or_else(wrong)?))).collect()
            }
            Some(_) => Err(wrong()),
        }
    }

    /// A moment as RFC 3339 writes it; absent: none.
    pub(super) fn moment(&mut self, name: &str) -> Result<Option<prost_types::Timestamp>, String> {
        let wrong = || format!("{name} must be a moment like 2024-05-01T08:00:00Z");
        match self.take(name)? {
            None => Ok(None),
            Some(Value::String(text)) => text.parse().map(Some).map_err(|_| wrong()),
            Some(_) => Err(wrong()),
        }
    }

    /// Passes over a field that only answers have: an export holds it, an import does not take it.
    pub(super) fn output_only(&mut self, name: &str) -> Result<(), String> {
        self.take(name).map(drop)
    }

    /// Ends the record.
    ///
    /// # Errors
    /// When a field is left that nobody knows.
    pub(super) fn finish(self) -> Result<(), String> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("unknown field {:?}", name.chars().take(64).collect::<String>())),
        }
    }

    fn take(&mut self, name: &str) -> Result<Option<Value>, String> {
        let camel = camel(name);
        let found = self.0.remove(name);
        let other = if camel == name { None } else { self.0.remove(&camel) };
        match (found, other) {
            (Some(_), Some(_)) => Err(format!("{name} is given twice")),
            (found, other) => Ok(found.or(other).filter(|value| !value.is_null())),
        }
    }
}

fn owned_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn camel(snake: &str) -> String {
    let mut camel = String::with_capacity(snake.len());
    for (at, word) in snake.split('_').enumerate() {
        let (first, rest) = word.split_at(usize::from(at > 0 && !word.is_empty()));
        camel.push_str(&first.to_ascii_uppercase());
        camel.push_str(rest);
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Fields {
        Fields::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn names_in_both_cases_are_taken_but_not_at_once() {
        assert_eq!(fields(r#"{"userName":"a"}"#).text("user_name").unwrap(), "a");
        assert_eq!(fields(r#"{"user_name":"a"}"#).text("user_name").unwrap(), "a");
        assert_eq!(
            fields(r#"{"user_name":"a","userName":"a"}"#).text("user_name").unwrap_err(),
            "user_name is given twice"
        );
        assert_eq!(camel("history_for_new_members"), "historyForNewMembers");
    }

    #[test]
    fn numbers_are_taken_as_numbers_and_as_strings() {
        assert_eq!(fields(r#"{"id":9007199254740993}"#).integer::<i64>("id").unwrap(), 9_007_199_254_740_993);
        assert_eq!(
            fields(r#"{"id":"9007199254740993"}"#).integer::<i64>("id").unwrap(),
            9_007_199_254_740_993
        );
        for line in [r#"{"id":1.5}"#, r#"{"id":"abc"}"#, r#"{"id":[]}"#, r#"{"id":4294967296}"#] {
            let error = fields(line).integer::<i32>("id").unwrap_err();
            assert_eq!(error, "id must be a whole number of its range", "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_without_the_value() {
        assert_eq!(fields(r#"{"a":1}"#).text("a").unwrap_err(), "a must be a string");
        assert_eq!(fields(r#"{"a":1}"#).flag("a").unwrap_err(), "a must be true or false");
        assert_eq!(fields(r#"{"a":[1]}"#).texts("a").unwrap_err(), "a must be a list of strings");
        assert_eq!(
            fields(r#"{"a":{"b":1}}"#).texts_by_name("a").unwrap_err(),
            "a must be an object of strings"
        );
        assert_eq!(fields(r#"{"a":"X"}"#).choice("a", |_| None).unwrap_err(), "a must be a known value");
        assert_eq!(fields(r#"{"a":1}"#).finish().unwrap_err(), r#"unknown field "a""#);
        assert_eq!(Fields::parse(b"[1]").unwrap_err(), "not a JSON object");
        assert_eq!(Fields::parse(b"{").unwrap_err(), "not JSON: EOF while parsing an object at column 1");
        assert!(Fields::parse(b"\"\xff\"").unwrap_err().starts_with("not JSON: "));
    }

    #[test]
    fn null_is_absence() {
        let mut line = fields(r#"{"a":null,"b":null}"#);
        assert_eq!(line.text("a").unwrap(), "");
        line.output_only("b").unwrap();
        line.finish().unwrap();
    }
}
