//! Probes one host.

use std::time::Duration;

use mongodb::{
    Client, Database,
    bson::{Document, doc},
    error::{Error, ErrorKind},
    options::{ClientOptions, ServerAddress, Tls},
};

use super::{
    super::{
        command::{run_read, run_write},
        error::code,
    },
    Unfit, members,
    wire::{self, WireAnswer},
};

const AUTHENTICATION_FAILED: i32 = 18;
const UNAUTHORIZED: i32 = 13;

/// The result when a host is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostAnswer {
    /// It serves, as far as that is known without a write.
    Fit,
    /// It does not answer.
    Silent,
    Unfit(Unfit),
}

impl HostAnswer {
    pub(super) fn unfit(self) -> Option<Unfit> {
        match self {
            Self::Unfit(unfit) => Some(unfit),
            Self::Fit | Self::Silent => None,
        }
    }
}

/// A host to be probed.
pub(super) struct Host {
    address: ServerAddress,
    /// The options for a connection to only this host.
    driver: ClientOptions,
    /// The replica set that the connection string names.
    set: Option<String>,
    /// Whether the other members in its set are used too.
    with_members: bool,
    database: String,
    limit: Duration,
}

impl Host {
    pub(super) fn new(driver: &ClientOptions, host: &ServerAddress, database: &str, limit: Duration) -> Self {
        let with_members = driver.direct_connection != Some(true);
        let mut driver = driver.clone();
        let set = driver.repl_set_name.take();
        driver.hosts = vec![host.clone()];
        driver.direct_connection = Some(true);
        driver.server_selection_timeout = Some(limit);
        let (address, database) = (host.clone(), database.to_owned());
        Self { address, driver, set, with_members, database, limit }
    }

    /// Takes at most four times the limit.
    pub(super) async fn probe(self) -> HostAnswer {
        let Ok(client) = Client::with_options(self.driver.clone()) else { return HostAnswer::Silent };
        let answer = match run_read(&client.database("admin"), doc! { "hello": 1 }).await {
            Ok(hello) => self.check_answering(&hello, &client.database(&self.database)).await,
            Err(error) => match unfit_by_error(&error, &self.name()) {
                Some(unfit) => HostAnswer::Unfit(unfit),
                None => self.check_silent().await,
            },
        };
        client.shutdown().immediate(true).await;
        answer
    }

    fn name(&self) -> String {
        self.address.to_string()
    }

    /// The host answers.
    async fn check_answering(&self, hello: &Document, database: &Database) -> HostAnswer {
        let unfit = match unfit_by_hello(hello, &self.name(), self.set.as_deref()) {
            Some(unfit) => Some(unfit),
            None => match self.check_rights(database).await {
                None if self.with_members => members::unfit(hello, &self.name(), self.limit).await,
                unfit => unfit,
            },
        };
        unfit.map_or(HostAnswer::Fit, HostAnswer::Unfit)
    }

    /// Reads and writes the database; the write matches nothing, so that it changes nothing.
    async fn check_rights(&self, database: &Database) -> Option<Unfit> {
        let host = self.name();
        let read = doc! { "find": "migrations", "limit": 1, "singleBatch": true };
        if let Err(error) = run_read(database, read).await {
            return unfit_by_error(&error, &host);
        }
        let nothing = doc! { "q": { "_id": "", "$expr": false }, "u": { "$set": { "probed": true } } };
        let write = doc! { "update": "migrations", "updates": [nothing] };
        let refused = run_write(database, write).await.err();
        refused.filter(|error| code(error) == Some(UNAUTHORIZED)).map(|_| Unfit::ReadOnly { host })
    }

    /// The host does not answer the driver: checks its name and its protocol.
    async fn check_silent(&self) -> HostAnswer {
        let ServerAddress::Tcp { host: name, port } = &self.address else { return HostAnswer::Silent };
        let host = self.name();
        let unfit = match wire::detect(name, port.unwrap_or(wire::PORT), self.limit).await {
            WireAnswer::UnknownName => Unfit::UnknownHost { host },
            WireAnswer::Tls if self.uses_tls() => Unfit::TlsFailed { host },
            WireAnswer::Tls => Unfit::TlsRequired { host },
            WireAnswer::Other if self.uses_tls() && self.answers_without_tls().await => Unfit::NoTls { host },
            WireAnswer::Unreachable | WireAnswer::Other => return HostAnswer::Silent,
        };
        HostAnswer::Unfit(unfit)
    }

    fn uses_tls(&self) -> bool {
        matches!(self.driver.tls, Some(Tls::Enabled(_)))
    }

    /// Whether it answers without TLS. No credentials are sent over such a connection.
    async fn answers_without_tls(&self) -> bool {
        let mut driver = self.driver.clone();
        driver.tls = Some(Tls::Disabled);
        driver.credential = None;
        let Ok(client) = Client::with_options(driver) else { return false };
        let hello = run_read(&client.database("admin"), doc! { "hello": 1 }).await;
        client.shutdown().immediate(true).await;
        hello.is_ok()
    }
}

/// A sharded cluster's router is no member in a set, and has transactions.
fn unfit_by_hello(hello: &Document, host: &str, set: Option<&str>) -> Option<Unfit> {
    let host = host.to_owned();
    match hello.get_str("setName") {
        Ok(found) if set.is_some_and(|set| set != found) => {
            Some(Unfit::OtherReplicaSet { host, found: found.to_owned() })
        }
        Ok(_) => None,
        Err(_) if hello.get_str("msg").is_ok_and(|message| message == "isdbgrid") => None,
        Err(_) => Some(Unfit::NoReplicaSet { host }),
    }
}

fn unfit_by_error(error: &Error, host: &str) -> Option<Unfit> {
    let host = host.to_owned();
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
    fn lone_server_is_unfit_set_and_router_are_fit() {
        let of = |hello: Document, set: Option<&str>| unfit_by_hello(&hello, "h:1", set);
        assert_eq!(of(doc! { "setName": "rs0" }, Some("rs0")), None);
        assert_eq!(of(doc! { "setName": "rs0" }, None), None);
        assert_eq!(of(doc! { "msg": "isdbgrid" }, None), None);
        let host = || "h:1".to_owned();
        assert_eq!(of(doc! { "isWritablePrimary": true }, None), Some(Unfit::NoReplicaSet { host: host() }));
        let other = Unfit::OtherReplicaSet { host: host(), found: "rs1".to_owned() };
        assert_eq!(of(doc! { "setName": "rs1" }, Some("rs0")), Some(other));
    }
}
