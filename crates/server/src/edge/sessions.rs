//! `kith-session`: what a client has written and was answered, over all nodes, as one text that nodes merge.

use http::{HeaderMap, HeaderName, HeaderValue};
use kith_cache::{HiddenWrites, Node, Session, TokenError};
use kith_service::rpc::call::CallSession;
use tonic::{Code, Status};

use super::answer;

const NAME: &str = "kith-session";
/// The name of the metadata. In an answer it has one value.
pub(crate) const SESSION: HeaderName = HeaderName::from_static(NAME);
/// Most values of a call: clients send one for each of their last answers that overlapped.
const VALUES_MAX: usize = 4;
/// The most bytes in a value.
const BYTES_MAX: usize = 8 << 10;

/// The session of a call, which its answer continues.
#[derive(Debug)]
pub(super) struct CarriedSession {
    node: Node,
    session: Session,
    /// What other nodes might not see when the call began.
    hidden: HiddenWrites,
}

impl CarriedSession {
    /// The session of a call; `None`: it has none, and its answer gets none.
    pub(super) fn of(headers: &HeaderMap, node: &Node) -> Result<Option<Self>, Box<Status>> {
        let mut session = None;
        let invalid = |why: &str| Box::new(answer::invalid_metadata(NAME, why));
        let mut count = 0;
        for value in headers.get_all(SESSION) {
            for text in value.to_str().map_err(|_| invalid(NOT_ANSWERED))?.split(',') {
                count += 1;
                if count > VALUES_MAX {
                    return Err(invalid("must have at most 4 values"));
                }
                let one = accept(node, text.trim()).map_err(|_| invalid(NOT_ANSWERED))?;
                session.get_or_insert_with(Session::default).join(one);
            }
        }
        Ok(session.map(|session| Self { node: node.clone(), session, hidden: node.hidden_writes() }))
    }

    /// Whether memory has everything that the session demands.
    pub(super) fn is_reached(&self) -> bool {
        self.node.has_reached(self.session.tokens())
    }

    /// Waits a little until the node has everything that the session demands. Returns what reads have to
    /// demand.
    pub(super) async fn reach(&self) -> CallSession {
        let demand = self.node.reach_session(&self.session).await;
        CallSession { demand, ..self.reached() }
    }

    /// What reads have to demand on a node that has reached the session.
    pub(super) fn reached(&self) -> CallSession {
        CallSession { is_carried: !self.session.tokens().is_empty(), demand: None }
    }

    /// Adds the session that covers this answer, unless the outcome of the call is not known. `writes`:
    /// whether it may have changed something. `code`: that of its error.
    pub(super) fn answer(mut self, writes: bool, code: Option<Code>, headers: &mut HeaderMap) {
        let is_unknown = |code| {
            use Code::{Cancelled, DataLoss, DeadlineExceeded, Internal, Unavailable, Unknown};
            matches!(code, Cancelled | DataLoss | DeadlineExceeded | Internal | Unavailable | Unknown)
        };
        if code.is_some_and(is_unknown) {
            return;
        }
        self.node.extend_session(&mut self.session, writes.then_some(self.hidden));
        if let Ok(text) = HeaderValue::try_from(self.session.to_string()) {
            headers.insert(SESSION, text);
        }
    }
}

const NOT_ANSWERED: &str = "must be what answers of this database had";

/// The text of a session that demands what all of these do.
///
/// # Errors
/// If one of them was not answered by a node over this database.
pub(super) fn joined<'a>(
    node: &Node,
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<String, TokenError> {
    let mut session = Session::default();
    for text in texts {
        session.join(accept(node, text)?);
    }
    Ok(session.to_string())
}

fn accept(node: &Node, text: &str) -> Result<Session, TokenError> {
    if text.len() > BYTES_MAX {
        return Err(TokenError::TooLong);
    }
    Session::accept(node.tokens(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (SESSION, HeaderValue::from_str(value).unwrap())).collect()
    }

    fn answered(node: &Node, values: &[&str]) -> String {
        let session = CarriedSession::of(&headers(values), node).unwrap().unwrap();
        let mut answer = HeaderMap::new();
        session.answer(false, None, &mut answer);
        answer[SESSION].to_str().unwrap().to_owned()
    }

    #[test]
    fn call_without_session_gets_none() {
        assert!(CarriedSession::of(&HeaderMap::new(), &Node::local(3)).unwrap().is_none());
    }

    #[test]
    fn repeated_and_listed_values_are_merged() {
        let node = Node::local(3);
        let first = answered(&node, &[""]);
        node.reach(7);
        let second = answered(&node, &[&first]);
        assert_ne!(first, second);
        for values in [vec![&*first, &*second], vec![&*format!("{first}, {second}")], vec![&*second]] {
            let carried = CarriedSession::of(&headers(&values), &node).unwrap().unwrap();
            assert_eq!(carried.session.to_string(), second);
            assert!(carried.is_reached());
        }
    }

    #[test]
    fn session_that_no_node_answered_is_refused() {
        let node = Node::local(3);
        let foreign = answered(&Node::local(3), &[""]);
        for values in
            [vec![&*foreign], vec!["x y"], vec!["", "", "", "", ""], vec![&*"a".repeat(BYTES_MAX + 1)]]
        {
            assert!(CarriedSession::of(&headers(&values), &node).is_err(), "{values:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn node_behind_a_session_is_waited_for() {
        let node = Node::local(3);
        let ahead = node.token_of(5).to_string();
        let carried = CarriedSession::of(&headers(&[&ahead]), &node).unwrap().unwrap();
        assert!(!carried.is_reached());
        assert_eq!(carried.reach().await.demand.unwrap().number, 5);
        node.reach(5);
        assert_eq!(carried.reach().await, CallSession { is_carried: true, demand: None });
    }

    #[tokio::test(start_paused = true)]
    async fn unpublished_write_sends_reads_to_the_store() {
        let node = Node::local(3);
        let before = CarriedSession::of(&headers(&[""]), &node).unwrap().unwrap();
        let read = CarriedSession::of(&headers(&[""]), &node).unwrap().unwrap();
        drop(node.token_without_publish());
        let session = |carried: CarriedSession, writes| {
            let mut answer = HeaderMap::new();
            carried.answer(writes, None, &mut answer);
            CarriedSession::of(&answer, &node).unwrap().unwrap()
        };
        assert!(session(before, true).reach().await.demand.is_some());
        assert!(session(read, false).is_reached());
    }

    #[test]
    fn error_with_unknown_outcome_has_no_session() {
        let node = Node::local(3);
        for (code, is_answered) in [(Code::NotFound, true), (Code::Unavailable, false)] {
            let mut answer = HeaderMap::new();
            let session = CarriedSession::of(&headers(&[""]), &node).unwrap().unwrap();
            session.answer(true, Some(code), &mut answer);
            assert_eq!(answer.contains_key(SESSION), is_answered, "{code:?}");
        }
    }
}
