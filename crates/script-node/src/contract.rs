//! The methods of the contract, and the JSON form of their messages.

use anyhow::{Context as _, Result};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor};
use serde_json::Value;

/// The descriptors of the contract.
#[derive(Debug)]
pub(crate) struct Contract(DescriptorPool);

impl Contract {
    pub(crate) fn new() -> Result<Self> {
        let mut pool = DescriptorPool::new();
        pool.decode_file_descriptor_set(kith_proto::DESCRIPTOR_SET)?;
        Ok(Self(pool))
    }

    /// The method of a full name such as `kith.user.v1.UserService/GetUser`.
    pub(crate) fn method(&self, name: &str) -> Option<MethodDescriptor> {
        let (service, method) = name.split_once('/')?;
        self.0.get_service_by_name(service)?.methods().find(|found| found.name() == method)
    }
}

/// The message of a JSON value.
pub(crate) fn from_json(descriptor: MessageDescriptor, value: &Value) -> Result<DynamicMessage> {
    let name = descriptor.full_name().to_owned();
    DynamicMessage::deserialize(descriptor, value).with_context(|| format!("not a {name}: {value}"))
}

/// The message of bytes.
pub(crate) fn from_bytes(descriptor: MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage> {
    let name = descriptor.full_name().to_owned();
    DynamicMessage::decode(descriptor, bytes).with_context(|| format!("not a {name}"))
}

/// The JSON form, for verdicts and answers.
pub(crate) fn to_json(message: &DynamicMessage) -> String {
    serde_json::to_string(message).unwrap_or_else(|error| error.to_string())
}

/// The bytes of a message.
pub(crate) fn to_bytes(message: &DynamicMessage) -> bytes::Bytes {
    message.encode_to_vec().into()
}
