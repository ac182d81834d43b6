//! TLS of the gRPC port.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;

use crate::{config::TlsConfig, start_error::StartError};

/// What is served as certificate and key: what their files held when they were last read well.
pub(crate) struct Certificates {
    files: Files,
    served: Mutex<Served>,
}

#[derive(Clone, Debug)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
}

struct Served {
    acceptor: TlsAcceptor,
    /// Of the files that it was made of.
    digest: [u8; 32],
}

impl Certificates {
    /// Reads the files; `None` when TLS is not configured.
    ///
    /// # Errors
    /// When they cannot be read, do not belong together, or everybody may read the key.
    pub(super) fn of(config: &TlsConfig) -> Result<Option<Arc<Self>>, StartError> {
        let (Some(cert), Some(key)) = (&config.cert_file, &config.key_file) else { return Ok(None) };
        let files = Files { cert: cert.clone(), key: key.clone() };
        // Before: files that change between the two are read again.
        let digest = files.digest();
        let acceptor = files.acceptor()?;
        Ok(Some(Arc::new(Self { files, served: Mutex::new(Served { acceptor, digest }) })))
    }

    /// For one connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.served.lock().acceptor.clone()
    }

    /// Reads the files again, if they hold something else. Connections that begin from now on are served by it; whether
    /// there is anything else. What cannot be served changes nothing.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub(crate) fn read_again(&self) -> Result<bool, StartError> {
        let digest = self.files.digest();
        if self.served.lock().digest == digest {
            return Ok(false);
        }
        let acceptor = self.files.acceptor()?;
        *self.served.lock() = Served { acceptor, digest };
        Ok(true)
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Files {
    /// Of what they hold. A file that is not there is one that holds nothing.
    fn digest(&self) -> [u8; 32] {
        let held = |path| std::fs::read(path).unwrap_or_default();
        let (cert, key) = (held(&self.cert), held(&self.key));
        Sha256::new()
            .chain_update(cert.len().to_be_bytes())
            .chain_update(cert)
            .chain_update(key)
            .finalize()
            .into()
    }

    fn acceptor(&self) -> Result<TlsAcceptor, StartError> {
        refuse_open_key(&self.key)?;
        let unreadable = |key: &str, path: &Path| {
            StartError::new(format!("tls.{key}: {} holds no PEM that can be read", path.display()))
        };
        let chain: Vec<_> = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect)
            .map_err(|_| unreadable("cert_file", &self.cert))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|_| unreadable("key_file", &self.key))?;
        let mut tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| StartError::new(format!("tls: certificate and key do not serve: {error}")))?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(tls)))
    }
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
///
/// # Errors
/// When the file cannot be looked at.
#[cfg(unix)]
pub fn is_open(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::metadata(path)?.permissions().mode() & 0o007 != 0)
}

/// The system does not say so in bits.
#[cfg(not(unix))]
pub fn is_open(_path: &Path) -> io::Result<bool> {
    Ok(false)
}
