//! New message streams, as tests read them.

use std::{collections::VecDeque, time::Duration};

use kith_proto::message::v1::{
    delivery::What, message_service_client::MessageServiceClient, note::What as Noted, *,
};
use tonic::{Status, Streaming, transport::Channel};

use crate::node::{TestNode, principal};

/// Twice the time until an inbox is renewed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user's stream, and the last cursor that it got.
#[derive(Debug)]
pub struct Stream {
    stream: Streaming<ReceiveResponse>,
    waiting: VecDeque<What>,
    pub cursor: String,
}

pub fn now() -> ReceiveRequest {
    ReceiveRequest { now: true, ..Default::default() }
}

pub fn after(cursor: &str) -> ReceiveRequest {
    ReceiveRequest { cursor: cursor.to_owned(), ..Default::default() }
}

/// Makes a request with a client's positions in each conversation.
pub fn has(positions: &[(&str, i64)]) -> ReceiveRequest {
    let position = |(id, seq): &(&str, i64)| Position { conversation_id: (*id).to_owned(), seq: *seq };
    ReceiveRequest { positions: positions.iter().map(position).collect(), ..Default::default() }
}

pub async fn open(node: &TestNode, by: i64, request: ReceiveRequest) -> Result<Stream, Status> {
    Stream::over(node.messages(), by, request).await
}

/// Opens a stream that is live and brings everything from now on.
pub async fn live(node: &TestNode, by: i64) -> Stream {
    let mut stream = open(node, by, now()).await.unwrap();
    assert_eq!(stream.until_live().await, []);
    stream
}

impl Stream {
    pub async fn over(
        mut messages: MessageServiceClient<Channel>,
        by: i64,
        request: ReceiveRequest,
    ) -> Result<Self, Status> {
        Ok(Self::new(messages.receive(principal(by, request)).await?.into_inner()))
    }

    pub fn new(stream: Streaming<ReceiveResponse>) -> Self {
        Self { stream, waiting: VecDeque::new(), cursor: String::new() }
    }

    /// Returns the next response, with or without a cursor; `None`: the stream has ended.
    pub async fn response(&mut self) -> Result<Option<ReceiveResponse>, Status> {
        let response =
            tokio::time::timeout(PATIENCE, self.stream.message()).await.expect("it comes in time")?;
        if let Some(response) = &response {
            assert!(!response.deliveries.is_empty(), "a response has at least one delivery");
            if !response.cursor.is_empty() {
                self.cursor.clone_from(&response.cursor);
            }
        }
        Ok(response)
    }

    /// Returns the next delivery. The cursor may belong to later deliveries that came with it.
    pub async fn next(&mut self) -> What {
        while self.waiting.is_empty() {
            let response = self.response().await.unwrap().expect("the stream goes on");
            self.waiting.extend(response.deliveries.into_iter().map(|delivery| delivery.what.unwrap()));
        }
        self.waiting.pop_front().unwrap()
    }

    /// Returns everything that comes before the stream is live.
    pub async fn until_live(&mut self) -> Vec<What> {
        let mut before = Vec::new();
        loop {
            match self.next().await {
                What::Live(_) => return before,
                other => before.push(other),
            }
        }
    }

    /// Returns the next delivery, which is a message.
    pub async fn message(&mut self) -> Message {
        match self.next().await {
            What::Message(message) => message,
            other => panic!("not a message: {other:?}"),
        }
    }

    /// Returns the next messages' conversations and numbers.
    pub async fn places(&mut self, count: usize) -> Vec<(String, i64)> {
        let mut places = Vec::with_capacity(count);
        for _ in 0..count {
            let message = self.message().await;
            places.push((message.conversation_id, message.seq));
        }
        places
    }

    /// Returns the numbers of the next messages, which belong to one conversation.
    pub async fn seqs(&mut self, id: &str, count: usize) -> Vec<i64> {
        let places = self.places(count).await;
        assert!(places.iter().all(|(of, _)| of == id), "{places:?}");
        places.into_iter().map(|(_, seq)| seq).collect()
    }

    /// Returns the numbers of a conversation's next messages. Notes and signals are ignored.
    pub async fn seqs_of(&mut self, id: &str, count: usize) -> Vec<i64> {
        let mut seqs = Vec::with_capacity(count);
        while seqs.len() < count {
            match self.next().await {
                What::Message(message) if message.conversation_id == id => seqs.push(message.seq),
                What::Note(_) | What::Signal(_) | What::Live(_) => {}
                other => panic!("after {seqs:?}: {other:?}"),
            }
        }
        seqs
    }

    /// Returns the next delivery, which is a note.
    pub async fn note(&mut self) -> Noted {
        match self.next().await {
            What::Note(note) => note.what.unwrap(),
            other => panic!("not a note: {other:?}"),
        }
    }

    /// Returns the next delivery, which is a signal.
    pub async fn signal(&mut self) -> Signal {
        match self.next().await {
            What::Signal(signal) => signal,
            other => panic!("not a signal: {other:?}"),
        }
    }

    /// Checks that the stream is reset next, and ends.
    pub async fn assert_reset(&mut self) {
        assert_eq!(self.next().await, What::Reset(Reset {}));
        assert_eq!(self.response().await.unwrap(), None);
    }
}

/// Makes a gap in a conversation from its numbers.
pub fn missed(id: &str, from_seq: i64, to_seq: i64) -> What {
    What::Missed(Missed { conversation_id: id.to_owned(), from_seq, to_seq })
}

pub async fn send_signal(
    node: &TestNode,
    by: i64,
    conversation_id: &str,
    kind: SignalKind,
) -> Result<SendSignalResponse, Status> {
    let request = SendSignalRequest {
        conversation_id: conversation_id.to_owned(),
        kind: kind.into(),
        ..Default::default()
    };
    Ok(node.messages().send_signal(principal(by, request)).await?.into_inner())
}
