//! Reports certificates that end: in `/readyz`, in the log at the start and each day, and in a metric.
//! Clients refuse a node whose certificate has ended, and the node itself notices nothing.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use kith_service::metric::TLS_CERTIFICATE_EXPIRE_SECONDS;

use crate::{
    config::Config,
    health::{HealthCause, Reporter},
    transport::{
        Certificates,
        certificate::{self, SOON},
    },
};

/// How often the log repeats it.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const REASON: &str = "certificate_ends";

/// The certificates that the node serves, and those by which it trusts other nodes.
#[derive(Debug)]
pub(super) struct CertificateWatch {
    served: Option<Arc<Certificates>>,
    trusted: Option<PathBuf>,
    health: Reporter,
    /// Since when the remark is there.
    since: Option<SystemTime>,
    logged: Option<SystemTime>,
}

impl CertificateWatch {
    pub(super) fn new(served: Option<Arc<Certificates>>, config: &Config, health: Reporter) -> Self {
        let trusted = served.as_ref().and(config.cluster.ca_file.clone());
        Self { served, trusted, health, since: None, logged: None }
    }

    /// Looks at all certificates; a changed file counts at once.
    pub(super) fn look(&mut self, now: SystemTime) {
        let served = self.served.as_ref().and_then(|served| Some(("tls.cert_file", served.ends()?)));
        let trusted = self
            .trusted
            .as_ref()
            .and_then(|file| Some(("cluster.ca_file", certificate::first_end(&fs::read(file).ok()?)?)));
        let ends: Vec<_> = served.into_iter().chain(trusted).collect();
        for (file, end) in &ends {
            let left = end.duration_since(now).unwrap_or_default();
            metrics::gauge!(TLS_CERTIFICATE_EXPIRE_SECONDS.name, "file" => *file).set(left.as_secs_f64());
        }
        match ends.into_iter().min_by_key(|(_file, end)| *end).filter(|(_file, end)| *end < now + SOON) {
            Some((file, end)) => self.report(message(file, end, now), now),
            None if self.since.take().is_some() => {
                self.logged = None;
                self.health.end_remark(REASON);
            }
            None => {}
        }
    }

    fn report(&mut self, message: String, now: SystemTime) {
        let since = *self.since.get_or_insert(now);
        let is_due = |last| now.duration_since(last).map_or(true, |past| past >= DAY);
        if self.logged.is_none_or(is_due) {
            self.logged = Some(now);
            tracing::warn!("{message}");
        }
        self.health.remark(HealthCause { reason: REASON, message, since });
    }
}

fn message(file: &str, end: SystemTime, now: SystemTime) -> String {
    let day = humantime::format_rfc3339_seconds(end);
    if end <= now {
        format!(
            "a certificate of {file} has ended on {day}: clients refuse the node; put a new one in its place"
        )
    } else {
        format!(
            "a certificate of {file} ends on {day}: clients refuse the node from then on; put a new one in its place"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TlsConfig;

    /// A node with a certificate that ends in 2030, and its remarks at this time.
    fn remarks_at(watch: &mut CertificateWatch, now: &str) -> Vec<String> {
        watch.look(humantime::parse_rfc3339(now).unwrap());
        watch.health.remarks().into_iter().map(|remark| remark.message).collect()
    }

    #[test]
    fn certificate_end_is_reported_and_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let files = [dir.path().join("cert.pem"), dir.path().join("key.pem")];
        fs::write(&files[0], params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&files[1], key.serialize_pem()).unwrap();
        let owner_alone = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&files[1], owner_alone).unwrap();
        let [cert_file, key_file] = files.map(Some);
        let tls = TlsConfig { cert_file, key_file, ..TlsConfig::default() };
        drop(rustls::crypto::ring::default_provider().install_default());
        let served = Certificates::of(&tls).unwrap();
        let config = Config { tls, ..Config::default() };
        let mut watch = CertificateWatch::new(served, &config, Reporter::new());
        assert_eq!(remarks_at(&mut watch, "2029-12-01T00:00:00Z"), Vec::<String>::new());
        let soon = remarks_at(&mut watch, "2029-12-20T00:00:00Z");
        assert!(soon.len() == 1 && soon[0].contains("ends on 2030-01-01T00:00:00Z"), "{soon:?}");
        let first = watch.logged;
        remarks_at(&mut watch, "2029-12-20T23:00:00Z");
        assert_eq!(watch.logged, first, "not again on the same day");
        let ended = remarks_at(&mut watch, "2030-01-02T00:00:00Z");
        assert!(ended.len() == 1 && ended[0].contains("has ended on 2030-01-01"), "{ended:?}");
        assert_ne!(watch.logged, first);
        assert_eq!(remarks_at(&mut watch, "2029-12-01T00:00:00Z"), Vec::<String>::new(), "a new one");
    }
}
