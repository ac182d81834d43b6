use std::{fs, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::Mac as _;
use http::HeaderValue;
use kith_proto::admin::v1::admin_service_client::AdminServiceClient;
use tonic::{
    Request, Status,
    metadata::AsciiMetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use super::{Card, Keys, keys::mac};
use crate::{auth::principal::NODE_PROOF, config::Config};

/// How this node calls others, and knows calls of others: a proof (`kith-node`) says that a node knows the key of the nodes, and
/// whom it means to call.
#[derive(Clone)]
pub(crate) struct Calls {
    key: [u8; 32],
    timeout: Duration,
    tls: Option<ClientTlsConfig>,
}

/// The admin service of another node.
pub(crate) type Admin = AdminServiceClient<InterceptedService<Channel, Proof>>;

impl Calls {
    pub(super) fn new(keys: &Keys, config: &Config) -> Self {
        let file = config.cluster.ca_file.as_ref().or(config.tls.cert_file.as_ref());
        let pem = file.filter(|_| config.tls.cert_file.is_some()).and_then(|file| fs::read(file).ok());
        let tls = pem.map(|pem| ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)));
        Self { key: keys.calls(), timeout: config.cluster.call_timeout, tls }
    }

    /// How long a call may take.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// A connection to another node.
    ///
    /// # Errors
    /// When it cannot be reached where it says that it is.
    pub(crate) async fn admin(&self, card: &Card) -> Result<Admin, tonic::transport::Error> {
        let mut endpoint = Endpoint::from_shared(card.address.clone())?
            .connect_timeout(self.timeout)
            .timeout(self.timeout)
            .tcp_nodelay(true);
        if let (Some(tls), true) = (&self.tls, card.address.starts_with("https:")) {
            endpoint = endpoint.tls_config(tls.clone())?;
        }
        let proof = Proof(self.proof(&card.id));
        Ok(AdminServiceClient::with_interceptor(endpoint.connect().await?, proof))
    }

    /// Whether a proof is that of a node of the cluster and is meant for the node of this id.
    pub(crate) fn verifies(&self, proof: &HeaderValue, own: &str) -> bool {
        let given = URL_SAFE_NO_PAD.decode(proof.as_bytes()).unwrap_or_default();
        mac(&self.key, own).verify_slice(&given).is_ok()
    }

    /// Good for one node until it ends, so that what one node was sent means nothing to another.
    fn proof(&self, to: &str) -> Option<AsciiMetadataValue> {
        URL_SAFE_NO_PAD.encode(mac(&self.key, to).finalize().into_bytes()).parse().ok()
    }
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

/// Puts the proof into every call.
#[derive(Clone)]
pub(crate) struct Proof(Option<AsciiMetadataValue>);

impl Interceptor for Proof {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(proof) = &self.0 {
            request.metadata_mut().insert(NODE_PROOF, proof.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(key: u8) -> Calls {
        Calls { key: [key; 32], timeout: Duration::ZERO, tls: None }
    }

    #[test]
    fn a_proof_is_good_for_the_node_that_it_was_made_for_and_by_its_key_alone() {
        let value = |text: &str| HeaderValue::from_str(text).unwrap();
        let proof = calls(1).proof("a").unwrap();
        let proof = proof.to_str().unwrap();
        assert!(calls(1).verifies(&value(proof), "a"));
        assert!(!calls(1).verifies(&value(proof), "b"));
        assert!(!calls(2).verifies(&value(proof), "a"));
        for wrong in ["", "0", "zz", "00", &proof[2..]] {
            assert!(!calls(1).verifies(&value(wrong), "a"), "{wrong:?}");
        }
    }
}
