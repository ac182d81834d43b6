//! One run of a case: which entries were used, and what was wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use prost_reflect::{DynamicMessage, ReflectMessage as _};
use serde_json::Value;
use tokio::sync::Notify;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    contract,
    script::{Script, Slot},
};

/// Timers of clients may be so much early.
const EARLY: Duration = Duration::from_millis(1);

/// A case that is played.
#[derive(Debug)]
pub(crate) struct Run {
    script: Script,
    /// The number of the contract in each answer.
    contract: Option<u32>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    used: BTreeSet<usize>,
    answered: BTreeMap<usize, Instant>,
    bodies: BTreeMap<usize, Bytes>,
    ids: BTreeSet<String>,
    /// The bodies of calls on sockets, by the name that the script gives them.
    frames: BTreeMap<String, Value>,
    wrong: Vec<String>,
}

/// A call that has arrived.
#[derive(Debug)]
pub(crate) struct Try<'a> {
    pub(crate) method: &'a str,
    pub(crate) metadata: &'a HeaderMap,
    /// The message, as it was sent.
    pub(crate) body: &'a Bytes,
    pub(crate) is_json: bool,
}

/// How a call is answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) headers: HeaderMap,
    /// The messages of an answer.
    pub(crate) messages: Vec<Bytes>,
    pub(crate) status: Status,
    /// The number of its entry, from 0; `None` if the script has none.
    pub(crate) index: Option<usize>,
}

impl Run {
    pub(crate) fn new(script: Script, contract: Option<u32>) -> Self {
        Self { script, contract, state: Mutex::default(), changed: Notify::new() }
    }

    /// Whether a line of a socket names this call. Others are answered by `{}`.
    pub(crate) fn names_call(&self, call: &str) -> bool {
        let mut lines = self.script.slots.iter().flat_map(|slot| &slot.entry.socket);
        lines.any(|line| {
            line.r#in.as_ref().is_some_and(|frame| frame.get("call").is_some_and(|name| name == call))
        })
    }

    /// The entry of a reply.
    pub(crate) fn slot(&self, index: usize) -> Option<&Slot> {
        self.script.slots.get(index)
    }

    /// Records a deviation from the script.
    pub(crate) fn wrong(&self, what: String) {
        self.state.lock().wrong.push(what);
    }

    /// Uses the entry that expects this try. Returns when the whole group of the entry has come.
    pub(crate) async fn answer(&self, found: Try<'_>) -> Reply {
        let index = self.take(&found);
        let mut reply =
            Reply { headers: self.headers(index), messages: Vec::new(), status: unscripted(), index };
        let Some((index, slot)) = index.and_then(|index| Some((index, self.slot(index)?))) else {
            return reply;
        };
        self.group_came(slot.group).await;
        self.state.lock().answered.insert(index, Instant::now());
        reply.messages.clone_from(&slot.answers);
        reply.status = slot.status.clone().unwrap_or_else(|| Status::new(Code::Ok, ""));
        reply
    }

    /// Uses the next entry if it is a socket.
    pub(crate) fn take_socket(&self) -> Option<usize> {
        let mut state = self.state.lock();
        let index = self
            .next(&state)
            .into_iter()
            .find(|index| self.slot(*index).is_some_and(|slot| slot.method.is_none()));
        match index {
            Some(index) => {
                state.used.insert(index);
                self.changed.notify_waiters();
            }
            None => state.wrong.push("a socket was opened that no entry expects".to_owned()),
        }
        index
    }

    /// The verdict, after entries that are still missing have had some time.
    pub(crate) async fn verdict(&self, patience: Duration) -> Vec<String> {
        let all = async {
            loop {
                let changed = self.changed.notified();
                if self.state.lock().used.len() == self.script.slots.len() {
                    return;
                }
                changed.await;
            }
        };
        drop(tokio::time::timeout(patience, all).await);
        let state = self.state.lock();
        let unused = (0..self.script.slots.len()).filter(|index| !state.used.contains(index));
        let unused = unused.map(|index| format!("entry {}: was not used", index + 1));
        state.wrong.iter().cloned().chain(unused).collect()
    }

    /// Keeps the body of a call on a socket under a name.
    pub(crate) fn keep_frame(&self, name: &str, body: Value) {
        self.state.lock().frames.insert(name.to_owned(), body);
    }

    /// The body that was kept under a name.
    pub(crate) fn frame(&self, name: &str) -> Option<Value> {
        self.state.lock().frames.get(name).cloned()
    }

    fn take(&self, found: &Try<'_>) -> Option<usize> {
        let mut state = self.state.lock();
        let candidates: Vec<_> = self
            .next(&state)
            .into_iter()
            .filter(|index| self.slot(*index).is_some_and(|slot| slot.entry.method == found.method))
            .map(|index| (index, self.check(&state, index, found)))
            .collect();
        let best =
            candidates.into_iter().min_by_key(|(_, checked)| checked.as_ref().map_or_else(Vec::len, |_| 0));
        let Some((index, checked)) = best else {
            state.wrong.push(format!("a call of {} that no entry expects", found.method));
            return None;
        };
        state.used.insert(index);
        state.bodies.insert(index, found.body.clone());
        match checked {
            Ok(ids) => state.ids.extend(ids),
            Err(wrong) => {
                state.wrong.extend(wrong.into_iter().map(|what| format!("entry {}: {what}", index + 1)))
            }
        }
        drop(state);
        self.changed.notify_waiters();
        Some(index)
    }

    /// The unused entries that may come now.
    fn next(&self, state: &State) -> Vec<usize> {
        let unused = || self.script.slots.iter().enumerate().filter(|(index, _)| !state.used.contains(index));
        let group = unused().next().map(|(_, slot)| slot.group);
        unused().filter(|(_, slot)| Some(slot.group) == group).map(|(index, _)| index).collect()
    }

    /// Compares a try with an entry. Returns the ids that the client has made, or what is wrong.
    fn check(&self, state: &State, index: usize, found: &Try<'_>) -> Result<Vec<String>, Vec<String>> {
        let Some(slot) = self.slot(index) else { return Ok(Vec::new()) };
        let mut wrong = check_metadata(slot, found.metadata);
        let last = index.checked_sub(1).and_then(|last| state.answered.get(&last));
        if let Some(waited) = last.map(|last| last.elapsed() + EARLY)
            && waited < Duration::from_millis(slot.entry.after_ms)
        {
            wrong.push(format!("came after {waited:?}, expected {} ms", slot.entry.after_ms));
        }
        if let Some(same) = slot.entry.same_as {
            let is_same = same.checked_sub(1).and_then(|same| state.bodies.get(&same)) == Some(found.body);
            if !is_same {
                wrong.push(format!("the message has other bytes than that of entry {same}"));
            }
        }
        let ids = self.check_message(state, slot, found).unwrap_or_else(|what| {
            wrong.extend(what);
            Vec::new()
        });
        if wrong.is_empty() { Ok(ids) } else { Err(wrong) }
    }

    fn check_message(&self, state: &State, slot: &Slot, found: &Try<'_>) -> Result<Vec<String>, Vec<String>> {
        let Some(method) = &slot.method else { return Ok(Vec::new()) };
        let message = if found.is_json {
            let value = serde_json::from_slice(found.body).map_err(|error| vec![error.to_string()])?;
            contract::from_json(method.input(), &value)
        } else {
            contract::from_bytes(method.input(), found.body)
        };
        let mut message = message.map_err(|error| vec![format!("{error:#}")])?;
        let mut wrong = Vec::new();
        let ids = take_ids(&mut message, &slot.entry.ids);
        for (field, id) in slot.entry.ids.iter().zip(&ids) {
            if id.is_empty() {
                wrong.push(format!("{field} is empty"));
            } else if state.ids.contains(id) {
                wrong.push(format!("{field} was used before"));
            }
        }
        if let Some(expected) = slot.request.as_ref().filter(|expected| **expected != message) {
            wrong.push(format!(
                "the request is {}, expected {}",
                contract::to_json(&message),
                contract::to_json(expected)
            ));
        }
        if wrong.is_empty() { Ok(ids) } else { Err(wrong) }
    }

    async fn group_came(&self, group: usize) {
        loop {
            let changed = self.changed.notified();
            let is_missing = |(index, slot): (usize, &Slot)| {
                slot.group == group && !self.state.lock().used.contains(&index)
            };
            if !self.script.slots.iter().enumerate().any(is_missing) {
                return;
            }
            changed.await;
        }
    }

    /// Metadata of each answer, and that of an entry.
    fn headers(&self, index: Option<usize>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(number) = self.contract {
            headers.insert("kith-contract", HeaderValue::from(number));
        }
        let own = index.and_then(|index| self.slot(index)).into_iter().flat_map(|slot| &slot.entry.headers);
        headers.extend(own.filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        }));
        headers
    }
}

/// Removes the ids that the client has made from the message.
fn take_ids(message: &mut DynamicMessage, fields: &[String]) -> Vec<String> {
    let descriptor = message.descriptor();
    let mut take = |name: &String| {
        let field = descriptor.get_field_by_json_name(name)?;
        let id = message.get_field(&field).as_str()?.to_owned();
        message.clear_field(&field);
        Some(id)
    };
    fields.iter().map(|name| take(name).unwrap_or_default()).collect()
}

fn check_metadata(slot: &Slot, metadata: &HeaderMap) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, expected) in &slot.entry.metadata {
        let found = metadata.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let mut found: Vec<_> =
            found.flat_map(|value| value.split(", ").map(str::to_owned).collect::<Vec<_>>()).collect();
        let mut expected: Vec<_> = match expected {
            Value::Array(values) => values.iter().map(text).collect(),
            value => vec![text(value)],
        };
        found.sort();
        expected.sort();
        if found != expected {
            wrong.push(format!("metadata {name} is {found:?}, expected {expected:?}"));
        }
    }
    let absent = slot.entry.absent.iter().filter(|name| metadata.contains_key(name.as_str()));
    wrong.extend(absent.map(|name| format!("metadata {name} is there")));
    if let Some(most) = slot.entry.deadline_ms {
        match metadata.get("grpc-timeout").and_then(|value| timeout(value.to_str().ok()?)) {
            Some(given) if given <= Duration::from_millis(most) => {}
            given => wrong.push(format!("the deadline is {given:?}, expected at most {most} ms")),
        }
    }
    wrong
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The time of `grpc-timeout`, such as `100m`.
fn timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let nanoseconds = match unit {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "S" => 1_000_000_000,
        "M" => 60_000_000_000,
        "H" => 3_600_000_000_000,
        _ => return None,
    };
    Some(Duration::from_nanos(number.parse::<u64>().ok()?.saturating_mul(nanoseconds)))
}

/// The error of a call that the script does not have.
fn unscripted() -> Status {
    let details = ErrorDetails::with_error_info("INTERNAL", "kith", std::collections::HashMap::new());
    Status::with_error_details(Code::Internal, "the script does not expect this call", details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_units() {
        assert_eq!(timeout("100m"), Some(Duration::from_millis(100)));
        assert_eq!(timeout("5S"), Some(Duration::from_secs(5)));
        assert_eq!((timeout(""), timeout("5"), timeout("xS")), (None, None, None));
    }
}
