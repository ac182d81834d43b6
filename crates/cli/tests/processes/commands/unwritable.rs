//! Every command meets a standard output or standard error that cannot be written: a full device, or a pipe
//! without a reader.

use std::{
    fs::{File, OpenOptions},
    process::{Command, Output, Stdio},
};

use super::{
    command,
    tree::{Scene, all, scenario},
};

/// A series of rows ends when its reader has gone.
const SERIES: &str = "top";

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// Returns the write end of a pipe that has no reader.
fn broken() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Runs every command in the tree in its own scene: some commands make files.
fn each(run: impl Fn(&str, Command)) {
    let scene = Scene::set();
    for (path, _) in all() {
        let Some((lines, _)) = scenario(&path) else { continue };
        for line in lines {
            run(&path, scene.command(&line));
        }
    }
}

#[track_caller]
fn assert_one_line(command: &mut Command) {
    let Output { status, stderr, .. } = command.output().unwrap();
    let err = String::from_utf8(stderr).unwrap();
    let lines =
        err.lines().filter(|line| line.contains("could not write") || line.contains("cannot be written"));
    assert_eq!((status.code(), lines.count()), (Some(2), 1), "{command:?}: {err}");
    assert!(!err.contains("panicked"), "{command:?}: {err}");
}

#[test]
fn a_full_output_ends_every_command_in_one_line() {
    each(|_, mut command| assert_one_line(command.stdout(full())));
}

#[test]
fn a_closed_pipe_ends_every_command_in_one_line() {
    each(|path, mut command| {
        command.stdout(broken());
        if path == SERIES {
            assert_eq!(command.output().unwrap().status.code(), Some(0));
        } else {
            assert_one_line(&mut command);
        }
    });
}

#[test]
fn a_full_standard_error_stops_no_result() {
    each(|path, mut command| {
        let ended = command.stderr(full()).output().unwrap();
        let code = ended.status.code();
        match path {
            // An export's summary goes to standard error.
            "export users" | "export groups" | "export messages" => assert_eq!(code, Some(2), "{command:?}"),
            "doctor" => assert!(code <= Some(1), "{command:?}: {code:?}"),
            _ => assert_eq!(code, Some(0), "{command:?}"),
        }
        assert!(!ended.stdout.is_empty(), "{command:?}");
    });
}

#[test]
fn help_and_errors_survive_full_streams() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = command(dir.path());
        command.args(arguments);
        command
    };
    for arguments in [&["--help"][..], &["--version"], &["import", "--help"], &["help", "serve"]] {
        assert_one_line(run(arguments).stdout(full()));
    }
    for arguments in [&["--nothing"][..], &["config", "--set", "wrong=1"], &["ping", "--addr", "127.0.0.1:1"]]
    {
        assert_eq!(run(arguments).stderr(full()).output().unwrap().status.code(), Some(2), "{arguments:?}");
        assert_eq!(run(arguments).stderr(broken()).output().unwrap().status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn an_export_into_a_device_leaves_the_device() {
    let scene = Scene::set();
    let ended = scene.command(&["export", "users", "/dev/full"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(
        !std::fs::metadata("/dev/full").unwrap().is_file() && !std::fs::exists("/dev/full.part").unwrap()
    );
    let link = scene.dir.path().join("link.jsonl");
    std::os::unix::fs::symlink("target.jsonl", &link).unwrap();
    std::fs::write(scene.dir.path().join("target.jsonl"), "").unwrap();
    assert!(scene.command(&["export", "users", "link.jsonl"]).status().unwrap().success());
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(scene.dir.path().join("target.jsonl")).unwrap().contains("ada"));
}
