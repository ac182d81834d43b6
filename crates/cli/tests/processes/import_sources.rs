//! Import sources: pipes, standard input, folders that cannot be written, files in another form.

#![cfg(feature = "embedded")]

use std::{
    fs,
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use crate::{
    commands::{CommandOutput, at, at_with, command_at, output_of},
    process::Node,
};

/// A user who owns no files when root runs a test.
const NOBODY: u32 = 65534;
const ONCE: &str = "is read once: an import that breaks off starts again";

fn lines(ids: std::ops::RangeInclusive<i64>) -> String {
    ids.map(|id| format!("{{\"userId\":{id},\"userName\":\"u{id}\"}}\n")).collect()
}

/// Checks how many users were imported, and how many were there already.
#[track_caller]
fn assert_counts(ended: &CommandOutput, imported: u64, already_there: u64) {
    assert!(ended.out.ends_with(&format!("\nusers\t{imported}\t{already_there}\t0\n")), "{ended:?}");
}

/// Checks that an import could not begin, and printed this line as the reason.
#[track_caller]
fn assert_refused(ended: &CommandOutput, line: &str) {
    assert_eq!((ended.code, ended.notes()), (2, vec![line]));
}

#[test]
fn standard_input_is_imported() {
    let node = Node::start();
    let imported = at_with(&node, &["import", "users", "-"], lines(1..=1_500));
    assert_counts(&imported, 1_500, 0);
    // On a slow machine the progress is reported too.
    let notes: Vec<_> = imported.err.lines().filter(|line| line.starts_with("kith: ")).collect();
    assert_eq!((imported.code, notes), (0, vec![format!("kith: standard input {ONCE}").as_str()]));
    let again = at_with(&node, &["import", "users", "-"], lines(1..=3));
    assert_counts(&again, 0, 3);
}

#[test]
fn pipes_by_name_are_imported() {
    let (node, folder) = (Node::start(), tempfile::tempdir().unwrap());
    let (file, fifo) = (folder.path().join("users.jsonl"), folder.path().join("fifo"));
    fs::write(&file, lines(1..=3)).unwrap();
    let bash = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script, env!("CARGO_BIN_EXE_kith")]).arg(&file).arg(&fifo);
        command.env("KITH_ADDR", &node.grpc);
        output_of(command, "")
    };
    let substituted = bash("exec \"$0\" import users <(cat \"$1\")");
    assert_counts(&substituted, 3, 0);
    let named = bash("mkfifo \"$2\"; cat \"$1\" > \"$2\" & exec \"$0\" import users \"$2\"");
    assert_counts(&named, 0, 3);
    let opened = bash("exec \"$0\" import users /dev/stdin < \"$1\"");
    assert_counts(&opened, 0, 3);
    assert!(!Path::new("/dev/stdin.kith-progress").exists());
}

#[test]
fn a_file_of_another_form_is_refused_in_one_line() {
    let (node, folder) = (Node::start(), tempfile::tempdir().unwrap());
    let array = format!("[\n{}\n]\n", lines(1..=3).trim_end().replace('\n', ",\n"));
    let utf16: Vec<u8> = "\u{FEFF}{}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let gzip = {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(lines(1..=3).as_bytes()).unwrap();
        gzip.finish().unwrap()
    };
    for (kind, bytes, is, filter) in [
        ("users", array.as_bytes(), "one JSON array and not a record a line", "jq -c '.[]'"),
        ("follows", array.as_bytes(), "one JSON array and not a record a line", "jq -c '.[]'"),
        ("groups", utf16.as_slice(), "in UTF-16", "iconv -f UTF-16 -t UTF-8"),
        ("users", gzip.as_slice(), "compressed by gzip", "gunzip -c"),
    ] {
        let file = folder.path().join("records");
        fs::write(&file, bytes).unwrap();
        let name = file.display().to_string();
        let refused = at(&node, &["import", kind, &name]);
        assert_refused(
            &refused,
            &format!("kith: {name} is {is}; run: {filter} {name} | kith import {kind} -"),
        );
        let piped = at_with(&node, &["import", kind, "-"], bytes);
        assert_refused(
            &piped,
            &format!("kith: standard input is {is}; run: {filter} ... | kith import {kind} -"),
        );
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no progress of what was refused");
    let none = at(&node, &["export", "users"]);
    assert!(none.out.is_empty(), "{none:?}");
}

#[test]
fn unwritable_folder_names_the_flag() {
    let (node, folder) = (Node::start(), tempfile::tempdir().unwrap());
    let (closed, progress) = (folder.path().join("closed"), folder.path().join("progress"));
    let file = closed.join("users.jsonl");
    fs::create_dir(&closed).unwrap();
    fs::write(&file, lines(1..=3)).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&closed, 0o555);
    mode(folder.path(), 0o777);
    let run = |flags: &[&str]| {
        let mut command = command_at(&node, &["import", "users", file.to_str().unwrap()]);
        if std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.args(flags);
        output_of(command, "")
    };
    let refused = run(&[]);
    let expected = format!(
        "kith: could not write {}.kith-progress (name another file with --progress-file): Permission denied (os error 13)",
        file.display()
    );
    assert_refused(&refused, &expected);
    let imported = run(&["--progress-file", progress.to_str().unwrap()]);
    mode(&closed, 0o755);
    assert_counts(&imported, 3, 0);
    assert!(!progress.exists(), "it is removed at the end");
    let piped = at(&node, &["import", "users", "-", "--progress-file", "x"]);
    let expected = "kith: standard input is read once and has no progress to keep; leave out --progress-file";
    assert_refused(&piped, expected);
}
