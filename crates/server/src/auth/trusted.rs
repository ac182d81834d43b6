//! TLS to servers that are not nodes: issuers of keys, receivers of events.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use super::secret_file::{self, Content};

/// Reads which certificates are trusted: those in `ca_file`, or else the system's. Speaks TLS 1.2 and 1.3,
/// and HTTP/1.1. Blocks while it reads files. `option`: what names the file.
///
/// # Errors
/// Says why no server could be trusted, in words that follow its address.
pub fn trusted(ca_file: Option<&Path>, option: &str) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let read = secret_file::read(file, Content::Public);
            let bytes = read.map_err(|unfit| format!(" needs {option}: {unfit}"))?.bytes;
            let certificates = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
            roots.add_parsable_certificates(certificates.unwrap_or_default());
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        let file = ca_file.map_or("the system".to_owned(), |file| format!("{option} {}", file.display()));
        return Err(format!(" cannot be trusted: {file} has no certificate (PEM)"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|_| " needs TLS".to_owned())?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
