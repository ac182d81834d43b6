//! Calls over bare HTTP/2: a tonic client would not send them.

use std::net::SocketAddr;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tonic::Status;

/// The answer that came back.
#[derive(Debug)]
pub struct Answer {
    pub http: u16,
    pub status: Option<Status>,
    pub trailers: HeaderMap,
}

impl Answer {
    #[track_caller]
    pub fn status(&self) -> &Status {
        self.status.as_ref().expect("an answer of gRPC")
    }
}

pub const GET_USER: &str = "/kith.user.v1.UserService/GetUser";
pub const CREATE_USER: &str = "/kith.user.v1.UserService/CreateUser";
pub const BATCH_GET_USERS: &str = "/kith.user.v1.UserService/BatchGetUsers";
pub const FIND_USER: &str = "/kith.user.v1.UserService/FindUserByName";
pub const EXPORT_USERS: &str = "/kith.user.v1.UserService/ExportUsers";
pub const IMPORT_USERS: &str = "/kith.user.v1.UserService/ImportUsers";

/// Frames a message like gRPC.
pub fn framed(message: &[u8]) -> Bytes {
    flagged(0, message.len(), message)
}

/// Makes a frame that may lie about its flag and length.
pub fn flagged(flag: u8, length: usize, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(flag);
    frame.put_u32(u32::try_from(length).unwrap());
    frame.put_slice(message);
    frame.freeze()
}

/// Makes an unknown field with `length` bytes, valid protobuf.
pub fn unknown_field(length: usize) -> Vec<u8> {
    let mut field = Vec::new();
    prost::encoding::bytes::encode(1000, &vec![0_u8; length], &mut field);
    field
}

/// Makes a call on its own connection.
///
/// # Errors
/// Fails if the peer resets the stream or the connection.
pub async fn call(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Result<Answer, h2::Error> {
    let socket = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await?;
    tokio::spawn(connection);
    let mut client = client.ready().await?;
    let mut request = Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (response, mut sending) = client.send_request(request.body(()).unwrap(), false)?;
    send(&mut sending, body).await;
    answer(response.await?).await
}

/// Sends at the peer's speed. The peer may answer before it has taken everything.
async fn send(sending: &mut h2::SendStream<Bytes>, mut body: Bytes) {
    while !body.is_empty() {
        sending.reserve_capacity(body.len());
        let Some(Ok(capacity)) = std::future::poll_fn(|cx| sending.poll_capacity(cx)).await else { return };
        if sending.send_data(body.split_to(capacity.min(body.len())), false).is_err() {
            return;
        }
    }
    drop(sending.send_data(Bytes::new(), true));
}

async fn answer(response: http::Response<h2::RecvStream>) -> Result<Answer, h2::Error> {
    let http = response.status().as_u16();
    let (head, mut body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&head.headers) {
        return Ok(Answer { http, status: Some(status), trailers: head.headers });
    }
    while let Some(data) = body.data().await {
        let length = data?.len();
        body.flow_control().release_capacity(length)?;
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    Ok(Answer { http, status: Status::from_header_map(&trailers), trailers })
}
