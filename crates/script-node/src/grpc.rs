//! gRPC over HTTP/2, by the frames themselves: a case may reset a stream or end a connection.

use std::{
    future::{pending, poll_fn},
    sync::Arc,
};

use anyhow::{Context as _, Result, ensure};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::{
    Reason, RecvStream,
    server::{self, SendResponse},
};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use tonic::{Code, Status};

use crate::{
    case::Lost,
    run::{Reply, Run, Try},
};

/// Flag and length before a message.
pub(crate) const PREFIX: usize = 5;

/// What a call asks of its connection.
enum Command {
    /// Closes it without a word.
    Close,
    /// Sends GOAWAY, and says when it is on its way.
    GoAway(oneshot::Sender<()>),
}

/// Serves one connection until it ends.
pub(crate) async fn serve(stream: TcpStream, run: Arc<Run>) -> Result<()> {
    let mut connection = server::handshake(stream).await?;
    let (commands, mut received) = mpsc::unbounded_channel();
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(accepted) => {
                    let (request, respond) = accepted?;
                    calls.spawn(call(request, respond, Arc::clone(&run), commands.clone()));
                }
                None => return Ok(()),
            },
            Some(command) = received.recv() => match command {
                Command::Close => return Ok(()),
                Command::GoAway(sent) => {
                    connection.graceful_shutdown();
                    sent.send(()).unwrap_or_default();
                }
            },
            Some(ended) = calls.join_next() => {
                if let Ok(Err(error)) = ended {
                    run.wrong(format!("{error:#}"));
                }
            }
        }
    }
}

async fn call(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    run: Arc<Run>,
    commands: mpsc::UnboundedSender<Command>,
) -> Result<()> {
    let (head, body) = request.into_parts();
    // A client that cancels its call is no deviation.
    let Ok(framed) = read(body).await else { return Ok(()) };
    let body = unframed(&framed)?;
    let method = head.uri.path().trim_start_matches('/');
    let reply = run.answer(Try { method, metadata: &head.headers, body: &body, is_json: false }).await;
    let slot = reply.index.and_then(|index| run.slot(index));
    let Some(entry) = slot.map(|slot| &slot.entry) else { return send(respond, reply, false).await };
    match entry.lost {
        Some(Lost::Connection) => {
            drop(commands.send(Command::Close));
            // The stream stays open until then: its end would be a reset.
            pending::<()>().await;
        }
        Some(Lost::Stream) => respond.send_reset(Reason::INTERNAL_ERROR),
        None if entry.refused => respond.send_reset(Reason::REFUSED_STREAM),
        None if entry.never => drop(poll_fn(|cx| respond.poll_reset(cx)).await),
        None => {
            if entry.goaway {
                let (sent, is_sent) = oneshot::channel();
                drop(commands.send(Command::GoAway(sent)));
                drop(is_sent.await);
            }
            return send(respond, reply, entry.open).await;
        }
    }
    Ok(())
}

async fn read(mut body: RecvStream) -> Result<Bytes, h2::Error> {
    let mut all = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        all.extend_from_slice(&data);
    }
    Ok(all.freeze())
}

/// The one message of a request.
pub(crate) fn unframed(framed: &Bytes) -> Result<Bytes> {
    let (prefix, _) = framed.split_first_chunk::<PREFIX>().context("a request without a message")?;
    let [flag, length @ ..] = *prefix;
    ensure!(flag == 0, "a message is compressed; clients of the script send none");
    let message = framed.slice(PREFIX..);
    ensure!(
        u32::from_be_bytes(length) as usize == message.len(),
        "a request has more or less than one message"
    );
    Ok(message)
}

/// A message with its prefix.
pub(crate) fn framed(flag: u8, message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(flag);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// The trailers that say how a call ended.
pub(crate) fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if status.code() == Code::Ok {
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
    } else if let Err(error) = status.add_header(&mut trailers) {
        drop(error);
        trailers.insert("grpc-status", HeaderValue::from_static("13"));
    }
    trailers
}

async fn send(mut respond: SendResponse<Bytes>, reply: Reply, stays_open: bool) -> Result<()> {
    let mut response = Response::new(());
    *response.headers_mut() = reply.headers;
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let is_error_alone = reply.messages.is_empty() && reply.status.code() != Code::Ok;
    if is_error_alone {
        response.headers_mut().extend(trailers(&reply.status));
    }
    // From here on an error means that the client has gone.
    let Ok(mut stream) = respond.send_response(response, is_error_alone) else { return Ok(()) };
    for message in &reply.messages {
        drop(stream.send_data(framed(0, message), false));
    }
    if stays_open {
        drop(poll_fn(|cx| stream.poll_reset(cx)).await);
    } else if !is_error_alone {
        drop(stream.send_trailers(trailers(&reply.status)));
    }
    Ok(())
}
