//! The sequence service on the wire: each method decodes, calls once, and encodes.

use kith_delivery::Sequences;
use kith_proto::sequence::v1::{self as wire, sequence_service_server::SequenceService};
use kith_store::{SEQUENCES_READ, SequenceName};
use tonic::{Request, Response};

use super::convert;
use crate::{
    error::Error,
    rpc::{batch::check_count, call::RpcResult},
};

/// The sequence service on the wire.
#[derive(Clone, Debug)]
pub struct SequenceRpc {
    sequences: Sequences,
}

impl SequenceRpc {
    /// The service over a deployment's sequences.
    #[must_use]
    pub const fn new(sequences: Sequences) -> Self {
        Self { sequences }
    }
}

#[tonic::async_trait]
impl SequenceService for SequenceRpc {
    async fn reserve_seqs(
        &self,
        request: Request<wire::ReserveSeqsRequest>,
    ) -> RpcResult<wire::ReserveSeqsResponse> {
        let request = request.into_inner();
        let name = convert::name("name", &request.name)?;
        let (count, above) = (convert::count(request.count)?, convert::above(request.above)?);
        let reserved = self.sequences.reserve(&name, count, above).await;
        let ranges = reserved.map_err(convert::not_reserved)?;
        let ranges = ranges.into_iter().map(convert::range_to_wire).collect();
        Ok(Response::new(wire::ReserveSeqsResponse { ranges }))
    }

    async fn get_max_seqs(
        &self,
        request: Request<wire::GetMaxSeqsRequest>,
    ) -> RpcResult<wire::GetMaxSeqsResponse> {
        let request = request.into_inner();
        check_count("names", request.names.len(), SEQUENCES_READ)?;
        let names = request.names.iter().map(|name| convert::name("names", name));
        let names: Vec<SequenceName> = names.collect::<Result<_, Error>>()?;
        let found = self.sequences.max_seqs(&names).await;
        let found = found.map_err(|error| Error::store("sequence", &error))?;
        let max_seqs = names.iter().zip(found).map(|(name, seq)| convert::max_to_wire(name, seq)).collect();
        Ok(Response::new(wire::GetMaxSeqsResponse { max_seqs }))
    }
}
