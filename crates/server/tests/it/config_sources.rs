//! The sources of configuration values, their precedence, and refused values.

use std::{fs, path::PathBuf, time::Duration};

use kith_server::config::{Backend, Flag, LoadedConfig, Sources, load, show};

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn sources(file: Option<&PathBuf>, environment: &[(&str, &str)], set: &[(&str, &str)]) -> Sources {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let flag = |(key, value): &(&str, &str)| Flag {
        name: "--set",
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    Sources {
        file: file.cloned(),
        environment: environment.iter().map(pair).collect(),
        flags: set.iter().map(flag).collect(),
    }
}

fn environment(pairs: &[(&str, &str)]) -> Result<LoadedConfig, String> {
    load(&sources(None, pairs, &[])).map_err(|error| error.to_string())
}

fn refused(sources: &Sources) -> String {
    let line = load(sources).unwrap_err().to_string();
    assert!(!line.contains('\n'), "one line: {line}");
    line
}

#[test]
fn flags_beat_environment_file_and_defaults() {
    let (_dir, path) = file("[limits]\nin_flight = 1\nwrites_in_flight = 100\nconnections = 2\n");
    let sources = sources(
        Some(&path),
        &[("KITH_LIMITS__IN_FLIGHT", "2"), ("KITH_LIMITS__WRITES_IN_FLIGHT", "200")],
        &[("limits.in_flight", "3")],
    );
    let loaded = load(&sources).unwrap();
    let limits = &loaded.config.limits;
    assert_eq!((limits.in_flight, limits.writes_in_flight, limits.connections), (3, 200, 2));
    assert_eq!(loaded.origins["limits.in_flight"], "--set limits.in_flight");
    assert_eq!(loaded.origins["limits.writes_in_flight"], "KITH_LIMITS__WRITES_IN_FLIGHT");
    assert_eq!(loaded.origins["limits.connections"], path.display().to_string());
    assert!(!loaded.origins.contains_key("limits.deadline_max"));
}

#[test]
fn environment_has_every_form_of_value() {
    let config = environment(&[
        ("KITH_LISTEN", "127.0.0.1:0"),
        ("KITH_OPERATIONS__ENABLED", "false"),
        ("KITH_LIMITS__MESSAGE_BYTES", "1MiB"),
        ("KITH_LIMITS__SEARCHES_PER_MINUTE", "4096"),
        ("KITH_CACHE__TTL", "1m 30s"),
        ("KITH_USERS__RESERVED_NAMES", "one, two"),
        ("KITH_STORE__MONGODB__URI", "mongodb://h/?replicaSet=rs0"),
        ("KITH_STORE__MONGODB__DATABASE", "42"),
        ("KITH_STORE__BACKEND", "cluster"),
        ("PATH", "/bin"),
    ])
    .unwrap()
    .config;
    assert_eq!(config.listen.port(), 0);
    assert!(!config.operations.enabled);
    assert_eq!((config.limits.message_bytes, config.limits.searches_per_minute), (1 << 20, 4096));
    assert_eq!(config.cache.ttl, Duration::from_secs(90));
    assert_eq!(config.users.reserved_names, ["one", "two"]);
    assert_eq!(config.store.mongodb.uri.unwrap().expose(), "mongodb://h/?replicaSet=rs0");
    assert_eq!(config.store.mongodb.database, "42");
    assert_eq!(config.store.backend, Backend::Cluster);
}

#[test]
fn unknown_key_is_refused_with_a_suggestion() {
    let (_dir, path) = file("[limits]\nin_fligt = 1\n");
    let line = refused(&sources(Some(&path), &[], &[]));
    assert!(line.contains("node.toml") && line.contains("did you mean `in_flight`?"), "{line}");

    let line = refused(&sources(None, &[("KITH_LIMITS__IN_FLIGT", "1")], &[]));
    assert!(line.starts_with("KITH_LIMITS__IN_FLIGT:"), "{line}");
    assert!(line.ends_with("did you mean `KITH_LIMITS__IN_FLIGHT`?"), "{line}");

    let line = refused(&sources(None, &[], &[("limits.in_fligt", "1")]));
    assert!(line.starts_with("--set limits.in_fligt:") && line.contains("`in_flight`"), "{line}");

    let line = refused(&sources(None, &[], &[("in_flight", "1")]));
    assert!(line.contains("did you mean `limits.in_flight`?"), "{line}");

    let line = refused(&sources(None, &[("KITH_ZZZZZZZZ", "1")], &[]));
    assert!(line.contains("unknown key") && !line.contains("did you mean"), "{line}");
}

#[test]
fn single_underscores_are_explained() {
    for (name, meant) in [
        ("KITH_STORE_BACKEND", "KITH_STORE__BACKEND"),
        ("KITH_STORE__MONGODB_URI", "KITH_STORE__MONGODB__URI"),
        ("KITH_LIMITS_IN_FLIGHT", "KITH_LIMITS__IN_FLIGHT"),
        ("KITH_STOR__BACKEND", "KITH_STORE__..."),
        ("KITH_LISTN", "KITH_LISTEN"),
    ] {
        let line = refused(&sources(None, &[(name, "1")], &[]));
        assert!(line.ends_with(&format!("did you mean `{meant}`?")), "{line}");
    }
    let line = refused(&sources(None, &[], &[("store_backend", "sqlite")]));
    assert!(line.ends_with("did you mean `store.backend`?"), "{line}");
}

#[test]
fn an_empty_value_is_refused_from_any_source() {
    for (name, key) in
        [("KITH_DATA_DIR", "data_dir"), ("KITH_LISTEN", "listen"), ("KITH_CACHE__TTL", "cache.ttl")]
    {
        let expected = format!("{key} is empty; give it a value, or leave it out");
        assert_eq!(refused(&sources(None, &[(name, "")], &[])), format!("{name}: {expected}"));
        assert_eq!(refused(&sources(None, &[], &[(key, " ")])), format!("--set {key}: {expected}"));
    }
    let (_dir, path) = file("[tls]\nkey_file = ''\n");
    let line = refused(&sources(Some(&path), &[], &[]));
    assert!(line.ends_with("node.toml:2: tls.key_file is empty; give it a value, or leave it out"), "{line}");
    let none = environment(&[("KITH_USERS__RESERVED_NAMES", "")]).unwrap().config;
    assert!(none.users.reserved_names.is_empty(), "an empty list is a value");
}

#[test]
fn a_tilde_in_a_path_is_refused_from_any_source() {
    let expected = "data_dir begins with ~, which only a shell expands; write the whole path";
    assert_eq!(
        refused(&sources(None, &[("KITH_DATA_DIR", "~/kith")], &[])),
        format!("KITH_DATA_DIR: {expected}")
    );
    assert_eq!(refused(&sources(None, &[], &[("data_dir", "~")])), format!("--set data_dir: {expected}"));
    let (_dir, path) = file("data_dir = '~kith/data'\n");
    let line = refused(&sources(Some(&path), &[], &[]));
    assert!(line.ends_with(&format!("node.toml:1: {expected}")), "{line}");
}

#[test]
fn variables_of_kubernetes_are_no_configuration() {
    let variables = [
        ("KITH_SERVICE_HOST", "10.0.0.1"),
        ("KITH_SERVICE_PORT", "7600"),
        ("KITH_SERVICE_PORT_GRPC", "7600"),
        ("KITH_PORT", "tcp://10.0.0.1:7600"),
        ("KITH_PORT_7600_TCP", "tcp://10.0.0.1:7600"),
        ("KITH_PORT_7600_TCP_PROTO", "tcp"),
        ("KITH_PORT_7600_TCP_PORT", "7600"),
        ("KITH_PORT_7600_TCP_ADDR", "10.0.0.1"),
    ];
    let loaded = environment(&variables).unwrap();
    assert!(loaded.origins.is_empty(), "{:?}", loaded.origins);
    let line = refused(&sources(None, &[("KITH_PORT", "7600")], &[]));
    assert!(line.starts_with("KITH_PORT: unknown key `port`"), "{line}");
}

#[test]
fn quoted_value_is_refused_if_quotes_count() {
    for value in ["\"127.0.0.1:0\"", "'127.0.0.1:0'"] {
        let line = refused(&sources(None, &[("KITH_LISTEN", value)], &[]));
        assert!(line.starts_with("KITH_LISTEN:") && line.contains("quotes"), "{line}");
    }
}

#[test]
fn variables_of_tests_and_commands_are_ignored() {
    let variables = [
        ("KITH_TEST_MONGODB", "mongodb://h"),
        ("KITH_MUTANT", "x"),
        ("KITH_NAME_RACES", "1"),
        ("KITH_FAILPOINT", "after_publish=die@10"),
        ("KITH_FORM", "2"),
        ("KITH_ADDR", "127.0.0.1:7600"),
        ("KITH_INSECURE", "true"),
    ];
    assert!(environment(&variables).is_ok());
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    let (_dir, path) = file("[limits]\nin_flight = 1\nconnections = = 3\n");
    let line = refused(&sources(Some(&path), &[], &[]));
    assert!(line.contains("node.toml:3:"), "{line}");

    let line = refused(&sources(Some(&PathBuf::from("nowhere.toml")), &[], &[]));
    assert!(line.contains("nowhere.toml"), "{line}");

    for (key, value) in [("limits.in_flight", "many"), ("cache.ttl", "5 lightyears"), ("listen", "here")] {
        let line = refused(&sources(None, &[], &[(key, value)]));
        assert!(line.starts_with(&format!("--set {key}: {key}:")), "{line}");
    }
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let contradictions: [&[(&str, &str)]; 9] = [
        &[("limits.searches_per_minute", "0")],
        &[("limits.user_records_per_minute", "99")],
        &[("limits.deadline_max", "1s")],
        &[("limits.in_flight", "0")],
        &[("store.backend", "cluster")],
        &[("tls.cert_file", "a.pem")],
        &[("listen", "0.0.0.0:7600")],
        &[("listen", "[::]:7600")],
        &[("secrets.invite_code_key", "c2hvcnQ=")],
    ];
    for set in contradictions {
        let line = refused(&sources(None, &[], set));
        assert!(line.contains(set[0].0.rsplit('.').next().unwrap()), "{set:?}: {line}");
    }
}

#[test]
fn quotas_of_users_may_be_off() {
    for key in ["user_calls_per_second", "user_writes_per_second", "user_records_per_minute"] {
        let off = [(&*format!("limits.{key}"), "0")];
        assert!(load(&sources(None, &[], &off)).is_ok(), "{key}");
    }
}

#[test]
fn plaintext_for_others_needs_the_word() {
    let open = [("listen", "0.0.0.0:7600"), ("insecure_listen", "true"), ("insecure_callers", "true")];
    assert!(load(&sources(None, &[], &open)).is_ok());
    for loopback in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(load(&sources(None, &[], &[("listen", loopback)])).is_ok(), "{loopback}");
    }
}

#[test]
fn secret_is_read_from_one_place() {
    let (_dir, path) = file("mongodb://user:hunter2@h/\n");
    let path = path.display().to_string();
    let from_file = [("store.mongodb.uri_file", path.as_str())];
    let config = load(&sources(None, &[], &from_file)).unwrap().config;
    assert_eq!(config.store.mongodb.uri.unwrap().expose(), "mongodb://user:hunter2@h/");

    let twice = [from_file[0], ("store.mongodb.uri", "mongodb://user:hunter2@h/")];
    let line = refused(&sources(None, &[], &twice));
    assert!(line.contains("uri_file") && !line.contains("hunter2"), "{line}");
}

#[test]
fn a_secret_is_shown_nowhere() {
    let set = [
        ("store.mongodb.uri", "mongodb://user:hunter2@h/"),
        ("secrets.invite_code_key", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
        ("api_key", "hunter2-correct-horse-battery-staple"),
    ];
    let loaded = load(&sources(None, &[], &set)).unwrap();
    for text in [show(&loaded).unwrap(), format!("{loaded:?}")] {
        assert!(!text.contains("hunter2") && !text.contains("MDEy"), "{text}");
        assert!(text.contains("<redacted>"), "{text}");
    }
    assert_eq!(loaded.config.secrets.invite_code_key_bytes().unwrap(), *b"0123456789abcdef0123456789abcdef");
}

#[test]
fn shown_configuration_reads_back_with_origins() {
    let loaded = environment(&[("KITH_LIMITS__CONNECTIONS", "3")]).unwrap();
    let text = show(&loaded).unwrap();
    assert!(text.contains("connections = 3 # KITH_LIMITS__CONNECTIONS\n"), "{text}");
    assert!(text.contains("in_flight = 4096 # default\n"), "{text}");
    let (_dir, path) = file(&text);
    let again = load(&sources(Some(&path), &[], &[])).unwrap();
    assert_eq!(format!("{:?}", again.config), format!("{:?}", loaded.config));
}
