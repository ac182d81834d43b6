//! Calls that other nodes of the cluster make.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};
use kith_service::error::Error;
use tonic::Status;

use super::{answer, methods::Method};

/// By which a node proves that it makes a call.
const PROOF: HeaderName = HeaderName::from_static("kith-node");
const PROOF_NAME: &str = "kith-node";
/// The methods that nodes call: they can be repeated without harm.
const METHODS: [&str; 3] = [
    "kith.admin.v1.AdminService/InspectKey",
    "kith.admin.v1.AdminService/FlushMemory",
    "kith.admin.v1.AdminService/ReadCanary",
];

/// Knows the calls of other nodes.
pub(crate) trait NodeProofs: fmt::Debug + Send + Sync {
    /// Checks what a node gives as proof that it makes this call, as `SERVICE/METHOD`, of this node.
    ///
    /// # Errors
    /// NOT_ALLOWED.
    fn verify(&self, proof: &HeaderValue, method: &str) -> Result<(), Error>;
}

/// Put into the extensions of a request by the edge: another node of the cluster makes the call, which then means this node
/// alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByNode;

/// Takes the proof of a node out of the headers. `None`: no node says that it makes the call, or this one has no others.
///
/// # Errors
/// NOT_ALLOWED when the proof is not that of a node for this call, or nodes do not make it.
pub(super) fn by_node(
    headers: &mut HeaderMap,
    method: &Method,
    proofs: Option<&Arc<dyn NodeProofs>>,
) -> Result<Option<ByNode>, Box<Status>> {
    let Some(proof) = headers.get(PROOF) else { return Ok(None) };
    if headers.get_all(PROOF).iter().nth(1).is_some() {
        return Err(Box::new(answer::invalid_metadata(PROOF_NAME, "must be given once")));
    }
    let called = format!("{}/{}", method.service, method.name);
    let verified = proofs.map(|proofs| {
        proofs.verify(proof, &called)?;
        if METHODS.contains(&called.as_str()) { Ok(ByNode) } else { Err(not_of_nodes()) }
    });
    headers.remove(PROOF);
    verified.transpose().map_err(|error| Box::new(error.into()))
}

fn not_of_nodes() -> Error {
    Error::not_allowed("nodes do not call this method of each other")
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::edge::methods::Methods;

    /// Believes whatever is the name of the method.
    #[derive(Debug)]
    struct Named;

    impl NodeProofs for Named {
        fn verify(&self, proof: &HeaderValue, method: &str) -> Result<(), Error> {
            if proof == method { Ok(()) } else { Err(Error::not_allowed("no proof")) }
        }
    }

    /// The code of what is refused, else whether it is a call of a node.
    fn decided(path: &str, proofs: &[&str]) -> Result<bool, Code> {
        let named: Arc<dyn NodeProofs> = Arc::new(Named);
        let mut headers = HeaderMap::new();
        for proof in proofs {
            headers.append(PROOF, HeaderValue::try_from(*proof).unwrap());
        }
        let methods = Methods::new();
        let by = by_node(&mut headers, methods.of(&format!("/{path}")), Some(&named));
        assert!(by.is_err() || headers.is_empty(), "handlers do not see the proof");
        by.map(|by| by.is_some()).map_err(|status| status.code())
    }

    #[test]
    fn nodes_make_three_calls_and_no_others() {
        for method in METHODS {
            assert_eq!(decided(method, &[method]), Ok(true), "{method}");
            assert_eq!(decided(method, &[]), Ok(false), "{method}");
            assert_eq!(decided(method, &["other"]), Err(Code::PermissionDenied), "{method}");
            assert_eq!(decided(method, &[method, method]), Err(Code::InvalidArgument), "{method}");
        }
        for method in ["kith.admin.v1.AdminService/StartEpoch", "kith.user.v1.UserService/GetUser"] {
            assert_eq!(decided(method, &[method]), Err(Code::PermissionDenied), "{method}");
        }
    }

    #[test]
    fn node_without_others_takes_no_call_for_that_of_a_node() {
        let mut headers = HeaderMap::from_iter([(PROOF, HeaderValue::from_static("anything"))]);
        let by = by_node(&mut headers, Methods::new().of(&format!("/{}", METHODS[0])), None);
        assert!(by.unwrap().is_none() && headers.is_empty());
    }
}
