//! TLS of the gRPC port.

use std::{io, path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio_rustls::TlsAcceptor;

use crate::{config::TlsConfig, start::StartError};

/// `None` when TLS is not configured.
pub(super) fn acceptor(config: &TlsConfig) -> Result<Option<TlsAcceptor>, StartError> {
    let (Some(cert_file), Some(key_file)) = (&config.cert_file, &config.key_file) else { return Ok(None) };
    refuse_open_key(key_file)?;
    let unreadable = |key: &str, path: &Path| {
        StartError::new(format!("tls.{key}: {} holds no PEM that can be read", path.display()))
    };
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert_file)
        .and_then(Iterator::collect)
        .map_err(|_| unreadable("cert_file", cert_file))?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|_| unreadable("key_file", key_file))?;
    let mut tls = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| StartError::new(format!("tls: certificate and key do not serve: {error}")))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(tls))))
}

/// A key that everybody on the machine may read is no secret.
fn refuse_open_key(path: &Path) -> Result<(), StartError> {
    let unreadable =
        |error| StartError::new(format!("tls.key_file: {} cannot be read: {error}", path.display()));
    if is_open(path).map_err(unreadable)? {
        let path = path.display();
        return Err(StartError::new(format!(
            "tls.key_file: everybody on this machine may read {path}; take that right away (chmod o= {path})"
        )));
    }
    Ok(())
}

/// Whether everybody on this machine may use the file.
#[cfg(unix)]
pub(crate) fn is_open(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::metadata(path)?.permissions().mode() & 0o007 != 0)
}

/// The system does not say so in bits.
#[cfg(not(unix))]
pub(crate) fn is_open(_path: &Path) -> io::Result<bool> {
    Ok(false)
}
