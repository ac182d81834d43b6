//! Documents whose answers are given, and take their time.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use async_trait::async_trait;
use kith_store::{ConversationId, MessageKey, NewMessage, StoreError};
use parking_lot::Mutex;

use super::super::documents::{
    DocumentInsert, DocumentSummary, Documents, EarlierSend, Highest, PushOutcome,
};

/// A command, with its document's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Tail,
    Push(i64),
    Make(i64),
    Find,
}

#[derive(Clone, Debug)]
pub(super) enum ScriptedAnswer {
    Tail(Option<DocumentSummary>),
    Pushed(PushOutcome),
    Made(DocumentInsert),
    Found(HashMap<MessageKey, EarlierSend>),
    Failed(StoreError),
}

/// Gives its answers in turn, each after a separate time. Further requests find nothing, in the last answer's
/// time.
#[derive(Debug, Default)]
pub(super) struct Scripted {
    answers: Mutex<VecDeque<(Duration, ScriptedAnswer)>>,
    last: Mutex<Duration>,
    commands: Mutex<Vec<Command>>,
}

impl Scripted {
    pub(super) fn new(answers: impl IntoIterator<Item = (Duration, ScriptedAnswer)>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() }
    }

    pub(super) fn commands(&self) -> Vec<Command> {
        self.commands.lock().clone()
    }

    async fn answer(&self, command: Command) -> Option<ScriptedAnswer> {
        self.commands.lock().push(command);
        let next = self.answers.lock().pop_front();
        if let Some((time, _)) = &next {
            *self.last.lock() = *time;
        }
        let time = *self.last.lock();
        tokio::time::sleep(time).await;
        next.map(|(_, answer)| answer)
    }
}

#[async_trait]
impl Documents for Scripted {
    async fn tail(&self, _log: ConversationId) -> Result<Option<DocumentSummary>, StoreError> {
        match self.answer(Command::Tail).await {
            Some(ScriptedAnswer::Tail(tail)) => Ok(tail),
            Some(ScriptedAnswer::Failed(error)) => Err(error),
            None => Ok(Some(DocumentSummary { document: 0, size: 7, sent: None, highest: None })),
            other => panic!("{other:?} is no answer"),
        }
    }

    async fn push(
        &self,
        _log: ConversationId,
        document: i64,
        _messages: &[&NewMessage],
    ) -> Result<PushOutcome, StoreError> {
        match self.answer(Command::Push(document)).await {
            Some(ScriptedAnswer::Pushed(pushed)) => Ok(pushed),
            Some(ScriptedAnswer::Failed(error)) => Err(error),
            None => Ok(PushOutcome::Unmatched),
            other => panic!("{other:?} is no answer"),
        }
    }

    async fn make(
        &self,
        _log: ConversationId,
        document: i64,
        _messages: &[&NewMessage],
        _before: Highest,
    ) -> Result<DocumentInsert, StoreError> {
        match self.answer(Command::Make(document)).await {
            Some(ScriptedAnswer::Made(made)) => Ok(made),
            Some(ScriptedAnswer::Failed(error)) => Err(error),
            None => Ok(DocumentInsert::Duplicate),
            other => panic!("{other:?} is no answer"),
        }
    }

    async fn find_sent(
        &self,
        _log: ConversationId,
        _keys: &[MessageKey],
    ) -> Result<HashMap<MessageKey, EarlierSend>, StoreError> {
        match self.answer(Command::Find).await {
            Some(ScriptedAnswer::Found(found)) => Ok(found),
            Some(ScriptedAnswer::Failed(error)) => Err(error),
            None => Ok(HashMap::new()),
            other => panic!("{other:?} is no answer"),
        }
    }
}
