//! Sends messages to a cluster, and reads each on another node at once. The laboratory, which writes the task
//! and judges what is printed, disturbs the cluster meanwhile.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use kith_client::{
    Client, Error,
    proto::message::v1::{
        HistoryRequest, Message, SendMessageRequest, message_service_client::MessageServiceClient,
        send_message_request::To,
    },
};
use serde::Deserialize;
use serde_json::json;
use tonic::{Response, Status};

#[derive(Deserialize)]
struct Task {
    addresses: Vec<String>,
    chats: Vec<Chat>,
    messages: u64,
}

#[derive(Clone, Copy, Deserialize)]
struct Chat {
    from: i64,
    to: i64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let task: Task = serde_json::from_reader(std::io::stdin())?;
    // Messages go to all nodes, and each conversation is read on one.
    let sender = connect(&task.addresses)?;
    let readers: Vec<Client> =
        task.addresses.iter().map(|address| connect(std::slice::from_ref(address))).collect::<Result<_>>()?;
    let chats = task.chats.into_iter().enumerate().map(|(place, chat)| {
        let reader = readers[place % readers.len()].clone();
        run(place, chat, task.messages, sender.clone(), reader)
    });
    try_join_all(chats).await.map(drop)
}

fn connect(addresses: &[String]) -> Result<Client> {
    let builder = addresses.iter().fold(Client::builder(), |builder, address| builder.address(address));
    Ok(builder.connect()?)
}

async fn run(place: usize, chat: Chat, messages: u64, sender: Client, reader: Client) -> Result<()> {
    let session = sender.session().acting_as(chat.from);
    for n in 0..messages {
        let id = format!("m{place}-{n}");
        let send = SendMessageRequest {
            to: Some(To::UserId(chat.to)),
            client_message_id: id.clone(),
            content_type: "text/plain".to_owned(),
            ..SendMessageRequest::default()
        };
        let mut stub = MessageServiceClient::new(session.clone());
        let sent = answered(place, n, async || stub.send_message(send.clone()).await).await;
        let later = reader.resume_session(&session.export_session()).acting_as(chat.from);
        let mut stub = MessageServiceClient::new(later);
        let conversation_id = sent.conversation_id;
        let history = HistoryRequest { conversation_id, limit: 1, ..HistoryRequest::default() };
        let page = answered(place, n, async || stub.history(history.clone()).await).await;
        let is_sent = |last: &Message| last.seq == sent.seq && last.client_message_id == id;
        let read = page.messages.first().is_some_and(is_sent);
        println!("{}", json!({"chat": place, "n": n, "id": id, "seq": sent.seq, "read": read}));
    }
    Ok(())
}

/// Makes a call again until it has an answer.
async fn answered<A>(chat: usize, n: u64, mut call: impl AsyncFnMut() -> Result<Response<A>, Status>) -> A {
    loop {
        match call().await {
            Ok(answer) => return answer.into_inner(),
            Err(status) => {
                println!("{}", json!({"chat": chat, "n": n, "error": Error::from(&status).to_string()}));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
