//! `kith errors`: explains the reasons in errors.

use clap::Args;
use kith_server::{edge::code_name, start_error::StartError};
use kith_service::error::{Reason, ReasonEntry};
use serde::Serialize;

use super::{
    Common, OK,
    output::{FIELD_AND_VALUE, Report, field_rows},
};

#[derive(Args, Debug)]
pub(super) struct ErrorsOptions {
    /// Only this one, in full: NAME_TAKEN
    reason: Option<String>,
}

/// A reason in words, as a row in the list.
#[derive(Serialize)]
struct ReasonInfo {
    reason: &'static str,
    code: &'static str,
    cause: &'static str,
    fix: &'static str,
    retry: String,
    link: String,
}

/// A reason with all its details.
#[derive(Serialize)]
#[serde(transparent)]
struct OneReason(ReasonInfo);

pub(super) fn run(common: &Common, arguments: &ErrorsOptions) -> Result<u8, StartError> {
    match &arguments.reason {
        None => common.output.print(&Vec::from(Reason::ALL.map(ReasonInfo::of)))?,
        Some(name) => common.output.print(&OneReason(ReasonInfo::of(find(name)?)))?,
    }
    Ok(OK)
}

fn find(name: &str) -> Result<Reason, StartError> {
    Reason::find(name).ok_or_else(|| {
        let asked = name.to_uppercase().replace('-', "_");
        let near =
            Reason::ALL.into_iter().map(|reason| (strsim::jaro_winkler(&asked, reason.name()), reason));
        let nearest = near.max_by(|(one, _), (other, _)| one.total_cmp(other));
        let hint = match nearest {
            Some((likeness, reason)) if likeness > ALIKE => format!("did you mean {}?", reason.name()),
            Some(_) | None => "`kith errors` lists them".to_owned(),
        };
        StartError::new(format!("there is no such reason of an error; {hint}"))
    })
}

/// A name was probably meant if its similarity is at least this, out of 1.
const ALIKE: f64 = 0.8;

impl ReasonInfo {
    fn of(reason: Reason) -> Self {
        let ReasonEntry { name, code, cause, fix, retry, .. } = *reason.entry();
        let (code, retry) = (code_name(code), retry.to_string());
        Self { reason: name, code, cause, fix, retry, link: reason.link() }
    }
}

impl Report for ReasonInfo {
    const COLUMNS: &'static [&'static str] = &["reason", "code", "retry", "cause"];
}

impl Report for OneReason {
    const COLUMNS: &'static [&'static str] = FIELD_AND_VALUE;

    fn rows(&self) -> Vec<Vec<String>> {
        field_rows(self, &["reason", "code", "cause", "fix", "retry", "link"])
    }
}
