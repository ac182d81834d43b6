//! Scripts of others, for what is kept beside the tiers: in keys of their own, on connections of their own.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use fred::{
    interfaces::ClientLike,
    types::{Value, config::Config},
};
use tokio::{task::JoinSet, time::timeout};

use super::{
    RedisError, RedisOptions,
    breaker::Breaker,
    failures::meaning,
    frames::Subscription,
    link::Link,
    names::Names,
    scripts::{self, RedisScript},
    server::hold,
};
use crate::remote::SharedError;

/// Calls that go in one round trip; others wait for its answers, so that none waits for long.
const AT_ONCE: usize = 250;

/// One run of a script. Nothing of it becomes a part of the script's text.
#[derive(Clone, Debug)]
pub struct ScriptCall<'a> {
    /// Which.
    pub script: &'a RedisScript,
    /// Its keys, at least one; in a cluster they have to lie in one slot.
    pub keys: Vec<String>,
    /// What it is given besides; any bytes.
    pub arguments: Vec<Bytes>,
}

impl<'a> ScriptCall<'a> {
    /// A run of `script` with these keys and arguments. Texts and vectors of bytes are taken without a copy.
    pub fn new<A: Into<Bytes>>(
        script: &'a RedisScript,
        keys: Vec<String>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self { script, keys, arguments: arguments.into_iter().map(Into::into).collect() }
    }
}

/// What a script returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing, or false.
    Nothing,
    /// A whole number.
    Number(i64),
    /// Bytes.
    Text(Bytes),
    /// Several.
    List(Vec<Reply>),
}

/// Runs scripts of others on whichever server answers, and hears what they publish. Connections are made, and made
/// again, in the background until it is dropped. A call ends within the command timeout, whatever the server does.
pub struct ScriptRunner {
    options: RedisOptions,
    config: Config,
    link: Arc<Link>,
    breaker: Arc<Breaker>,
    _tasks: JoinSet<()>,
}

/// What is published on some channels, from the moment of [`ScriptRunner::hear`] on.
#[derive(Debug)]
pub struct Published(Subscription);

impl ScriptRunner {
    /// Begins to connect, and waits for it within the connect timeout; then it goes on in the background. Needs a
    /// runtime.
    ///
    /// # Errors
    /// When the address or the prefix cannot be used; whether a server answers is not asked.
    pub async fn connect(options: RedisOptions) -> Result<Self, RedisError> {
        let config = options.config()?;
        Names::new(&options.prefix, options.database_id, config.database)?;
        let (link, breaker) = (Arc::new(Link::new(&options, config.clone())), Arc::new(Breaker::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(hold(Arc::clone(&link), Arc::clone(&breaker)));
        // Away is no error here.
        drop(timeout(options.connect_timeout, link.asked()).await);
        Ok(Self { options, config, link, breaker, _tasks: tasks })
    }

    /// What keys and channels have to begin with, within braces.
    #[must_use]
    pub fn tag(&self) -> String {
        self.options.tag()
    }

    /// The database that keys lie in; channels are one for all databases of a server.
    #[must_use]
    pub fn database(&self) -> u8 {
        self.config.database.unwrap_or_default()
    }

    /// Runs each, and answers each in their order; one round trip for 250 of them. They are no unit: others may come
    /// between two of them, and one may fail while others do not. One that failed otherwise than
    /// [`SharedError::Refused`] may have been run.
    pub async fn run(&self, calls: &[ScriptCall<'_>]) -> Vec<Result<Reply, SharedError>> {
        let mut answers = Vec::with_capacity(calls.len());
        for calls in calls.chunks(AT_ONCE) {
            answers.extend(self.run_some(calls).await);
        }
        answers
    }

    /// Begins to hear. When it returns, whatever is published from then on is heard.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn hear(&self, channels: Vec<String>) -> Result<Published, SharedError> {
        let client = self.options.subscriber(self.config.clone());
        let bound = self.options.connect_timeout + self.options.unresponsive;
        Subscription::over(client, bound, channels).await.map(Published)
    }

    async fn run_some(&self, calls: &[ScriptCall<'_>]) -> Vec<Result<Reply, SharedError>> {
        let failed = |why: SharedError| calls.iter().map(|_| Err(why)).collect();
        let Some(trial) = self.breaker.enter() else { return failed(SharedError::Away) };
        if !self.link.client.is_connected() {
            trial.end(false);
            return failed(SharedError::Away);
        }
        let answers = match scripts::run_all(&self.link.client, calls).await {
            Ok(answers) => answers,
            Err(error) => {
                let why = meaning(&error);
                trial.end(!matches!(why, SharedError::Away | SharedError::Timeout));
                return failed(why);
            }
        };
        let read = |answer: Result<Value, fred::error::Error>| match answer {
            Ok(value) => reply(value).ok_or(SharedError::Unexpected),
            Err(error) => Err(meaning(&error)),
        };
        let answers: Vec<_> = answers.into_iter().map(read).collect();
        let away = |answer: &_| matches!(answer, Err(SharedError::Away | SharedError::Timeout));
        trial.end(!answers.iter().any(away));
        answers
    }
}

impl fmt::Debug for ScriptRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptRunner").field("prefix", &self.options.prefix).finish_non_exhaustive()
    }
}

impl Published {
    /// The next message; `None`: some may be lost, and there comes no more.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            let message = self.0.next().await?;
            // What is no text is none of ours.
            if let Ok(bytes) = message.value.convert::<Bytes>() {
                return Some(bytes);
            }
        }
    }
}

fn reply(value: Value) -> Option<Reply> {
    Some(match value {
        Value::Null => Reply::Nothing,
        Value::Integer(number) => Reply::Number(number),
        Value::Array(values) => Reply::List(values.into_iter().map(reply).collect::<Option<_>>()?),
        other => Reply::Text(other.into_bytes()?),
    })
}
