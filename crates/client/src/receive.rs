//! The events of a user, over all streams.

use std::{collections::BTreeMap, mem};

use futures::{Stream, stream};
use kith_proto::message::v1::{
    Position, ReceiveRequest, ReceiveResponse, delivery::What, message_service_client::MessageServiceClient,
};
use tokio::sync::Mutex;
use tonic::Status;

use crate::Client;

/// Most positions of a request. Further conversations are delivered as missed.
const POSITIONS_MAX: usize = 2_000;

/// What a receiver has. Store it in one transaction with the effects of the deliveries: a cursor alone loses
/// messages at a reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Resumes exactly, for 7 days.
    pub cursor: String,
    /// The highest number of each conversation that was handed out, or reported as missed.
    pub positions: BTreeMap<String, i64>,
}

impl State {
    /// The request for what follows.
    fn resume(&self, request: &ReceiveRequest) -> ReceiveRequest {
        let position = |(id, seq): (&String, &i64)| Position { conversation_id: id.clone(), seq: *seq };
        ReceiveRequest {
            cursor: self.cursor.clone(),
            positions: self.positions.iter().take(POSITIONS_MAX).map(position).collect(),
            now: self.cursor.is_empty() && self.positions.is_empty(),
            ..request.clone()
        }
    }

    fn take(&mut self, response: ReceiveResponse) -> Received {
        if !response.cursor.is_empty() {
            self.cursor = response.cursor;
        }
        let mut events: Vec<_> =
            response.deliveries.into_iter().filter_map(|delivery| delivery.what).collect();
        events.retain_mut(|event| self.is_new(event));
        Received { events, state: self.clone() }
    }

    /// Whether an event is to be handed out. Counts it.
    fn is_new(&mut self, event: &mut What) -> bool {
        let (conversation, seq) = match event {
            What::Message(message) => (&message.conversation_id, message.seq),
            What::Missed(missed) => (&missed.conversation_id, missed.to_seq),
            What::Reset(_) => {
                self.cursor.clear();
                return true;
            }
            _ => return true,
        };
        let known = self.positions.entry(conversation.clone()).or_default();
        let before = mem::replace(known, seq.max(*known));
        if let What::Missed(missed) = event {
            missed.from_seq = missed.from_seq.max(before + 1);
        }
        seq > before
    }
}

/// What is handed out at once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Received {
    /// Each message once, in their order. `Missed` messages are not delivered: pull them. At a `Reset` the
    /// stream has lost its place, and begins again by the positions; without positions, list the
    /// conversations.
    pub events: Vec<What>,
    /// To be stored with the effects of the events.
    pub state: State,
}

impl Client {
    /// The events of one user after `state`; with an empty one, those from now on. `request` names user,
    /// device and audiences. Goes on after lost streams and resets. Ends by an error that time does not
    /// change: `NOT_FOUND`, a suspended user, a credential that is refused twice.
    pub fn receive(
        &self,
        request: ReceiveRequest,
        state: State,
    ) -> impl Stream<Item = Result<Received, Status>> + use<> {
        let begin = (self.clone(), request, Mutex::default(), state);
        stream::try_unfold(begin, |(client, request, stream, mut state)| async move {
            loop {
                let stub = MessageServiceClient::new(client.clone());
                let open = || async { stub.clone().receive(state.resume(&request)).await };
                // The stream ends without an error only after a reset.
                if let Some(response) = client.next(&stream, u32::MAX, open).await? {
                    return Ok(Some((state.take(response), (client, request, stream, state))));
                }
            }
        })
    }
}
