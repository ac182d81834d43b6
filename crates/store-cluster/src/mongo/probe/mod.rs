//! Why a MongoDB does not serve: it is unavailable, its name cannot be reached, or its configuration prevents
//! it.

mod host;
mod members;
mod wire;

use std::{fmt, sync::Arc, time::Duration};

use mongodb::options::ClientOptions;
use tokio::time::{Instant, timeout_at};

use self::host::{Host, HostAnswer};

/// The most hosts that are probed.
const HOSTS_MAX: usize = 3;

/// Why a MongoDB cannot be the store. Host names are those in the connection string and the replica set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The host's name does not resolve.
    UnknownHost {
        /// The host's name.
        host: String,
    },
    /// The host answers, and its replica set's member names do not resolve.
    UnknownMembers {
        /// The host's name.
        host: String,
        /// The members' names.
        members: Vec<String>,
    },
    /// The host answers, and its replica set has no primary.
    NoPrimary {
        /// The host's name.
        host: String,
    },
    /// The host answers, and its replica set's primary cannot be connected to.
    PrimaryUnreachable {
        /// The host's name.
        host: String,
        /// The primary's name.
        primary: String,
    },
    /// The server speaks TLS, and the connection string does not ask for it.
    TlsRequired {
        /// The host's name.
        host: String,
    },
    /// The connection string asks for TLS, and the server does not speak it.
    NoTls {
        /// The host's name.
        host: String,
    },
    /// Both speak TLS and do not agree: most often one side does not trust the other's certificate.
    TlsFailed {
        /// The host's name.
        host: String,
    },
    /// It refuses the user or the password, or wants them.
    Credentials {
        /// The host's name.
        host: String,
    },
    /// The user may not use the database.
    Rights {
        /// The host's name.
        host: String,
    },
    /// The user may read the database and not write it.
    ReadOnly {
        /// The host's name.
        host: String,
    },
    /// It is a server by itself, without transactions.
    NoReplicaSet {
        /// The host's name.
        host: String,
    },
    /// It belongs to a replica set with another name than the connection string says.
    OtherReplicaSet {
        /// The host's name.
        host: String,
        /// The name of its set.
        found: String,
    },
}

impl Unfit {
    /// Whether it may end without a configuration change: names come to resolve, primaries are elected,
    /// certificates change.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        match self {
            Self::UnknownHost { .. }
            | Self::UnknownMembers { .. }
            | Self::NoPrimary { .. }
            | Self::PrimaryUnreachable { .. }
            | Self::TlsFailed { .. } => true,
            Self::TlsRequired { .. }
            | Self::NoTls { .. }
            | Self::Credentials { .. }
            | Self::Rights { .. }
            | Self::ReadOnly { .. }
            | Self::NoReplicaSet { .. }
            | Self::OtherReplicaSet { .. } => false,
        }
    }
}

/// Probes the hosts in a connection string separately. Cheap to clone.
#[derive(Clone)]
pub struct Probe {
    driver: Arc<ClientOptions>,
    database: String,
    limit: Duration,
}

impl Probe {
    /// `limit` bounds each of the few requests to a host.
    pub(super) fn new(driver: &ClientOptions, database: &str, limit: Duration) -> Self {
        Self { driver: Arc::new(driver.clone()), database: database.to_owned(), limit }
    }

    /// Host and port of each server that the connection string names; nothing else in it.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        self.driver.hosts.iter().map(ToString::to_string).collect()
    }

    /// Why the store does not serve; `None`: no reason was found, or no host answers in time. Permanent
    /// reasons come first. Asks the first three hosts at one time, over separate connections, and takes at
    /// most four times the time for a connection: call it before the node serves, and not for every call.
    pub async fn unfit(&self) -> Option<Unfit> {
        let until = Instant::now() + self.limit * 4;
        // Each runs in a separate task: a driver's future is not to be dropped half-way.
        let hosts = self.driver.hosts.iter().take(HOSTS_MAX);
        let tasks: Vec<_> = hosts
            .map(|host| tokio::spawn(Host::new(&self.driver, host, &self.database, self.limit).probe()))
            .collect();
        let mut answers = Vec::with_capacity(tasks.len());
        for task in tasks {
            if let Ok(Ok(answer)) = timeout_at(until, task).await {
                answers.push(answer);
            }
        }
        main_reason(answers)
    }
}

/// A host without a problem serves, regardless of the others.
fn main_reason(answers: Vec<HostAnswer>) -> Option<Unfit> {
    let is_fit = answers.contains(&HostAnswer::Fit);
    let (temporary, permanent): (Vec<Unfit>, Vec<Unfit>) =
        answers.into_iter().filter_map(HostAnswer::unfit).partition(Unfit::is_temporary);
    let temporary = temporary.into_iter().next().filter(|_| !is_fit);
    permanent.into_iter().next().or(temporary)
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("database", &self.database).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_reason_is_returned_first() {
        let host = || "h:1".to_owned();
        let unknown = || HostAnswer::Unfit(Unfit::UnknownHost { host: host() });
        let rights = || HostAnswer::Unfit(Unfit::Rights { host: host() });
        assert_eq!(main_reason(vec![unknown(), rights()]), rights().unfit());
        assert_eq!(main_reason(vec![HostAnswer::Silent, unknown()]), unknown().unfit());
        assert_eq!(main_reason(vec![unknown(), HostAnswer::Fit]), None);
        assert_eq!(main_reason(vec![HostAnswer::Silent]), None);
    }
}
