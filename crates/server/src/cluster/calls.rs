//! Calls between nodes, each with a proof for its method and its target node. A captured proof can at most
//! repeat the same call to the same node for a short time.

use std::{fs, sync::Arc, time::Duration};

use http::HeaderValue;
use kith_proto::admin::v1::admin_service_client::AdminServiceClient;
use kith_service::error::Error;
use kith_store::Timestamp;
use tonic::{
    GrpcMethod, Request, Status,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use super::{NodeInfo, Proofs};
use crate::{auth::identity::NODE_PROOF, config::Config};

/// Calls other nodes, and verifies their calls: a proof (`kith-node`) shows that the caller knows the nodes'
/// keys, and names the call and the called node.
#[derive(Clone, Debug)]
pub(crate) struct NodeCalls {
    proofs: Proofs,
    /// This node's id.
    own: Arc<str>,
    timeout: Duration,
    tls: Option<ClientTlsConfig>,
}

/// Another node's admin service.
pub(crate) type Admin = AdminServiceClient<InterceptedService<Channel, ProveCall>>;

impl NodeCalls {
    pub(super) fn new(proofs: Proofs, config: &Config, own: &str) -> Self {
        let file = config.cluster.ca_file.as_ref().or(config.tls.cert_file.as_ref());
        let pem = file.filter(|_| config.tls.cert_file.is_some()).and_then(|file| fs::read(file).ok());
        let tls = pem.map(|pem| ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)));
        Self { proofs, own: own.into(), timeout: config.cluster.call_timeout, tls }
    }

    /// How long a call may take.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// A connection to another node, whose record was verified.
    ///
    /// # Errors
    /// If it cannot be reached at its address.
    pub(crate) async fn admin(&self, node_info: &NodeInfo) -> Result<Admin, tonic::transport::Error> {
        let mut endpoint = Endpoint::from_shared(node_info.address.clone())?
            .connect_timeout(self.timeout)
            .timeout(self.timeout)
            .tcp_nodelay(true);
        if let (Some(tls), true) = (&self.tls, node_info.address.starts_with("https:")) {
            endpoint = endpoint.tls_config(tls.clone())?;
        }
        let (proofs, from) = (self.proofs.clone(), Arc::clone(&self.own));
        let prove = ProveCall { proofs, from, to: node_info.id.as_str().into() };
        Ok(AdminServiceClient::with_interceptor(endpoint.connect().await?, prove))
    }

    /// Whether the proof shows that a cluster node makes this call, `SERVICE/METHOD`, to this node.
    pub(crate) fn verifies(&self, proof: &HeaderValue, method: &str) -> bool {
        self.proofs.check_call(proof.as_bytes(), &self.own, method, Timestamp::now()).is_ok()
    }
}

/// Adds a proof to every call.
#[derive(Clone)]
pub(crate) struct ProveCall {
    proofs: Proofs,
    from: Arc<str>,
    to: Arc<str>,
}

impl Interceptor for ProveCall {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        // Generated clients put it there.
        let method = request.extensions().get::<GrpcMethod<'static>>();
        let method = method.map(|method| format!("{}/{}", method.service(), method.method()));
        let method = method.ok_or_else(|| Status::from(Error::internal()))?;
        let proof = self.proofs.of_call(&self.from, &self.to, &method, Timestamp::now());
        let proof = proof.parse().map_err(|_| Status::from(Error::internal()))?;
        request.metadata_mut().insert(NODE_PROOF, proof);
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_carries_a_proof_its_node_accepts() {
        let proofs = Proofs::of_test(1);
        let mut prove = ProveCall { proofs: proofs.clone(), from: "a".into(), to: "b".into() };
        let mut request = Request::new(());
        assert!(prove.call(Request::new(())).is_err(), "of which method is not known");
        request.extensions_mut().insert(GrpcMethod::new("kith.admin.v1.AdminService", "ReadCanary"));
        let proven = prove.call(request).unwrap().into_parts().0.into_headers();
        let called = NodeCalls { proofs, own: "b".into(), timeout: Duration::ZERO, tls: None };
        assert!(called.verifies(&proven[NODE_PROOF], "kith.admin.v1.AdminService/ReadCanary"));
        assert!(!called.verifies(&proven[NODE_PROOF], "kith.admin.v1.AdminService/FlushMemory"));
    }
}
