//! TLS on the gRPC port.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;

use super::{certificate, pem_form};
use crate::{
    auth::secret_file::{self, Content, SecretFile, UnfitFile},
    config::TlsConfig,
    start_error::StartError,
};

/// The served certificate and key: what their files contained when they were last read successfully.
pub(crate) struct Certificates {
    files: TlsFiles,
    served: Mutex<ServedCertificate>,
}

#[derive(Clone, Debug)]
struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
}

struct ServedCertificate {
    acceptor: TlsAcceptor,
    /// A hash over its files.
    digest: [u8; 32],
    /// When the chain's first certificate ends. `None`: it cannot be read.
    ends: Option<SystemTime>,
}

impl Certificates {
    /// Reads the files; `None` when TLS is not configured.
    ///
    /// # Errors
    /// If they cannot be read, do not match, the key is readable by all users, or others may change a file.
    pub(crate) fn of(config: &TlsConfig) -> Result<Option<Arc<Self>>, StartError> {
        let (Some(cert), Some(key)) = (&config.cert_file, &config.key_file) else { return Ok(None) };
        let files = TlsFiles { cert: cert.clone(), key: key.clone() };
        let read = files.read()?;
        let served = ServedCertificate {
            acceptor: files.acceptor(&read)?,
            digest: read.digest(),
            ends: certificate::first_end(&read.cert.bytes),
        };
        Ok(Some(Arc::new(Self { files, served: Mutex::new(served) })))
    }

    /// When the first served certificate ends; `None`: it cannot be read.
    pub(crate) fn ends(&self) -> Option<SystemTime> {
        self.served.lock().ends
    }

    /// The configuration for one connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.served.lock().acceptor.clone()
    }

    /// Reads the files again. New connections use changed content; returns whether it changed. Invalid files
    /// change nothing.
    ///
    /// # Errors
    /// Returns the errors of [`Self::of`].
    pub(crate) fn read_again(&self) -> Result<bool, StartError> {
        let read = self.files.read()?;
        let digest = read.digest();
        if self.served.lock().digest == digest {
            return Ok(false);
        }
        let acceptor = self.files.acceptor(&read)?;
        let ends = certificate::first_end(&read.cert.bytes);
        *self.served.lock() = ServedCertificate { acceptor, digest, ends };
        Ok(true)
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Why a node with these files would not start; `None`: they can be served, or TLS is not configured.
#[must_use]
pub fn fault(config: &TlsConfig) -> Option<String> {
    Certificates::of(config).err().map(|error| error.to_string())
}

/// The content of both files, each opened once, so that the same content is checked, compared and served.
struct TlsFileContents {
    cert: SecretFile,
    key: SecretFile,
}

impl TlsFiles {
    fn read(&self) -> Result<TlsFileContents, StartError> {
        let unfit = |key: &'static str| move |why: UnfitFile| StartError::new(format!("tls.{key}: {why}"));
        let formed = |key: &str, path: &Path, fault: Option<&str>| match fault {
            Some(why) => Err(StartError::new(format!("tls.{key}: {} {why}", path.display()))),
            None => Ok(()),
        };
        let cert = secret_file::read(&self.cert, Content::Public).map_err(unfit("cert_file"))?;
        // This comes before the key file's rights are judged: exchanged files do not have a key's rights.
        formed("cert_file", &self.cert, pem_form::certificate_fault(&cert.bytes))?;
        let key = secret_file::read(&self.key, Content::PrivateKey).map_err(unfit("key_file"))?;
        formed("key_file", &self.key, pem_form::key_fault(&key.bytes))?;
        Ok(TlsFileContents { cert, key })
    }

    fn acceptor(&self, read: &TlsFileContents) -> Result<TlsAcceptor, StartError> {
        let unreadable = |key: &str, path: &Path| {
            StartError::new(format!("tls.{key}: {} holds no PEM that can be read", path.display()))
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&read.cert.bytes)
            .collect::<Result<_, _>>()
            .map_err(|_| unreadable("cert_file", &self.cert))?;
        let key =
            PrivateKeyDer::from_pem_slice(&read.key.bytes).map_err(|_| unreadable("key_file", &self.key))?;
        let mut tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| StartError::new(pem_form::pair_fault(&error)))?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(tls)))
    }
}

impl TlsFileContents {
    fn digest(&self) -> [u8; 32] {
        let (cert, key) = (&self.cert.bytes, &self.key.bytes);
        Sha256::new()
            .chain_update(cert.len().to_be_bytes())
            .chain_update(cert)
            .chain_update(key)
            .finalize()
            .into()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use base64::{Engine as _, engine::general_purpose::STANDARD};

    use super::*;

    /// A certificate and its key.
    fn pair() -> (String, String) {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (own.cert.pem(), own.signing_key.serialize_pem())
    }

    /// A P-521 key, which fits no certificate in these tests.
    fn large_key() -> String {
        let beginning = [
            &[0x30, 0x60, 0x02, 0x01, 0x00, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]
                [..],
            &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23, 0x04, 0x49, 0x30, 0x47, 0x02, 0x01, 0x01, 0x04, 0x42],
            &[1; 66],
        ]
        .concat();
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(beginning))
    }

    fn refused(cert: &str, key: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            Some(path)
        };
        let config = TlsConfig {
            cert_file: file("cert.pem", cert),
            key_file: file("key.pem", key),
            ..TlsConfig::default()
        };
        fault(&config).unwrap_or_default()
    }

    #[test]
    fn files_that_cannot_serve_say_why() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let ((cert, key), (_, other)) = (pair(), pair());
        assert_eq!(refused(&cert, &key), "");
        for (cert, key, words) in [
            (&key, &cert, "cert_file: "),
            (&key, &cert, "are exchanged"),
            (&cert, &cert, "holds a certificate and no private key"),
            (&cert, &other, "is not that of the first certificate"),
            (&cert, &large_key(), "P-521 is not supported"),
        ] {
            let why = refused(cert, key);
            assert!(why.contains(words), "{words}: {why}");
        }
    }
}
