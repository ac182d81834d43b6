//! Methods that a node publishes by reflection: of a newer version, or of another service on its port.

use std::collections::HashSet;

use crate::client::Channel;
use prost::Message as _;
use prost_reflect::DescriptorPool;
use prost_types::FileDescriptorProto;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, ServerReflectionResponse, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest as Ask, server_reflection_response::MessageResponse as Told,
};

use super::methods::Methods;

/// Most files that are accepted; Kith has a dozen.
const FILES_MAX: usize = 500;

/// The methods of all services whose name matches `name`.
///
/// # Errors
/// If the node does not answer, or its answer cannot be understood.
pub(super) async fn methods(channel: Channel, name: &str) -> Result<Methods, Status> {
    let mut talk = Talk::open(channel).await?;
    let mut files = Files::default();
    for service in talk.services().await? {
        if meant(name, &service) {
            talk.files(Ask::FileContainingSymbol(service), &mut files).await?;
        }
    }
    while let Some(missing) = files.missing() {
        talk.files(Ask::FileByFilename(missing), &mut files).await?;
    }
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files.files).map_err(|_| strange())?;
    Ok(Methods::of(pool))
}

/// Whether a service may be that of a method's name; a bare method may be anyone's.
fn meant(name: &str, service: &str) -> bool {
    let mut parts = name.trim_start_matches('/').rsplit(['/', '.']).skip(1);
    let last = service.rsplit('.').next().unwrap_or(service);
    parts.next().is_none_or(|part| part.eq_ignore_ascii_case(last))
}

/// Files that were returned, each once.
#[derive(Debug, Default)]
struct Files {
    files: Vec<FileDescriptorProto>,
    names: HashSet<String>,
}

impl Files {
    fn missing(&self) -> Option<String> {
        let mut needed = self.files.iter().flat_map(|file| &file.dependency);
        needed.find(|name| !self.names.contains(*name)).cloned()
    }

    fn add(&mut self, file: FileDescriptorProto) -> Result<(), Status> {
        if self.files.len() >= FILES_MAX {
            return Err(strange());
        }
        if self.names.insert(file.name().to_owned()) {
            self.files.push(file);
        }
        Ok(())
    }
}

/// A stream of requests and responses, one after another.
struct Talk {
    asks: mpsc::Sender<ServerReflectionRequest>,
    answers: Streaming<ServerReflectionResponse>,
}

impl Talk {
    async fn open(channel: Channel) -> Result<Self, Status> {
        let (asks, questions) = mpsc::channel(1);
        let mut client = ServerReflectionClient::new(channel);
        let answers = client.server_reflection_info(ReceiverStream::new(questions)).await?.into_inner();
        Ok(Self { asks, answers })
    }

    async fn ask(&mut self, question: Ask) -> Result<Told, Status> {
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
        self.asks.send(request).await.map_err(|_| strange())?;
        let answer = self.answers.message().await?.and_then(|answer| answer.message_response);
        answer.ok_or_else(strange)
    }

    async fn services(&mut self) -> Result<Vec<String>, Status> {
        match self.ask(Ask::ListServices(String::new())).await? {
            Told::ListServicesResponse(list) => {
                Ok(list.service.into_iter().map(|service| service.name).collect())
            }
            _ => Err(strange()),
        }
    }

    async fn files(&mut self, question: Ask, into: &mut Files) -> Result<(), Status> {
        let missing = match &question {
            Ask::FileByFilename(name) => Some(name.clone()),
            _ => None,
        };
        let Told::FileDescriptorResponse(told) = self.ask(question).await? else { return Err(strange()) };
        for bytes in told.file_descriptor_proto {
            into.add(FileDescriptorProto::decode(bytes.as_slice()).map_err(|_| strange())?)?;
        }
        match missing {
            Some(name) if !into.names.contains(&name) => Err(strange()),
            _ => Ok(()),
        }
    }
}

fn strange() -> Status {
    Status::internal("the node's answer about its methods cannot be understood")
}
