//! A case that is ready to be played: its entries with their messages.

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    case::{Case, Entry, ErrorAnswer},
    contract::{self, Contract},
};

/// The entries of a case, in order. Entries of one group come in any order.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) slots: Vec<Slot>,
}

/// An entry of the case, with what was used of it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) entry: Entry,
    pub(crate) group: usize,
    /// The method of a try; `None` for a socket.
    pub(crate) method: Option<MethodDescriptor>,
    pub(crate) request: Option<DynamicMessage>,
    pub(crate) answers: Vec<Bytes>,
    pub(crate) status: Option<Status>,
}

impl Script {
    /// Checks a case against the contract, and encodes its messages.
    pub(crate) fn new(contract: &Contract, case: Case) -> Result<Self> {
        let mut slots = Vec::new();
        for (group, entry) in case.node.node.into_iter().enumerate() {
            let entries = if entry.any_order.is_empty() { vec![entry] } else { entry.any_order };
            for entry in entries {
                let place = format!("entry {}", slots.len() + 1);
                slots.push(Slot::new(contract, entry, group, slots.len()).context(place)?);
            }
        }
        Ok(Self { slots })
    }
}

impl Slot {
    fn new(contract: &Contract, entry: Entry, group: usize, before: usize) -> Result<Self> {
        if !entry.socket.is_empty() {
            return Ok(Self { entry, group, method: None, request: None, answers: Vec::new(), status: None });
        }
        let method = contract.method(&entry.method).with_context(|| format!("no method {}", entry.method))?;
        ensure!(entry.same_as.is_none_or(|same| (1..=before).contains(&same)), "same_as is no earlier entry");
        let request = entry.request.as_ref().map(|value| contract::from_json(method.input(), value));
        let answers = entry.answer.iter().chain(entry.answers.iter().flatten());
        let answers: Result<Vec<_>> = answers
            .map(|value| {
                contract::from_json(method.output(), value).map(|message| contract::to_bytes(&message))
            })
            .collect();
        let status = entry.error.as_ref().map(status).transpose()?;
        let is_answered = entry.answer.is_some() || entry.answers.is_some() || status.is_some();
        let faults =
            [entry.lost.is_some(), entry.refused, entry.never].into_iter().filter(|fault| *fault).count();
        if faults + usize::from(is_answered) != 1 {
            bail!("needs one of answer, answers, error, lost, refused and never");
        }
        Ok(Self {
            request: request.transpose()?,
            answers: answers?,
            method: Some(method),
            entry,
            group,
            status,
        })
    }
}

/// The code of a name such as `not_found`.
fn code(name: &str) -> Option<Code> {
    let named = |code: &Code| format!("{code:?}").to_lowercase() == name.replace('_', "");
    if name == "canceled" {
        return Some(Code::Cancelled);
    }
    (1..=16).map(Code::from_i32).find(named)
}

/// The error with the details that a node sends.
fn status(error: &ErrorAnswer) -> Result<Status> {
    let code = code(&error.code).with_context(|| format!("no code {}", error.code))?;
    let Some(reason) = &error.reason else { return Ok(Status::new(code, &error.message)) };
    let metadata = [("outcome", &error.outcome), ("until", &error.until)];
    let metadata = metadata.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    let mut details =
        ErrorDetails::with_error_info(reason, "kith", metadata.collect::<std::collections::HashMap<_, _>>());
    if let Some(field) = &error.field {
        details.add_bad_request_violation(field, &error.message);
    }
    if let Some(milliseconds) = error.retry_ms {
        details.set_retry_info(Some(std::time::Duration::from_millis(milliseconds)));
    }
    Ok(Status::with_error_details(code, &error.message, details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_json() {
        for (name, number) in
            [("not_found", 5), ("canceled", 1), ("unavailable", 14), ("resource_exhausted", 8)]
        {
            assert_eq!(code(name), Some(Code::from_i32(number)), "{name}");
        }
        assert_eq!(code("ok"), None);
    }
}
