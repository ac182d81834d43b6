//! A JSON reader that knows its position in the message, and refuses duplicate fields.
//!
//! It is between the JSON parser and message reflection, whose errors contain no position, and no text
//! without values.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    fmt,
};

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use prost_types::FieldMask;
use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, IntoDeserializer as _, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};

use super::mask::Mask;

/// Most characters that are repeated from an unknown name.
const NAME_MAX: usize = 64;

/// The reader's position, and values that it set aside.
pub(super) struct PathTracker {
    root: MessageDescriptor,
    path: RefCell<Vec<PathStep>>,
    why: Cell<Option<FieldError>>,
    masks: RefCell<Vec<(FieldDescriptor, FieldMask)>>,
}

enum PathStep {
    Key(String),
    Index(usize),
}

/// The error, if the position alone does not show it.
#[derive(Clone, Copy)]
pub(super) enum FieldError {
    /// The field is a duplicate.
    Twice,
    /// The value was read, but the message refused it.
    Read,
}

pub(super) enum PathTarget {
    /// The message itself.
    Root,
    Field(FieldDescriptor),
    /// A list element, or a map value.
    Value(FieldDescriptor),
    /// A name that the message does not have.
    Unknown(MessageDescriptor, String),
}

impl PathTracker {
    pub(super) const fn new(root: MessageDescriptor) -> Self {
        Self { root, path: RefCell::new(Vec::new()), why: Cell::new(None), masks: RefCell::new(Vec::new()) }
    }

    pub(super) const fn why(&self) -> Option<FieldError> {
        self.why.get()
    }

    /// Field masks by root field: they have a form of their own in JSON.
    pub(super) fn into_masks(self) -> Vec<(FieldDescriptor, FieldMask)> {
        self.masks.into_inner()
    }

    /// The path in the contract's names, and its target.
    pub(super) fn trace(&self) -> (String, PathTarget) {
        let (mut name, mut target) = (String::new(), PathTarget::Root);
        for step in self.path.borrow().iter() {
            target = self.step(&target, step);
            match (&target, step) {
                (_, PathStep::Index(index)) => name.push_str(&format!("[{index}]")),
                (PathTarget::Field(field), PathStep::Key(_)) => name = joined(name, field.name()),
                (_, PathStep::Key(key)) => name = joined(name, &shown(key)),
            }
        }
        (name, target)
    }

    fn step(&self, target: &PathTarget, step: &PathStep) -> PathTarget {
        let PathStep::Key(key) = step else {
            return match target {
                PathTarget::Field(field) | PathTarget::Value(field) => PathTarget::Value(field.clone()),
                PathTarget::Root | PathTarget::Unknown(..) => PathTarget::Root,
            };
        };
        let message = match target {
            PathTarget::Field(field) if field.is_map() => return PathTarget::Value(field.clone()),
            _ => self.message_at(target),
        };
        let field = message.get_field_by_json_name(key).or_else(|| message.get_field_by_name(key));
        field.map_or_else(|| PathTarget::Unknown(message, key.clone()), PathTarget::Field)
    }

    fn message_at(&self, target: &PathTarget) -> MessageDescriptor {
        let kind = match target {
            PathTarget::Root => return self.root.clone(),
            PathTarget::Unknown(message, _) => return message.clone(),
            PathTarget::Field(field) | PathTarget::Value(field) => field.kind(),
        };
        match (kind, target) {
            (Kind::Message(entry), PathTarget::Value(_)) if entry.is_map_entry() => {
                entry.map_entry_value_field().kind().as_message().cloned().unwrap_or(entry)
            }
            (Kind::Message(message), _) => message,
            _ => self.root.clone(),
        }
    }

    fn enter(&self, step: PathStep) {
        self.why.set(None);
        self.path.borrow_mut().push(step);
    }

    fn leave(&self) {
        self.why.set(None);
        self.path.borrow_mut().pop();
    }

    /// Returns the same name for both names of the field at the position. Map keys have only one name.
    fn field_name(&self, key: &str) -> Option<String> {
        // Without an underscore both names are the same, and the path need not be walked.
        if !key.contains('_') {
            return None;
        }
        match self.trace().1 {
            PathTarget::Field(field) if field.name() == key => Some(field.json_name().to_owned()),
            _ => None,
        }
    }

    /// The root field that the reader is at, if it is a mask.
    fn mask(&self) -> Option<FieldDescriptor> {
        let path = self.path.borrow();
        let [PathStep::Key(key)] = path.as_slice() else { return None };
        let field = self.root.get_field_by_json_name(key).or_else(|| self.root.get_field_by_name(key))?;
        let is_mask = field.kind().as_message()?.full_name() == "google.protobuf.FieldMask";
        (is_mask && !field.is_list()).then_some(field)
    }
}

fn joined(mut path: String, name: &str) -> String {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
    path
}

/// A deserializer, or a seed or visitor for a deserializer, with its position.
pub(super) struct PathDeserializer<'a, T> {
    inner: T,
    tracker: &'a PathTracker,
}

impl<'a, T> PathDeserializer<'a, T> {
    pub(super) const fn new(inner: T, tracker: &'a PathTracker) -> Self {
        Self { inner, tracker }
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for PathDeserializer<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(PathDeserializer::new(visitor, self.tracker))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(PathDeserializer::new(visitor, self.tracker))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for PathDeserializer<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(PathDeserializer::new(deserializer, self.tracker))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for PathDeserializer<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<V::Value, E> {
        self.inner.visit_bool(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.inner.visit_i64(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.inner.visit_u64(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        self.inner.visit_f64(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<V::Value, E> {
        self.inner.visit_str(value)
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<V::Value, E> {
        self.inner.visit_borrowed_str(value)
    }

    fn visit_string<E: Error>(self, value: String) -> Result<V::Value, E> {
        self.inner.visit_string(value)
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(PathDeserializer::new(deserializer, self.tracker))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(TrackedList { inner: list, tracker: self.tracker, index: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(TrackedMap {
            inner: map,
            tracker: self.tracker,
            inside: false,
            seen: HashSet::new(),
        })
    }
}

struct TrackedList<'a, A> {
    inner: A,
    tracker: &'a PathTracker,
    index: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for TrackedList<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.tracker.enter(PathStep::Index(self.index));
        let element = self.inner.next_element_seed(PathDeserializer::new(seed, self.tracker))?;
        self.tracker.leave();
        self.index += 1;
        Ok(element)
    }
}

struct TrackedMap<'a, A> {
    inner: A,
    tracker: &'a PathTracker,
    /// Whether the position is still at the last key: the message may refuse a value after it was read.
    inside: bool,
    seen: HashSet<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for TrackedMap<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        if std::mem::take(&mut self.inside) {
            self.tracker.leave();
        }
        let Some(key) = self.inner.next_key::<String>()? else { return Ok(None) };
        self.tracker.enter(PathStep::Key(key.clone()));
        self.inside = true;
        let name = self.tracker.field_name(&key).unwrap_or_else(|| key.clone());
        if !self.seen.insert(name) {
            self.tracker.why.set(Some(FieldError::Twice));
            return Err(A::Error::custom("given twice"));
        }
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let value = match self.tracker.mask() {
            Some(field) => {
                if let Mask(Some(mask)) = self.inner.next_value()? {
                    self.tracker.masks.borrow_mut().push((field, mask));
                }
                seed.deserialize(().into_deserializer())?
            }
            None => self.inner.next_value_seed(PathDeserializer::new(seed, self.tracker))?,
        };
        self.tracker.why.set(Some(FieldError::Read));
        Ok(value)
    }
}

/// A name in a form for errors: short, and in one line.
fn shown(name: &str) -> String {
    let clean = |letter: char| if letter.is_control() { '?' } else { letter };
    let mut shown: String = name.chars().take(NAME_MAX).map(clean).collect();
    if name.chars().nth(NAME_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_short_and_in_one_line() {
        assert_eq!(shown("user\nId"), "user?Id");
        assert_eq!(shown(&"x".repeat(1000)).len(), NAME_MAX + 3);
    }
}
