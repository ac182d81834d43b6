//! The JSON schema for `kith.toml` accepts and refuses the same files as a node.

#![cfg(all(feature = "embedded", feature = "cluster"))]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

use boon::{Compiler, SchemaIndex, Schemas};
use kith_cli::reference::{ConfigKey, ValueKind, keys};
use kith_server::config::{Sources, load};
use serde_json::Value;

use crate::deploy::files::{block, text};

struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    fn read() -> Self {
        let output = Command::new(env!("CARGO_BIN_EXE_kith"))
            .args(["reference", "configuration-schema"])
            .output()
            .unwrap();
        let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.add_resource("https://kith.example/schema", schema).unwrap();
        let index = compiler.compile("https://kith.example/schema", &mut schemas).unwrap();
        Self { schemas, index }
    }

    fn takes(&self, toml: &str) -> bool {
        let value: toml::Table = toml::from_str(toml).unwrap_or_else(|why| panic!("{toml}: {why}"));
        let value = serde_json::to_value(value).unwrap();
        let checked = self.schemas.validate(&value, self.index);
        if let Err(why) = &checked {
            println!("{toml}: {why:#}");
        }
        checked.is_ok()
    }
}

/// Returns whether a node reads it. Rules across keys are not checked.
fn is_read(toml: &str) -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    load(&Sources { file: Some(file.path().to_owned()), ..Sources::default() }).is_ok()
}

#[test]
fn configurations_of_deployments_fit_the_schema() {
    let schema = Schema::read();
    let example = text("deploy/kith.toml");
    assert!(
        example.starts_with("#:schema ../docs/reference/kith.schema.json\n"),
        "editors look in the first line"
    );
    assert!(schema.takes(&example));
    assert!(schema.takes(&block(&text("deploy/kubernetes/config.yaml"), "kith.toml:").unwrap()));
}

#[test]
fn every_default_fits_the_schema() {
    let schema = Schema::read();
    for ConfigKey { path, default, kind, .. } in keys().into_iter().filter(|key| !key.default.is_empty()) {
        let value = match kind.unwrap() {
            ValueKind::Flag | ValueKind::WholeNumber => default,
            ValueKind::Texts => toml::Value::from(default.split(',').collect::<Vec<_>>()).to_string(),
            _ => toml::Value::from(default).to_string(),
        };
        assert!(schema.takes(&format!("{path} = {value}")), "{path} = {value}");
    }
}

#[test]
fn every_value_of_a_choice_fits_the_schema() {
    let (schema, mut choices) = (Schema::read(), 0);
    for ConfigKey { path, kind, .. } in keys() {
        let Some(ValueKind::Choice(names)) = kind else { continue };
        for (name, _) in names {
            assert!(schema.takes(&format!("{path} = \"{name}\"")), "{path} = {name}");
            choices += 1;
        }
        assert!(!schema.takes(&format!("{path} = \"nothing\"")), "{path}");
    }
    assert!(choices > 10, "{choices}");
}

#[test]
fn refused_forms_do_not_fit_the_schema() {
    let schema = Schema::read();
    for wrong in [
        "listn = \"127.0.0.1:7600\"",
        "listen = \"127.0.0.1\"",
        "listen = 7600",
        "insecure_listen = \"yes\"",
        "drain = 10",
        "drain = \"ten seconds\"",
        "drain = \"10\"",
        "drain = \"-1s\"",
        "drain = \"s\"",
        "limits.in_flight = 0",
        "limits.in_flight = -1",
        "limits.in_flight = \"many\"",
        "limits.message_bytes = \"1XB\"",
        "limits.message_bytes = \"1.5MiB\"",
        "store.backend = \"postgres\"",
        "store.sqlite = \"file\"",
        "http.cors.origins = \"https://app.example\"",
        "[strore]\nbackend = \"sqlite\"",
    ] {
        assert!(!is_read(wrong), "a node reads {wrong}");
        assert!(!schema.takes(wrong), "{wrong}");
    }
}

#[test]
fn accepted_forms_fit_the_schema() {
    let schema = Schema::read();
    for right in [
        "",
        "drain = \"1s 500ms\"",
        "drain = \"1m30s\"",
        "drain = \"1.5s\"",
        "drain = \"0\"",
        "drain = \"2 minutes\"",
        "drain = \"0s\"",
        "limits.message_bytes = 1048576",
        "limits.message_bytes = \"1048576\"",
        "limits.message_bytes = \"3 MB\"",
        "limits.message_bytes = \"1MiB\"",
        "listen = \"[::1]:0\"",
        "http.cors.origins = [\"https://app.example\"]",
        "http.cors.origins = []",
    ] {
        assert!(is_read(right), "a node refuses {right}");
        assert!(schema.takes(right), "{right}");
    }
}
