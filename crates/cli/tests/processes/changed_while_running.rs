//! Changes that a running node applies: another certificate, and the files that it rereads on SIGHUP.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::{
    polls::until,
    spawned::{self, Started},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const PATIENCE: Duration = Duration::from_secs(20);

/// Replaces certificate and key for `localhost`, one after the other. Returns the certificate that a client
/// must trust then.
fn certify(dir: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let put = |name: &str, text: String| {
        let new = dir.join("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&new, dir.join(name)).unwrap();
    };
    put("cert.pem", made.cert.pem());
    put("key.pem", made.signing_key.serialize_pem());
    made.cert.pem()
}

/// Starts a node that serves with certificate and key, and rereads them all the time.
fn with_tls(dir: &Path) -> Started {
    let tls = ["tls.cert_file=cert.pem", "tls.key_file=key.pem", "tls.read_again_every=20ms"];
    Started::new(dir, &tls.map(|setting| ["--set", setting]).concat())
}

/// Opens a new connection by a client that trusts only this certificate.
async fn connect(node: &Started, trusted: &str) -> Option<Channel> {
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(trusted)).domain_name("localhost");
    let endpoint = Endpoint::from_shared(format!("https://{}", node.grpc())).unwrap();
    endpoint.tls_config(tls).unwrap().connect().await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_certificate_fails_no_call() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let dir = tempfile::tempdir().unwrap();
    let before = certify(dir.path());
    let node = with_tls(dir.path());
    let channel = connect(&node, &before).await.unwrap();
    let (calls, failed, ended) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let load = tokio::spawn({
        let (calls, failed, ended) = (Arc::clone(&calls), Arc::clone(&failed), Arc::clone(&ended));
        async move {
            let mut health = HealthClient::new(channel);
            while !ended.load(Ordering::Relaxed) {
                let answered = health.check(HealthCheckRequest::default()).await.is_ok();
                calls.fetch_add(1, Ordering::Relaxed);
                failed.fetch_add(u64::from(!answered), Ordering::Relaxed);
            }
        }
    });

    let now = certify(dir.path());
    until(PATIENCE, async || connect(&node, &now).await.is_some()).await;
    assert!(connect(&node, &before).await.is_none(), "the old certificate is served no more");
    let so_far = calls.load(Ordering::Relaxed);
    until(PATIENCE, async || calls.load(Ordering::Relaxed) > so_far + 100).await;
    ended.store(true, Ordering::Relaxed);
    load.await.unwrap();
    assert_eq!(failed.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unfit_files_change_nothing_and_are_reported() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let dir = tempfile::tempdir().unwrap();
    let trusted = certify(dir.path());
    let node = with_tls(dir.path());
    fs::write(dir.path().join("key.pem"), "no key").unwrap();
    until(PATIENCE, async || node.logged().contains("tls.key_file: key.pem holds no private key")).await;
    assert!(connect(&node, &trusted).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_applies_what_can_change_and_reports() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kith.toml");
    let write = |filter: &str, in_flight: u32| {
        let text = format!("telemetry.log_filter = \"{filter}\"\nlimits.in_flight = {in_flight}\n");
        fs::write(&file, text).unwrap();
    };
    write("warn", 100);
    let node = Started::new(dir.path(), &[]);
    assert!(!node.logged().contains("kith listens"));

    write("info", 200);
    node.hang_up();
    let line = "SIGHUP: taken on: telemetry.log_filter; only by a restart: limits.in_flight";
    until(PATIENCE, async || node.logged().contains(line)).await;
    fs::write(&file, "limits.in_flight = \"many\"\n").unwrap();
    node.hang_up();
    until(PATIENCE, async || node.logged().contains("nothing has changed")).await;
    assert!(node.logged().contains("limits.in_flight"));
    let (code, _, logged) = node.terminate();
    assert_eq!(code, Some(0), "{logged}");
    assert!(logged.contains("kith stops"), "lines of level info are written by now: {logged}");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_filter_holds_for_the_requested_time() {
    let dir = tempfile::tempdir().unwrap();
    let node = Started::new(dir.path(), &["--log=error"]);
    let addr = node.url();
    let filter = |arguments: &[&str]| {
        let asked = [&["log-filter", "--addr", &addr, "-o", "json"], arguments].concat();
        spawned::output_of(spawned::kith(dir.path(), &asked))
    };
    let holds = |arguments: &[&str]| {
        let (code, printed, _) = filter(arguments);
        assert_eq!(code, Some(0));
        serde_json::from_str::<serde_json::Value>(&printed).unwrap()
    };
    let now = holds(&["info", "--for", "1h"]);
    assert_eq!(
        (&now["filter"], &now["configured"], &now["seconds"]),
        (&"info".into(), &"error".into(), &3_600.into())
    );
    let now = holds(&[]);
    assert_eq!((&now["filter"], &now["seconds"]), (&"error".into(), &serde_json::Value::Null));

    for (wrong, field) in [(&["info", "--for", "25h"], "lasts"), (&["a=b=c=d", "--for", "1h"], "filter")] {
        let (code, _, error) = filter(wrong);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(field), "{error}");
    }
}
