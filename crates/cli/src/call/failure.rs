//! Prints a call's failure from its status.

use std::fmt;

use kith_server::edge::code_name;
use kith_service::error::ERROR_DOMAIN;
use serde::Serialize;
use tonic::Status;
use tonic_types::StatusExt as _;

use super::super::output::one_line;

/// A failed call, as it is printed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Failure {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Failure {
    /// Decodes a status and its details.
    pub(super) fn of(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        let field = details.bad_request().and_then(|bad| bad.field_violations.first());
        let known = info.filter(|info| info.domain == ERROR_DOMAIN);
        Self {
            code: code_name(status.code()),
            reason: info.map(|info| one_line(&info.reason)),
            message: one_line(status.message()),
            field: field.map(|violation| one_line(&violation.field)).filter(|field| !field.is_empty()),
            retry_after_ms: details.retry_info().and_then(|retry| retry.retry_delay).map(|d| d.as_millis()),
            hint: known.map(|info| format!("kith errors {}", one_line(&info.reason))),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code)?;
        if let Some(reason) = &self.reason {
            write!(f, " {reason}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(field) = &self.field {
            write!(f, "; field {field}")?;
        }
        if let Some(after) = self.retry_after_ms {
            write!(f, "; try again after {after} ms")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "; more: {hint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use kith_service::error::{Error, Reason};

    #[test]
    fn failure_has_code_reason_field_and_hint() {
        let status = Status::from(Error::new(Reason::InvalidField, "user_id must be above 0").at("user_id"));
        assert_eq!(
            Failure::of(&status).to_string(),
            "INVALID_ARGUMENT INVALID_FIELD: user_id must be above 0; field user_id; more: kith errors INVALID_FIELD"
        );
        let status = Status::from(Error::new(Reason::Overloaded, "too much work"));
        let text = Failure::of(&status).to_string();
        assert!(text.contains("RESOURCE_EXHAUSTED OVERLOADED") && text.contains("after 200 ms"), "{text}");
    }

    #[test]
    fn failure_without_details_has_its_code() {
        assert_eq!(Failure::of(&Status::new(Code::Unknown, "a\nb")).to_string(), "UNKNOWN: a b");
    }
}
