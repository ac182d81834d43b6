//! Where an import reads from: pipes, standard input, folders that cannot be written, files of another form.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use std::{
    fs,
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::process::Node;

/// A user that owns nothing of a test that root runs.
const NOBODY: u32 = 65534;
const ONCE: &str = "is read once: an import that breaks off starts again";

fn kith(node: &Node, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    command.args(arguments).env("KITH_ADDR", format!("http://{}", node.grpc));
    command
}

fn lines(ids: std::ops::RangeInclusive<i64>) -> String {
    ids.map(|id| format!("{{\"userId\":{id},\"userName\":\"u{id}\"}}\n")).collect()
}

fn with_input(mut command: Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    // It may end without reading all.
    running.stdin.take().unwrap().write_all(input).ok();
    running.wait_with_output().unwrap()
}

/// The counts and the lines on standard error.
fn texts(output: &Output) -> (String, Vec<String>) {
    let err = String::from_utf8(output.stderr.clone()).unwrap();
    (String::from_utf8(output.stdout.clone()).unwrap(), err.lines().map(str::to_owned).collect())
}

#[track_caller]
fn assert_imported(output: &Output, count: u64, name: &str) {
    let (counts, err) = texts(output);
    assert!(counts.ends_with(&format!("\nusers\t{count}\t0\t0\n")), "{counts} {err:?}");
    // On a slow machine how far it came is reported too.
    let notes: Vec<_> = err.iter().filter(|line| line.starts_with("kith: ")).collect();
    assert_eq!((output.status.code(), notes), (Some(0), vec![&format!("kith: {name} {ONCE}")]));
}

#[test]
fn standard_input_is_imported() {
    let node = Node::start();
    let output = with_input(kith(&node, &["import", "users", "-"]), lines(1..=1_500).as_bytes());
    assert_imported(&output, 1_500, "standard input");
    let again = with_input(kith(&node, &["import", "users", "-"]), lines(1..=3).as_bytes());
    assert!(texts(&again).0.ends_with("\nusers\t0\t3\t0\n"), "{again:?}");
}

#[test]
fn pipes_by_name_are_imported() {
    let (node, folder) = (Node::start(), tempfile::tempdir().unwrap());
    let (file, fifo) = (folder.path().join("users.jsonl"), folder.path().join("fifo"));
    fs::write(&file, lines(1..=3)).unwrap();
    let bash = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script, env!("CARGO_BIN_EXE_kith")]).arg(&file).arg(&fifo);
        command.env("KITH_ADDR", format!("http://{}", node.grpc)).output().unwrap()
    };
    let substituted = bash("exec \"$0\" import users <(cat \"$1\")");
    assert!(texts(&substituted).0.ends_with("\nusers\t3\t0\t0\n"), "{substituted:?}");
    let named = bash("mkfifo \"$2\"; cat \"$1\" > \"$2\" & exec \"$0\" import users \"$2\"");
    assert!(texts(&named).0.ends_with("\nusers\t0\t3\t0\n"), "{named:?}");
    let opened = bash("exec \"$0\" import users /dev/stdin < \"$1\"");
    assert!(texts(&opened).0.ends_with("\nusers\t0\t3\t0\n"), "{opened:?}");
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
        let refused = kith(&node, &["import", kind, &name]).output().unwrap();
        let expected = format!("kith: {name} is {is}; run: {filter} {name} | kith import {kind} -");
        assert_eq!((refused.status.code(), texts(&refused).1), (Some(2), vec![expected]));
        let piped = with_input(kith(&node, &["import", kind, "-"]), bytes);
        let expected = format!("kith: standard input is {is}; run: {filter} ... | kith import {kind} -");
        assert_eq!((piped.status.code(), texts(&piped).1), (Some(2), vec![expected]));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no progress of what was refused");
    let none = kith(&node, &["export", "users"]).output().unwrap();
    assert!(none.stdout.is_empty(), "{none:?}");
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
        let mut command = kith(&node, &["import", "users", file.to_str().unwrap()]);
        if std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.args(flags).output().unwrap()
    };
    let refused = run(&[]);
    let expected = format!(
        "kith: could not write {}.kith-progress (name another file with --progress-file): Permission denied (os error 13)",
        file.display()
    );
    assert_eq!((refused.status.code(), texts(&refused).1), (Some(2), vec![expected]));
    let imported = run(&["--progress-file", progress.to_str().unwrap()]);
    mode(&closed, 0o755);
    assert!(texts(&imported).0.ends_with("\nusers\t3\t0\t0\n"), "{imported:?}");
    assert!(!progress.exists(), "it is removed at the end");
    let piped = with_input(kith(&node, &["import", "users", "-", "--progress-file", "x"]), b"");
    let expected = "kith: standard input is read once and has no progress to keep; leave out --progress-file";
    assert_eq!((piped.status.code(), texts(&piped).1), (Some(2), vec![expected.to_owned()]));
}
