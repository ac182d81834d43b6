//! Prints a call's answers and its failure.

use std::time::Duration;

use anyhow::Result;
use prost_reflect::DynamicMessage;
use serde::Serialize as _;
use tonic::{
    Status, Streaming,
    metadata::{KeyAndValueRef, MetadataMap},
};

use super::failure::Failure;
use crate::output::{OutputForm, note, write};

/// Metadata that every answer has, and that is not printed.
const USUAL: [&str; 5] = ["content-type", "date", "grpc-status", "grpc-message", "grpc-encoding"];

/// Writes messages to standard output, and everything else to standard error.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerSink {
    form: OutputForm,
    verbose: bool,
}

impl AnswerSink {
    /// Makes a sink for this form; `verbose`: with metadata.
    pub(super) const fn new(form: OutputForm, verbose: bool) -> Self {
        Self { form, verbose }
    }

    /// Writes the only answer. Fails if standard output cannot be written.
    pub(super) fn write_answer(self, message: &DynamicMessage) -> Result<()> {
        match self.form {
            OutputForm::Plain => self.write_line(message),
            OutputForm::Table | OutputForm::Json => {
                let mut text = Vec::new();
                message.serialize(&mut serde_json::Serializer::pretty(&mut text))?;
                text.push(b'\n');
                Ok(write(&text)?)
            }
        }
    }

    /// Writes an answer of a stream as one line. Fails if standard output cannot be written.
    pub(super) fn write_line(self, message: &DynamicMessage) -> Result<()> {
        let mut text = Vec::new();
        message.serialize(&mut serde_json::Serializer::new(&mut text))?;
        text.push(b'\n');
        Ok(write(&text)?)
    }

    /// Writes metadata if requested. Binary metadata is left out.
    pub(super) fn write_metadata(self, metadata: &MetadataMap) {
        if !self.verbose {
            return;
        }
        for entry in metadata.iter() {
            if let KeyAndValueRef::Ascii(name, value) = entry
                && !USUAL.contains(&name.as_str())
            {
                note(&format!("{name}: {}", value.to_str().unwrap_or("(not text)")));
            }
        }
    }

    /// Writes why the call failed.
    pub(super) fn write_failure(self, status: &Status) {
        self.write_metadata(status.metadata());
        let failure = Failure::of(status);
        match (self.form, serde_json::to_string(&failure)) {
            (OutputForm::Json, Ok(json)) => note(&json),
            _ => note(&format!("kith: {failure}")),
        }
    }
}

/// Writes answers as they come, each in a line and within this time after its predecessor, then the trailers.
/// Fails if standard output cannot be written.
pub(super) async fn print_all(
    mut answers: Streaming<DynamicMessage>,
    limit: Duration,
    sink: AnswerSink,
) -> Result<Result<(), Status>> {
    loop {
        match tokio::time::timeout(limit, answers.message()).await {
            Ok(Ok(Some(message))) => sink.write_line(&message)?,
            Ok(Ok(None)) => break,
            Ok(Err(status)) => return Ok(Err(status)),
            Err(_) => return Ok(Err(timed_out(limit))),
        }
    }
    if let Ok(Some(trailers)) = answers.trailers().await {
        sink.write_metadata(&trailers);
    }
    Ok(Ok(()))
}

/// Describes that no message came in time.
pub(super) fn timed_out(limit: Duration) -> Status {
    let limit = humantime::format_duration(limit);
    Status::deadline_exceeded(format!("no message within {limit}; --timeout waits longer"))
}
