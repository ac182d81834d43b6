//! What is sent of a request.

use bytes::Bytes;
use kith_proto::{
    CallRule,
    message::v1::{BatchSendRequest, EraseUserMessagesRequest},
};
use prost::{Message as _, encoding::string};

/// Flag and length before a message.
const PREFIX: usize = 5;

/// The request in the form in which all tries send it: a write without an id gets one.
pub(crate) fn frozen(path: &str, rule: &mut CallRule, framed: Bytes) -> Bytes {
    // What is compressed stays as it is.
    if framed.len() < PREFIX || framed[0] != 0 {
        return framed;
    }
    let (mut id, mut message) = (Vec::new(), framed.slice(PREFIX..));
    if let Some(number) = rule.id {
        // Of two values of a field the later counts: an id that the caller has set.
        string::encode(number, &new_id(), &mut id);
    } else if path.ends_with("/BatchSend")
        && let Ok(mut batch) = BatchSendRequest::decode(message.clone())
    {
        let unnamed = batch.messages.iter_mut().filter(|message| message.client_message_id.is_empty());
        unnamed.for_each(|message| message.client_message_id = new_id());
        message = batch.encode_to_vec().into();
    } else if path.ends_with("/EraseUserMessages") {
        let request = EraseUserMessagesRequest::decode(message.clone());
        rule.is_repeatable = request.is_ok_and(|request| !request.again);
        return framed;
    } else {
        return framed;
    }
    let length = u32::try_from(id.len() + message.len()).unwrap_or(u32::MAX).to_be_bytes();
    let parts: [&[u8]; 4] = [&[0], &length, &id, &message];
    parts.concat().into()
}

fn new_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[cfg(test)]
mod tests {
    use kith_proto::relation::v1::FollowRequest;

    use super::*;

    const FOLLOW: &str = "/kith.relation.v1.RelationService/Follow";

    /// What is sent for a request, and whether it may be sent again.
    fn sent<M: prost::Message + Default>(path: &str, request: &M) -> (M, bool) {
        let (message, mut rule) = (request.encode_to_vec(), CallRule::of(path));
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let parts: [&[u8]; 3] = [&[0], &length, &message];
        let sent = frozen(path, &mut rule, parts.concat().into());
        assert_eq!(sent[1..PREFIX], u32::try_from(sent.len() - PREFIX).unwrap().to_be_bytes());
        (M::decode(sent.slice(PREFIX..)).unwrap(), rule.is_repeatable)
    }

    #[test]
    fn write_without_an_id_gets_one() {
        let request = FollowRequest { user_id: 7, target_id: 8, ..Default::default() };
        let (made, is_repeatable) = sent(FOLLOW, &request);
        assert_eq!((made.target_id, made.request_id.len(), is_repeatable), (8, 32, true));
        let named = FollowRequest { request_id: "mine".to_owned(), ..request };
        assert_eq!(sent(FOLLOW, &named), (named, true));
    }

    #[test]
    fn batch_gets_an_id_for_each_message() {
        let batch = BatchSendRequest { messages: vec![Default::default(); 2] };
        let (made, is_repeatable) = sent("/kith.message.v1.MessageService/BatchSend", &batch);
        assert!(made.messages.iter().all(|message| message.client_message_id.len() == 32) && is_repeatable);
    }

    #[test]
    fn erasure_that_starts_again_is_sent_once() {
        let path = "/kith.message.v1.MessageService/EraseUserMessages";
        for again in [false, true] {
            let request = EraseUserMessagesRequest { user_id: 7, again };
            assert_eq!(sent(path, &request), (request, !again));
        }
    }
}
