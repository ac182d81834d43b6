//! Checks the permissions and validity of TLS files.

use std::{path::Path, time::SystemTime};

use kith_server::{
    auth::secret_file::{self, Content, UnfitFile},
    config::TlsConfig,
    transport::{
        certificate::{self, SOON},
        pem_form, tls,
    },
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use super::Finding;

/// Finds nothing without TLS.
pub(super) fn findings(config: &TlsConfig) -> Vec<Finding> {
    let (Some(cert), Some(key)) = (&config.cert_file, &config.key_file) else { return Vec::new() };
    let mut found = Vec::new();
    match secret_file::read(key, Content::PrivateKey) {
        Ok(file) => {
            let why = pem_form::key_fault(&file.bytes);
            found.extend(why.map(|why| unreadable("tls.key_file", key, why)));
        }
        Err(unfit) => found.push(unfit_file("tls.key_file", &unfit)),
    }
    match secret_file::read(cert, Content::Public) {
        Ok(file) => found.extend(certificates(cert, &file.bytes)),
        Err(unfit) => found.push(unfit_file("tls.cert_file", &unfit)),
    }
    if found.is_empty() {
        found.extend(pair(config, cert, key));
    }
    found
}

/// Reports files that are well-formed but cannot be served together.
fn pair(config: &TlsConfig, cert: &Path, key: &Path) -> Option<Finding> {
    let (cert, key) = (cert.display(), key.display());
    let run = format!("openssl x509 -in {cert} -noout -text; openssl pkey -in {key} -noout -text_pub");
    tls::fault(config).map(|why| Finding::new(why, run))
}

fn certificates(file: &Path, pem: &[u8]) -> Option<Finding> {
    if let Some(why) = pem_form::certificate_fault(pem) {
        return Some(unreadable("tls.cert_file", file, why));
    }
    match CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>() {
        Ok(chain) if !chain.is_empty() => chain.iter().find_map(|der| period(file, der, SystemTime::now())),
        Ok(_) | Err(_) => {
            Some(unreadable("tls.cert_file", file, "holds no certificate in PEM that can be read"))
        }
    }
}

fn unreadable(key: &str, file: &Path, why: &str) -> Finding {
    let file = file.display();
    Finding::new(format!("{key}: {file} {why}"), format!("ls -l {file}; head -1 {file}"))
}

fn unfit_file(key: &str, unfit: &UnfitFile) -> Finding {
    Finding::new(format!("{key}: {}, so that no node starts", unfit.finding()), unfit.run())
}

/// Reports a certificate in the chain that is not valid yet, expired, or expires soon.
fn period(file: &Path, der: &[u8], now: SystemTime) -> Option<Finding> {
    let file = file.display();
    let run = format!("openssl x509 -in {file} -noout -subject -dates");
    let (from, until) = certificate::period(der)?;
    let day = |time: SystemTime| humantime::format_rfc3339_seconds(time);
    let finding = if now < from {
        format!("tls.cert_file: a certificate in {file} holds from {} only", day(from))
    } else if now > until {
        format!("tls.cert_file: a certificate in {file} has ended on {}", day(until))
    } else if now + SOON > until {
        format!("tls.cert_file: a certificate in {file} ends on {}", day(until))
    } else {
        return None;
    };
    Some(Finding::new(finding, run))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// Makes a certificate and its key that end in 2030.
    fn certified(dir: &Path) -> TlsConfig {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap();
        let (cert_file, key_file) = (dir.join("cert.pem"), dir.join("key.pem"));
        fs::write(&cert_file, cert.pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
        TlsConfig { cert_file: Some(cert_file), key_file: Some(key_file), ..TlsConfig::default() }
    }

    #[test]
    fn certificate_is_reported_before_and_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = certified(dir.path()).cert_file.unwrap();
        let der = CertificateDer::from_pem_file(&file).unwrap();
        let end = humantime::parse_rfc3339("2030-01-01T00:00:00Z").unwrap();
        let finding_at = |now| period(&file, &der, now).map(|finding| finding.finding);
        assert_eq!(finding_at(end - DAY * 100), None);
        assert!(finding_at(end - DAY).unwrap().contains("ends on 2030-01-01"));
        assert!(finding_at(end + DAY).unwrap().contains("has ended on 2030-01-01"));
        assert!(finding_at(end - DAY * 365 * 11).unwrap().contains("from 2020-01-01"));
    }

    #[test]
    fn readable_key_and_no_certificate_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let config = certified(dir.path());
        fs::set_permissions(config.key_file.as_ref().unwrap(), fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(config.cert_file.as_ref().unwrap(), "nothing").unwrap();
        let found = findings(&config);
        assert!(found[0].run.starts_with("chmod o= "), "{found:?}");
        assert!(found[1].finding.contains("holds no certificate"), "{found:?}");
        assert_eq!(findings(&TlsConfig::default()), Vec::new());
    }

    #[test]
    fn files_of_another_form_or_pair_are_found() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (config, other) = (certified(dir.path()), certified(other.path()));
        let first = |config: &TlsConfig| findings(config).remove(0).finding;
        let mixed = TlsConfig { key_file: other.key_file, ..config.clone() };
        assert!(first(&mixed).contains("is not that of the first certificate"), "{}", first(&mixed));
        let key = config.key_file.clone();
        let exchanged = TlsConfig { cert_file: key, key_file: config.cert_file.clone(), ..config };
        assert!(findings(&exchanged).iter().any(|found| found.finding.contains("are exchanged")));
    }
}
