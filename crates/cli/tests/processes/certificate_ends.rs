//! A node reports an expired certificate that it serves.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::spawned::Started;

/// Writes a certificate that ends in this year, and its key.
fn pair(dir: &Path, year: i32) {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(dir.join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    fs::set_permissions(dir.join("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn ended_certificate_is_reported_until_replaced() {
    const METRIC: &str = "kith_tls_certificate_expire_seconds{file=\"tls.cert_file\"}";
    let dir = tempfile::tempdir().unwrap();
    pair(dir.path(), 2021);
    let tls = ["--set", "tls.cert_file=cert.pem", "--set", "tls.key_file=key.pem"];
    let often = ["--set", "tls.read_again_every=200ms"];
    let node = Started::new(dir.path(), &[&tls[..], &often].concat());
    let body = node.until_ready(|_, body| body["reasons"][0]["reason"] == "certificate_ends");
    assert_eq!(body["ready"], true, "clients decide whether they trust it");
    assert!(node.metrics().contains(&format!("{METRIC} 0\n")), "{}", node.metrics());
    let lines = node.logged().lines().filter(|line| line.contains("has ended on 2021-01-01")).count();
    assert_eq!(lines, 1, "{}", node.logged());
    pair(dir.path(), 2090);
    node.until_ready(|_, body| body["reasons"] == serde_json::json!([]));
    assert!(!node.metrics().contains(&format!("{METRIC} 0\n")), "{}", node.metrics());
}
