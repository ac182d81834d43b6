//! Runs the tool as users call it.

use std::{
    path::Path,
    process::{Command, Output},
};

use kith_lab::history::{Event, Level::Cached, Recorder};

use crate::builder::{HistoryBuilder, calls};

fn check(file: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_kith-lab"));
    let Output { status, stdout, stderr } = tool.arg("check").arg(file).args(arguments).output().unwrap();
    (status.code(), [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
}

fn written(folder: &Path, events: &[Event]) -> std::path::PathBuf {
    let path = folder.join("history.jsonl");
    let recorder = Recorder::create(&path).unwrap();
    events.iter().for_each(|event| recorder.write(event).unwrap());
    recorder.finish().unwrap();
    path
}

#[test]
fn exit_code_is_0_if_sound_and_1_if_broken() {
    let folder = tempfile::tempdir().unwrap();
    let history = HistoryBuilder::written_until(2).call(calls(1, 1).reads(Cached).from(50).done_as(1));
    let file = written(folder.path(), history.events());
    let (code, text) = check(&file, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("| C3 bounded staleness ") && text.contains("| undisturbed "), "{text}");
    let (code, text) = check(&file, &["--healthy-ms", "28"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("- user:1: client 1 read version 1 at 50000000 ns, stale for 29000000 ns"),
        "{text}"
    );
}

#[test]
fn a_line_that_is_no_event_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), HistoryBuilder::of_one_record().events());
    let lines = std::fs::read_to_string(&file).unwrap() + "{\"call\":{}}\n";
    std::fs::write(&file, lines).unwrap();
    let (code, text) = check(&file, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("history.jsonl is no history") && text.contains("line 2 is no event"), "{text}");
    assert!(text.contains("missing field"), "{text}");
}
