//! Requests over bare HTTP/1.1, as a person or a browser sends them, and also invalid requests.

#![allow(dead_code, unreachable_pub, reason = "each executable uses a part")]

use std::{net::SocketAddr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use prost::Message as _;
use prost_types::Any;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};
use tonic::{Code, Status};
use tonic_types::pb;

pub const GET_USER: &str = "/kith.user.v1.UserService/GetUser";
pub const CREATE_USER: &str = "/kith.user.v1.UserService/CreateUser";
pub const FIND_USER: &str = "/kith.user.v1.UserService/FindUserByName";
pub const EXPORT_USERS: &str = "/kith.user.v1.UserService/ExportUsers";
pub const JSON: (&str, &str) = ("content-type", "application/json");

/// Every answer has to come within this time: a hang is a failure.
const BOUND: Duration = Duration::from_secs(20);

/// The answer that came back.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Returns the error as gRPC would have returned it.
    #[track_caller]
    pub fn status(&self) -> Status {
        let json = self.json();
        let code = Code::from_bytes(b"12");
        assert_eq!(json["code"], "unimplemented", "{json}");
        let details = json["details"].as_array().unwrap().iter().map(|detail| Any {
            type_url: format!("type.googleapis.com/{}", detail["type"].as_str().unwrap()),
            value: STANDARD_NO_PAD.decode(detail["value"].as_str().unwrap()).unwrap(),
        });
        let message = json["message"].as_str().unwrap().to_owned();
        let status = pb::Status { code: code.into(), message: message.clone(), details: details.collect() };
        Status::with_details(code, message, status.encode_to_vec().into())
    }

    /// Returns an error's reason.
    #[track_caller]
    pub fn reason(&self) -> String {
        self.debug("google.rpc.ErrorInfo")["reason"].as_str().unwrap().to_owned()
    }

    /// Returns the field that an error names.
    #[track_caller]
    pub fn field(&self) -> String {
        let bad = self.debug("google.rpc.BadRequest");
        bad["fieldViolations"][0]["field"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn debug(&self, kind: &str) -> Value {
        let json = self.json();
        let details = json["details"].as_array().unwrap_or_else(|| panic!("details in {json}"));
        let found = details.iter().find(|detail| detail["type"] == kind);
        found.unwrap_or_else(|| panic!("{kind} in {json}"))["debug"].clone()
    }

    /// Checks an error's HTTP code, code and reason.
    #[track_caller]
    pub fn assert_refused(&self, http: u16, code: &str, reason: &str) {
        assert_eq!((self.code, self.json()["code"].as_str()), (http, Some(code)), "{}", self.json());
        assert_eq!(self.reason(), reason, "{}", self.json());
    }
}

/// A connection that stays open.
pub struct Connection<S> {
    stream: BufReader<S>,
}

impl Connection<TcpStream> {
    pub async fn open(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub fn over(stream: S) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes unchanged.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    pub async fn post(&mut self, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Answer {
        self.write(request("POST", path, headers, body.as_ref())).await;
        self.answer().await
    }

    pub async fn json(&mut self, path: &str, body: &Value) -> Answer {
        self.post(path, &[JSON], body.to_string()).await
    }

    /// Reads one answer.
    pub async fn answer(&mut self) -> Answer {
        timeout(BOUND, self.read_answer()).await.expect("an answer in time")
    }

    async fn read_answer(&mut self) -> Answer {
        let status = self.line().await;
        let code = status.split(' ').nth(1).unwrap_or_else(|| panic!("a status line: {status:?}"));
        let code = code.parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let mut answer = Answer { code, headers, body: Vec::new() };
        if code >= 200 {
            answer.body = self.body(&answer).await;
        }
        answer
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    async fn body(&mut self, answer: &Answer) -> Vec<u8> {
        if answer.header("transfer-encoding") != Some("chunked") {
            let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
            return self.exactly(length).await;
        }
        let mut body = Vec::new();
        loop {
            let size = usize::from_str_radix(&self.line().await, 16).unwrap();
            body.extend(self.exactly(size).await);
            assert_eq!(self.line().await, "");
            if size == 0 {
                return body;
            }
        }
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    /// Returns whether the peer refuses with a 4xx code within the bound.
    pub async fn is_refused(&mut self) -> bool {
        let status = timeout(BOUND, self.line()).await.expect("an answer in time");
        status.split(' ').nth(1).is_some_and(|code| code.starts_with('4'))
    }

    /// Returns whether the peer closes within the bound.
    pub async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        timeout(BOUND, self.stream.read_to_end(&mut rest)).await.is_ok()
    }
}

/// Formats a request as bytes.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let host = if headers.iter().any(|(name, _)| *name == "host") { "" } else { "host: kith\r\n" };
    let mut text = format!("{method} {path} HTTP/1.1\r\n{host}");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if method == "POST" {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

/// Sends a request on its own connection.
pub async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
) -> Answer {
    let mut connection = Connection::open(address).await;
    connection.write(request(method, path, headers, body.as_ref())).await;
    connection.answer().await
}

/// Makes a call as JSON.
pub async fn post(address: SocketAddr, path: &str, body: impl AsRef<[u8]>) -> Answer {
    send(address, "POST", path, &[JSON], body).await
}
