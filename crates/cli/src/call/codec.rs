//! Encodes messages whose type is known only at run time.

use bytes::Buf as _;
use http::uri::PathAndQuery;
use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// Writes requests and reads answers for one method.
#[derive(Debug)]
pub(crate) struct DynamicCodec {
    answer: MessageDescriptor,
}

impl DynamicCodec {
    /// Makes the codec for a method.
    pub(crate) fn of(method: &MethodDescriptor) -> Self {
        Self { answer: method.output() }
    }
}

/// Returns a method's path. Fails if its name is not a valid path; such a name can come from a node.
pub(crate) fn path(method: &MethodDescriptor) -> Result<PathAndQuery, Status> {
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    path.parse().map_err(|_| Status::invalid_argument("the name of the method makes no path"))
}

impl Codec for DynamicCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = DynamicEncoder;
    type Decoder = DynamicDecoder;

    fn encoder(&mut self) -> DynamicEncoder {
        DynamicEncoder
    }

    fn decoder(&mut self) -> DynamicDecoder {
        DynamicDecoder(self.answer.clone())
    }
}

/// Encodes requests.
#[derive(Debug)]
pub(crate) struct DynamicEncoder;

impl Encoder for DynamicEncoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, item: DynamicMessage, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(into).map_err(|_| Status::internal("the request has no room"))
    }
}

/// Decodes answers.
#[derive(Debug)]
pub(crate) struct DynamicDecoder(MessageDescriptor);

impl Decoder for DynamicDecoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        let message = DynamicMessage::decode(self.0.clone(), bytes);
        message.map(Some).map_err(|_| Status::internal("the node answered with another message than it says"))
    }
}
