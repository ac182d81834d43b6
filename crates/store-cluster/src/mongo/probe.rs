//! Whether a MongoDB that does not serve is away, or is there and cannot serve as it is.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use mongodb::{
    Client,
    bson::{Document, doc},
    error::{Error, ErrorKind},
    options::{ClientOptions, ServerAddress},
};
use tokio::time::{Instant, timeout_at};

use super::error::code;

/// Hosts that are asked, out of those that are named.
const HOSTS_MAX: usize = 3;
const AUTHENTICATION_FAILED: i32 = 18;
const UNAUTHORIZED: i32 = 13;

/// Why a MongoDB that answers cannot be the store; waiting does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It refuses the user or the password, or wants ones.
    Credentials {
        /// Which host.
        host: String,
    },
    /// The user may not read and write the database.
    Rights {
        /// Which host.
        host: String,
    },
    /// It is a server by itself, without transactions.
    NoReplicaSet {
        /// Which host.
        host: String,
    },
    /// It belongs to a replica set of another name than the connection string says.
    OtherReplicaSet {
        /// Which host.
        host: String,
        /// The name of its set.
        found: String,
    },
}

/// Asks the hosts of a connection string by themselves. Cheap to clone.
#[derive(Clone)]
pub struct Probe {
    driver: Arc<ClientOptions>,
    database: String,
    limit: Duration,
}

impl Probe {
    /// `limit` bounds the asking of all hosts together.
    pub(super) fn new(driver: &ClientOptions, database: &str, limit: Duration) -> Self {
        Self { driver: Arc::new(driver.clone()), database: database.to_owned(), limit }
    }

    /// Host and port of each server that the connection string names; nothing else of it.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        self.driver.hosts.iter().map(ToString::to_string).collect()
    }

    /// What keeps a server that answers from serving; `None` when there is nothing, or none answers in time.
    /// Opens a connection to each of the first three hosts: ask it before the node serves and not for every call.
    pub async fn unfit(&self) -> Option<Unfit> {
        let until = Instant::now() + self.limit;
        // Tasks of their own: a driver's future is not to be dropped half-way.
        let asked: Vec<_> =
            self.driver.hosts.iter().take(HOSTS_MAX).map(|host| tokio::spawn(self.ask(host))).collect();
        for answer in asked {
            if let Ok(Ok(Some(unfit))) = timeout_at(until, answer).await {
                return Some(unfit);
            }
        }
        None
    }

    /// Whether this host by itself can serve.
    fn ask(&self, host: &ServerAddress) -> impl Future<Output = Option<Unfit>> + use<> {
        let mut driver = ClientOptions::clone(&self.driver);
        let set = driver.repl_set_name.take();
        driver.hosts = vec![host.clone()];
        driver.direct_connection = Some(true);
        driver.server_selection_timeout = Some(self.limit);
        ask(driver, self.database.clone(), host.to_string(), set)
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("database", &self.database).finish_non_exhaustive()
    }
}

async fn ask(driver: ClientOptions, database: String, host: String, set: Option<String>) -> Option<Unfit> {
    let client = Client::with_options(driver).ok()?;
    let hello = client.database("admin").run_command(doc! { "hello": 1 }).await;
    let read = doc! { "find": "migrations", "limit": 1, "singleBatch": true };
    let unfit = match hello {
        Ok(hello) => match of_hello(&hello, &host, set.as_deref()) {
            None => client.database(&database).run_command(read).await.err().and_then(|e| of_error(&e, host)),
            unfit => unfit,
        },
        Err(error) => of_error(&error, host),
    };
    client.shutdown().immediate(true).await;
    unfit
}

/// A router of a sharded cluster is no member of a set, and has transactions.
fn of_hello(hello: &Document, host: &str, set: Option<&str>) -> Option<Unfit> {
    let host = host.to_owned();
    match hello.get_str("setName") {
        Ok(found) if set.is_some_and(|set| set != found) => {
            Some(Unfit::OtherReplicaSet { host, found: found.to_owned() })
        }
        Ok(_) => None,
        Err(_) if hello.get_str("msg").is_ok_and(|said| said == "isdbgrid") => None,
        Err(_) => Some(Unfit::NoReplicaSet { host }),
    }
}

fn of_error(error: &Error, host: String) -> Option<Unfit> {
    match (&*error.kind, code(error)) {
        (ErrorKind::Authentication { .. }, _) | (_, Some(AUTHENTICATION_FAILED)) => {
            Some(Unfit::Credentials { host })
        }
        (_, Some(UNAUTHORIZED)) => Some(Unfit::Rights { host }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_the_set_and_a_router_are_fit_and_a_lone_server_is_not() {
        let of = |hello: Document, set: Option<&str>| of_hello(&hello, "h:1", set);
        assert_eq!(of(doc! { "setName": "rs0" }, Some("rs0")), None);
        assert_eq!(of(doc! { "setName": "rs0" }, None), None);
        assert_eq!(of(doc! { "msg": "isdbgrid" }, None), None);
        let host = || "h:1".to_owned();
        assert_eq!(of(doc! { "isWritablePrimary": true }, None), Some(Unfit::NoReplicaSet { host: host() }));
        let other = Unfit::OtherReplicaSet { host: host(), found: "rs1".to_owned() };
        assert_eq!(of(doc! { "setName": "rs1" }, Some("rs0")), Some(other));
    }
}
