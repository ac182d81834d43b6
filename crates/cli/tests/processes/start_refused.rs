//! Starts that fail print exactly one line on standard error with the cause and the fix, and end with code 2.
//!
//! In expected lines, `<dir>` is the test folder; `<port>`, `<pid>` and `<name>` are this process's values.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    net::TcpListener,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::Path,
    process::Command,
};

use crate::spawned::{self, FREE, Started, kith, output_of};

/// A user who owns no files when root runs a test.
const NOBODY: u32 = 65534;

/// Returns whether this user may have its own file systems.
fn can_mount() -> bool {
    Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success())
}

/// Returns the single line that a failed start prints, masked.
#[track_caller]
fn refused(dir: &Path, command: Command) -> String {
    spawned::refused(command).replace(dir.canonicalize().unwrap().to_str().unwrap(), "<dir>")
}

#[track_caller]
fn assert_refused(dir: &Path, arguments: &[&str], expected: &str) {
    assert_eq!(refused(dir, kith(dir, arguments)), expected);
}

/// Starts on free ports with these additional arguments, and checks the refusal.
#[track_caller]
fn assert_free_refused(dir: &Path, arguments: &[&str], expected: &str) {
    assert_refused(dir, &[&FREE, arguments].concat(), expected);
}

#[test]
fn wrong_values_are_named_with_place_and_form() {
    let dir = tempfile::tempdir().unwrap();
    for (set, expected) in [
        (
            "limits.in_flight=many",
            "--set limits.in_flight: limits.in_flight: \"many\" cannot be taken; it must be a whole number of 0 or above",
        ),
        ("limits.in_flight=0", "--set limits.in_flight: limits.in_flight is 0; it must be above 0"),
        (
            "cache.ttl=5 lightyears",
            "--set cache.ttl: cache.ttl: \"5 lightyears\" cannot be taken; it must be a time with its unit, as 500ms, 10s or 5m",
        ),
        (
            "operations.listen=here",
            "--set operations.listen: operations.listen: \"here\" cannot be taken; it must be an address and a port, as 127.0.0.1:7600",
        ),
        (
            "store.backend=redis",
            "--set store.backend: store.backend: \"redis\" cannot be taken; it must be one of sqlite, cluster",
        ),
        (
            "operations.enabled=maybe",
            "--set operations.enabled: operations.enabled: \"maybe\" cannot be taken; it must be true or false",
        ),
        (
            "limits.deadline_max=1s",
            "--set limits.deadline_max: limits.deadline_max is 1s; it must not be below 2s, the deadline of a call without one",
        ),
        (
            "limits.in_fligt=1",
            "--set limits.in_fligt: unknown key `limits.in_fligt`; did you mean `in_flight`?",
        ),
        (
            "zzzzzzzzzzzz=1",
            "--set zzzzzzzzzzzz: unknown key `zzzzzzzzzzzz`; `kith config` lists the keys that there are",
        ),
        ("tls.cert_file=a.pem", "--set tls.cert_file: tls.cert_file requires tls.key_file"),
        (
            "secrets.invite_code_key=",
            "--set secrets.invite_code_key: secrets.invite_code_key is empty; give it a value, or leave it out",
        ),
        (
            "secrets.invite_code_key=aHVudGVyMg==",
            "--set secrets.invite_code_key: secrets.invite_code_key must be 32 bytes in base64; make one: head -c 32 /dev/urandom | base64",
        ),
        (
            "secrets=hunter2",
            "--set secrets: secrets: the value cannot be taken; it must be a section with keys of its own",
        ),
    ] {
        assert_refused(dir.path(), &["--set", set], &format!("kith: {expected}"));
    }
    assert_refused(
        dir.path(),
        &["--listen", "0.0.0.0:0"],
        "kith: --listen: listen 0.0.0.0:0 can be reached by other machines, without TLS; set tls.cert_file and \
         tls.key_file, or say --insecure-listen",
    );
    assert!(!dir.path().join("data").exists(), "nothing was begun");
}

#[test]
fn wrong_values_name_their_variable_or_line() {
    let dir = tempfile::tempdir().unwrap();
    let with = |name: &str, value: &str| {
        let mut command = kith(dir.path(), &[]);
        command.env(name, value);
        refused(dir.path(), command)
    };
    assert_eq!(
        with("KITH_LISTEN", "'127.0.0.1:1'"),
        "kith: KITH_LISTEN: the value has quote characters around it, which count as part of it (a shell takes \
         them away, a file of variables does not); write it without quotes"
    );
    assert_eq!(
        with("KITH_LIMITS__IN_FLIGHT", "-1"),
        "kith: KITH_LIMITS__IN_FLIGHT: limits.in_flight: -1 cannot be taken; it must be a whole number of 0 or \
         above"
    );
    let file = |text: &str| {
        fs::write(dir.path().join("kith.toml"), text).unwrap();
        refused(dir.path(), kith(dir.path(), &[]))
    };
    assert_eq!(
        file("# mine\n[limits]\nin_flight = 0\n"),
        "kith: kith.toml:3: limits.in_flight is 0; it must be above 0"
    );
    assert_eq!(
        file("[limits]\n\nin_flihgt = 3\n"),
        "kith: kith.toml:3: unknown key `limits.in_flihgt`; did you mean `in_flight`?"
    );
    assert_eq!(
        file("[cache]\njitter = 0.2\n"),
        "kith: kith.toml:2: unknown key `cache.jitter`; `kith config` lists the keys that there are"
    );
    assert_eq!(
        refused(dir.path(), kith(dir.path(), &["--config", "none.toml"])),
        "kith: --config: there is no file none.toml; make it, or name another"
    );
}

#[test]
fn taken_port_is_named_with_holder_and_flag() {
    let dir = tempfile::tempdir().unwrap();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = holder.local_addr().unwrap();
    let (pid, port) = (std::process::id(), held.port());
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    let name = name.trim();
    let taken = |flag: &str| {
        format!(
            "kith: cannot listen on 127.0.0.1:{port}: port {port} is taken by {name} (pid {pid}); stop it, or \
             choose another port with {flag}"
        )
    };
    let address = held.to_string();
    assert_refused(dir.path(), &["--listen", &address], &taken("--listen"));
    let set = format!("operations.listen={address}");
    let expected = taken("--set operations.listen=ADDRESS");
    assert_refused(dir.path(), &["--listen", "127.0.0.1:0", "--set", &set], &expected);
    let expected = "kith: cannot listen on 203.0.113.7:1: 203.0.113.7 is no address of this machine; choose \
                    another with --listen";
    let open = ["--insecure-listen", "--set", "insecure_callers=true", "--listen", "203.0.113.7:1"];
    assert_refused(dir.path(), &open, expected);
}

#[test]
fn what_stands_in_the_place_of_the_data_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data"), "").unwrap();
    assert_free_refused(
        dir.path(),
        &[],
        "kith: <dir>/data is a file and must be a folder; move it away, or choose another data folder (--data-dir)",
    );
    fs::create_dir_all(dir.path().join("folder/kith.db")).unwrap();
    assert_free_refused(
        dir.path(),
        &["--data-dir", "folder"],
        "kith: folder/kith.db is a folder and must be a file; move it away, or choose another data folder \
         (--data-dir)",
    );
    fs::create_dir(dir.path().join("other")).unwrap();
    fs::write(dir.path().join("other/kith.db"), "not the data you are looking for\n".repeat(99)).unwrap();
    assert_free_refused(
        dir.path(),
        &["--data-dir", "other"],
        "kith: other/kith.db is not a kith data file; move it away, or restore a backup",
    );
}

#[test]
fn a_second_node_names_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let first = Started::new(dir.path(), &[]);
    let pid = &first.banner["pid"];
    let expected = format!(
        "kith: another kith process (pid {pid}) has ./data/kith.db open; stop it, or choose another data folder \
         (--data-dir)"
    );
    assert_free_refused(dir.path(), &[], &expected);
}

#[test]
fn a_newer_file_is_refused_with_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(output_of(kith(dir.path(), &["migrate"])).0, Some(0));
    newer(&dir.path().join("data/kith.db"));
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "kith: ./data/kith.db was written by a newer kith: it is at migration 0099 (reactions), and kith {version} \
         knows up to 0021; start the newer kith, or restore a backup from before the upgrade"
    );
    assert_free_refused(dir.path(), &[], &expected);
    assert_refused(dir.path(), &["migrate"], &expected);
    let manual = ["--set", "store.migrate=manual"];
    assert_free_refused(dir.path(), &manual, &expected);
}

#[test]
fn foreign_database_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(output_of(kith(dir.path(), &["migrate"])).0, Some(0));
    let file = dir.path().join("data/kith.db");
    let mut bytes = fs::read(&file).unwrap();
    fs::remove_file(dir.path().join("data/kith.db.lock")).unwrap();
    assert_eq!(&bytes[68..72], b"kith", "the id of the application");
    // The file belongs to another program, which keeps a rollback journal (1) and not a log (2).
    bytes[68..72].copy_from_slice(b"okay");
    bytes[18..20].copy_from_slice(&[1, 1]);
    fs::write(&file, &bytes).unwrap();
    let line = "./data/kith.db is the database of another program and was left as it is; move it away, or choose \
                another data folder";
    let expected = format!("kith: {line} (--data-dir)");
    assert_free_refused(dir.path(), &[], &expected);
    assert_refused(dir.path(), &["migrate"], &expected);
    assert_refused(dir.path(), &["migrate", "--status"], &expected);
    assert_refused(dir.path(), &["backup", "--to", "copy.db"], &format!("kith: {line}"));
    let (code, found, _) = output_of(kith(dir.path(), &[&FREE, &["doctor"][..]].concat()));
    assert!(code == Some(1) && found.contains(line), "{found}");
    assert!(fs::read(&file).unwrap() == bytes, "not a byte is changed");
    assert!(!dir.path().join("data/kith.db.lock").exists(), "nor is a file made beside it");
    assert!(!dir.path().join("copy.db").exists());
}

/// Changes the file as a newer version would: the newest migration's row, number 20, gets the number 99. In
/// the file a row is its number, its columns' kinds and their values; both numbers take one byte.
fn newer(path: &Path) {
    let row = b"\x15\x04\x00\x1f\x05reactions";
    let mut file = fs::read(path).unwrap();
    let at = file.windows(row.len()).position(|bytes| bytes == row).expect("the row of migration 21");
    file[at] = 99;
    fs::write(path, file).unwrap();
}

/// A user who is not root, also if root runs the test.
struct UnprivilegedUser {
    dir: tempfile::TempDir,
    uid: u32,
    root: bool,
}

impl UnprivilegedUser {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let me = fs::metadata("/proc/self").unwrap().uid();
        Self { dir, uid: if me == 0 { NOBODY } else { me }, root: me == 0 }
    }

    /// Returns the single line, with this user's number masked.
    fn refused(&self, arguments: &[&str]) -> String {
        let mut command = kith(self.dir.path(), &[&FREE, arguments].concat());
        if self.root {
            command.uid(self.uid).gid(self.uid);
        }
        refused(self.dir.path(), command)
    }
}

#[test]
fn unwritable_paths_are_named_with_line_to_run() {
    let user = UnprivilegedUser::new();
    let (dir, uid) = (user.dir.path(), user.uid);
    let mode = |path: &str, mode| {
        fs::set_permissions(dir.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let owner = fs::metadata(dir).unwrap().uid();
    let way_out = |path: &str| {
        if user.root {
            format!("make them the same: sudo chown -R {uid} <dir>/{path} (--data-dir)")
        } else {
            format!("give the right back: chmod -R u+rwX <dir>/{path} (--data-dir)")
        }
    };
    let line = |path: &str, mode: &str| {
        format!(
            "kith: <dir>/{path} may not be written: it belongs to uid {owner} (mode {mode}), this process runs as \
             uid {uid}; "
        )
    };

    fs::create_dir(dir.join("closed")).unwrap();
    mode("closed", 0o555);
    let expected = line("closed", "555") + &way_out("closed");
    assert_eq!(user.refused(&["--data-dir", "closed"]), expected);

    let expected = line("closed", "555")
        + &format!("make the folder: sudo install -d -m 700 -o {uid} <dir>/closed/in (--data-dir)");
    assert_eq!(user.refused(&["--data-dir", "closed/in"]), expected);

    fs::create_dir(dir.join("open")).unwrap();
    mode("open", 0o777);
    fs::write(dir.join("open/kith.db"), "").unwrap();
    mode("open/kith.db", 0o400);
    let expected = line("open/kith.db", "400") + &way_out("open");
    assert_eq!(user.refused(&["--data-dir", "open"]), expected);
}

#[test]
fn a_working_folder_of_another_user_has_no_file() {
    let user = UnprivilegedUser::new();
    let (closed, data) = (user.dir.path().join("closed"), user.dir.path().join("data"));
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("kith.toml"), "wrong = 1\n").unwrap();
    let mode = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
    let run = || {
        // The shell is in the folder already: the folder may not be entered any more.
        let mut command = Command::new("sh");
        command.args(["-c", "cd \"$1\" && chmod 000 . && shift && exec \"$@\"", "sh"]).arg(&closed);
        if user.root {
            let uid = user.uid.to_string();
            command.args(["setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups"]);
        }
        command.args([env!("CARGO_BIN_EXE_kith"), "config", "--check", "--data-dir"]).arg(&data);
        output_of(command)
    };
    let (code, out, err) = run();
    mode(0o755);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "configuration\tfile\nright\t-\n", ""));
}

#[test]
fn unreadable_file_is_not_taken_for_absent() {
    let user = UnprivilegedUser::new();
    let file = user.dir.path().join("kith.toml");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(
        user.refused(&[]),
        "kith: kith.toml: ./kith.toml may not be read by this user; give it the right to, or name another"
    );
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(user.refused(&[]), "kith: kith.toml: ./kith.toml is a folder; name a file");
}

#[test]
fn a_full_disk_is_called_full() {
    let dir = tempfile::tempdir().unwrap();
    // No file in this process may grow, like a first write on a full disk or with a used-up quota.
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    let mut limited = vec![vec!["sh".to_owned(), "-c".to_owned(), script.to_owned(), "sh".to_owned()]];
    // Disks with different sizes fill up at different steps during the start.
    for kilobytes in if can_mount() { &[4, 24, 40, 64][..] } else { &[] } {
        let script = format!("mkdir -p data; mount -t tmpfs -o size={kilobytes}k tmpfs data && exec \"$@\"");
        limited.push(["unshare", "-Urm", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec());
    }
    for words in limited {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_kith")).args(FREE).args(["--log", "warn"]);
        command.current_dir(dir.path()).env("RUST_BACKTRACE", "1");
        let line = refused(dir.path(), command).replace("./data", "<dir>/data");
        assert_eq!(
            line,
            "kith: there is no room left for <dir>/data/kith.db (disk, quota or limit on file size); make room, \
             or choose another data folder (--data-dir)",
            "{words:?}"
        );
    }
}

#[test]
fn readable_key_and_empty_secret_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["key.pem", "empty"] {
        fs::write(dir.path().join(name), "\n").unwrap();
    }
    fs::write(dir.path().join("cert.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    fs::set_permissions(dir.path().join("key.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    let tls = ["--set", "tls.cert_file=cert.pem", "--set", "tls.key_file=key.pem"];
    assert_free_refused(
        dir.path(),
        &tls,
        "kith: tls.key_file: everybody on this machine may read key.pem; take that right away (chmod o= key.pem)",
    );
    assert_free_refused(
        dir.path(),
        &["--set", "secrets.invite_code_key_file=empty"],
        "kith: --set secrets.invite_code_key_file: secrets.invite_code_key_file names empty, which is empty; \
         write the secret into it",
    );
}

#[test]
fn line_is_written_to_the_termination_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("why");
    for arguments in [["--set", "limits.in_fligt=1"], ["--listen", "203.0.113.7:1"]] {
        let mut command = kith(dir.path(), &arguments);
        command
            .args(["--insecure-listen", "--set", "insecure_callers=true"])
            .env("KITH_TERMINATION_LOG", &log);
        let line = refused(dir.path(), command);
        assert_eq!(format!("kith: {}", fs::read_to_string(&log).unwrap().trim_end()), line);
        fs::remove_file(&log).unwrap();
    }
    fs::write(dir.path().join("kith.toml"), "termination_log = 'why'\nwrong = 1\n").unwrap();
    let line = refused(dir.path(), kith(dir.path(), &[]));
    assert_eq!(format!("kith: {}", fs::read_to_string(&log).unwrap().trim_end()), line);
}
