//! Information about the store for operators: its location, its durability, and its errors.

#[cfg(feature = "embedded")]
use std::path::{Path, absolute};

use std::time::Duration;

use kith_store::StoreError;
#[cfg(feature = "cluster")]
use kith_store_cluster::{CqlProbe, CqlUnfit, Probe, Unfit};
#[cfg(feature = "embedded")]
use kith_store_sqlite::WriteObstacle;
use serde::Serialize;

use crate::{build_info, start_error::StartError};

/// Where the data is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DataLocation {
    /// The location for display: a path, or a database with its hosts. Contains no credentials.
    pub place: String,
    /// Whether they outlive the node.
    pub(crate) kept: bool,
}

/// The reason why a store fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// The store may recover by itself.
    Temporary(StartError),
    /// The store does not recover until an operator changes something.
    Permanent(StartError),
}

impl StoreFailure {
    /// Describes the error in one line.
    pub fn line(self) -> StartError {
        match self {
            Self::Temporary(line) | Self::Permanent(line) => line,
        }
    }
}

/// The reason why a serving node does not serve relations, members and applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationsUnfit {
    /// The reason that `/readyz` shows.
    pub(crate) reason: &'static str,
    /// The text for display, with what to do.
    pub message: &'static str,
    /// Whether the configuration is the reason, so that it does not change while the node runs.
    pub configured: bool,
}

/// The reason why an embedded store takes no writes.
#[cfg_attr(not(feature = "embedded"), allow(dead_code, reason = "such a build has no embedded store"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreObstacle {
    /// The reason that `/readyz` shows.
    pub(crate) reason: &'static str,
    /// The text for display, with what to do.
    pub(crate) message: String,
    /// Whether it is certain at once; otherwise it may pass by itself.
    pub(crate) certain: bool,
}

/// How much room an embedded store has left.
#[cfg_attr(not(feature = "embedded"), allow(dead_code, reason = "such a build has no embedded store"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreRoom {
    /// Bytes; `None`: the system does not say.
    pub(crate) free: Option<u64>,
    /// Whether the last write found none.
    pub(crate) full: bool,
}

/// Information about an open store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoreInfo {
    data: DataLocation,
    /// The location without the relations' location: the part whose pings decide whether the node serves.
    pinged: String,
    /// Probes the data file.
    #[cfg(feature = "embedded")]
    file: Option<kith_store_sqlite::Probe>,
    #[cfg(feature = "cluster")]
    probe: Option<Probe>,
    /// Probes the relation store.
    #[cfg(feature = "cluster")]
    relations: Option<CqlProbe>,
}

impl StoreInfo {
    /// Describes a data file.
    #[cfg(feature = "embedded")]
    pub(crate) fn file(path: &Path, probe: kith_store_sqlite::Probe) -> Self {
        let path = absolute(path).unwrap_or_else(|_| path.to_owned());
        Self::embedded(path.display().to_string(), Some(probe))
    }

    /// Describes a store in memory.
    #[cfg(feature = "embedded")]
    pub(crate) fn memory() -> Self {
        Self::embedded("memory".to_owned(), None)
    }

    #[cfg(feature = "embedded")]
    fn embedded(place: String, file: Option<kith_store_sqlite::Probe>) -> Self {
        Self {
            pinged: place.clone(),
            data: DataLocation { place, kept: file.is_some() },
            file,
            #[cfg(feature = "cluster")]
            probe: None,
            #[cfg(feature = "cluster")]
            relations: None,
        }
    }

    /// Describes a MongoDB database, with a keyspace for relations if there is one.
    #[cfg(feature = "cluster")]
    pub(crate) fn mongodb(probe: Probe, database: &str, relations: Option<CqlProbe>, keyspace: &str) -> Self {
        let mut place = format!("MongoDB at {} (database {database})", probe.hosts().join(", "));
        let pinged = place.clone();
        if relations.is_some() {
            place.push_str(&format!(" and CQL (keyspace {keyspace})"));
        }
        Self {
            data: DataLocation { place, kept: true },
            pinged,
            #[cfg(feature = "embedded")]
            file: None,
            probe: Some(probe),
            relations,
        }
    }

    /// The name in metrics for the store whose pings decide whether the node serves.
    pub(crate) fn store(&self) -> &'static str {
        #[cfg(feature = "cluster")]
        if self.probe.is_some() {
            return "mongodb";
        }
        "sqlite"
    }

    /// Whether relations have a store of their own.
    pub(crate) fn has_cql(&self) -> bool {
        #[cfg(feature = "cluster")]
        if self.relations.is_some() {
            return true;
        }
        false
    }

    /// Where the store is whose pings decide whether the node serves.
    pub(crate) fn pinged_place(&self) -> &str {
        &self.pinged
    }

    /// Why the data file took no write when it was last asked to.
    pub(crate) fn obstacle(&self) -> Option<StoreObstacle> {
        #[cfg(feature = "embedded")]
        if let Some(obstacle) = self.file.as_ref().and_then(kith_store_sqlite::Probe::obstacle) {
            return Some(of_file(&obstacle, &self.data.place));
        }
        None
    }

    /// How much room the data file has left; `None`: the store is no file.
    pub(crate) fn room(&self) -> Option<StoreRoom> {
        #[cfg(feature = "embedded")]
        if let Some(file) = &self.file {
            return Some(StoreRoom { free: file.free_bytes(), full: file.is_full() });
        }
        None
    }

    /// The reason why relations are not available although the node may serve all other calls. `None`: they
    /// are available. Returns within the limit.
    pub async fn relations_unfit(&self, limit: Duration) -> Option<RelationsUnfit> {
        #[cfg(feature = "cluster")]
        if self.probe.is_some() {
            let Some(relations) = &self.relations else { return Some(NO_RELATIONS) };
            return relations.unfit(limit).await.map(of_relations);
        }
        let _ = limit;
        None
    }

    /// Where the data is.
    pub const fn data(&self) -> &DataLocation {
        &self.data
    }

    /// Why a store that answers cannot be used at all, until an operator changes something. Returns `None`
    /// also if it is unavailable. Asks a cluster's hosts, within a few times the time for a connection.
    pub async fn unfit(&self) -> Option<StartError> {
        #[cfg(feature = "cluster")]
        if let Some(probe) = &self.probe {
            let unfit = probe.unfit().await.filter(|unfit| !unfit.is_temporary());
            return unfit.map(|unfit| StartError::new(unfit_line(&unfit, &self.pinged)));
        }
        None
    }

    /// Why indexes could not be created again. May ask a cluster's hosts, within their limits.
    pub async fn index_failure(&self, error: &StoreError) -> StartError {
        if let StoreError::Internal { .. } = error {
            let place = &self.pinged;
            return StartError::new(format!(
                "{place}: an index is missing and cannot be created, most often because two documents have one value \
                 that must be unique (a user name); remove one of them, then run `kith migrate`"
            ));
        }
        self.failure(error).await.line()
    }

    /// Why the store failed with this error. May ask a cluster's hosts, within their limits.
    pub async fn failure(&self, error: &StoreError) -> StoreFailure {
        let place = &self.data.place;
        #[cfg(feature = "cluster")]
        if self.probe.is_some() {
            return self.mongodb_failure(error).await;
        }
        let full = || {
            format!(
                "there is no room left for {place} (disk, quota or limit on file size); make room, or choose \
                 another data folder (--data-dir)"
            )
        };
        StoreFailure::Permanent(StartError::new(match error {
            StoreError::Full { .. } => full(),
            StoreError::Unavailable { .. } if self.is_full() => full(),
            StoreError::Unavailable { .. } => {
                format!(
                    "{place}: the file cannot be used now; does another program use it, is the disk in order?"
                )
            }
            StoreError::Corrupt { .. } => damaged_line(place),
            StoreError::NewerSchema { .. } => newer_line(place, error),
            other => {
                format!("{place}: {other}; try again with --log debug, and restore a backup if it stays")
            }
        }))
    }

    #[cfg(feature = "embedded")]
    fn is_full(&self) -> bool {
        !kith_store_sqlite::has_room(Path::new(&self.data.place))
    }

    #[cfg(not(feature = "embedded"))]
    fn is_full(&self) -> bool {
        false
    }

    #[cfg(feature = "cluster")]
    async fn mongodb_failure(&self, error: &StoreError) -> StoreFailure {
        let place = &self.pinged;
        let permanent = match error {
            StoreError::Corrupt { .. } => Some(damaged_line(place)),
            StoreError::NewerSchema { .. } => Some(newer_line(place, error)),
            StoreError::HalfRestored => {
                Some(format!("{place}: {error}, so a part is missing; run kith restore again"))
            }
            _ => None,
        };
        if let Some(line) = permanent {
            return StoreFailure::Permanent(StartError::new(line));
        }
        let unfit = match &self.probe {
            Some(probe) => probe.unfit().await,
            None => None,
        };
        let Some(unfit) = unfit else {
            return StoreFailure::Temporary(StartError::new(format!(
                "{place} does not answer as a primary; start it, or correct store.mongodb.uri"
            )));
        };
        let line = StartError::new(unfit_line(&unfit, place));
        if unfit.is_temporary() { StoreFailure::Temporary(line) } else { StoreFailure::Permanent(line) }
    }
}

fn damaged_line(place: &str) -> String {
    format!("{place}: what is stored cannot be read; it is damaged: restore a backup")
}

/// Names both sides' migrations: an operator who believes in damage would restore a backup.
fn newer_line(place: &str, error: &StoreError) -> String {
    let version = build_info::VERSION;
    format!(
        "{place}: {error}; this is kith {version}: start the newer kith, or restore a backup from before the upgrade"
    )
}

#[cfg(feature = "embedded")]
fn of_file(obstacle: &WriteObstacle, place: &str) -> StoreObstacle {
    match obstacle {
        WriteObstacle::Replaced(file) => StoreObstacle {
            reason: "store_replaced",
            message: format!(
                "{} was removed, moved or replaced while the node has it open, so that writes would be lost: they are \
                 refused; stop the node, put the file back or restore a backup, and start it again",
                file.display()
            ),
            certain: true,
        },
        WriteObstacle::Locked => StoreObstacle {
            reason: "store_locked",
            message: format!(
                "another process holds the write lock of {place}: writes wait up to 5s for it and are refused then; end \
                 that process (fuser {place})"
            ),
            certain: false,
        },
    }
}

/// Reported for a cluster without CQL.
#[cfg(feature = "cluster")]
const NO_RELATIONS: RelationsUnfit = RelationsUnfit {
    reason: "relations_unconfigured",
    message: "store.cql.contact_points is not set: calls of relations, members and applications are refused with \
              NOT_CONFIGURED; name some nodes of a Cassandra or ScyllaDB there",
    configured: true,
};

#[cfg(feature = "cluster")]
const fn of_relations(unfit: CqlUnfit) -> RelationsUnfit {
    let message = match unfit {
        CqlUnfit::Unreachable => {
            "CQL, the store of relations, members and applications, does not answer (store.cql.contact_points): what is \
             not in memory is UNAVAILABLE, also messages between users; start it, or correct the addresses"
        }
        CqlUnfit::Credentials => {
            "the store of relations refuses store.cql.user or its password, or wants ones; correct them"
        }
        CqlUnfit::NotMigrated => {
            "the store of relations has not been migrated, or is another one than it was; run `kith migrate`, or \
             correct store.cql.keyspace"
        }
    };
    RelationsUnfit { reason: "relations_away", message, configured: false }
}

#[cfg(feature = "cluster")]
fn unfit_line(unfit: &Unfit, place: &str) -> String {
    match unfit {
        Unfit::UnknownHost { host } => format!(
            "{place}: the name of {host} does not resolve on this machine; correct the host in store.mongodb.uri, or the \
             name service"
        ),
        Unfit::UnknownMembers { host, members } => format!(
            "MongoDB at {host} answers, but the names that its replica set has for members do not resolve on this machine \
             ({}); let them resolve here, change them with rs.reconfig(), or write directConnection=true in \
             store.mongodb.uri for a set of one member",
            members.join(", ")
        ),
        Unfit::NoPrimary { host } => format!(
            "MongoDB at {host} answers, but its replica set has no primary; look at rs.status() there"
        ),
        Unfit::PrimaryUnreachable { host, primary } => format!(
            "MongoDB at {host} answers, but its primary {primary} cannot be connected to from this machine; let it be \
             reached under that name, or change the name with rs.reconfig()"
        ),
        Unfit::TlsRequired { host } => {
            format!("MongoDB at {host} wants TLS and store.mongodb.uri does not; write tls=true there")
        }
        Unfit::NoTls { host } => format!(
            "store.mongodb.uri wants TLS and MongoDB at {host} does not speak it; leave tls=true out, or start MongoDB \
             with TLS"
        ),
        Unfit::TlsFailed { host } => format!(
            "TLS with MongoDB at {host} fails, most often as one side does not trust the certificate of the other; write \
             tlsCAFile, and tlsCertificateKeyFile where MongoDB wants a certificate, in store.mongodb.uri"
        ),
        Unfit::Credentials { host } => format!(
            "MongoDB at {host} refuses the user or password of store.mongodb.uri, or wants ones; correct them, \
             and authSource, the database that knows the user"
        ),
        Unfit::Rights { host } => format!(
            "MongoDB at {host} does not let the user of store.mongodb.uri use the database; grant it readWrite \
             and dbAdmin there"
        ),
        Unfit::ReadOnly { host } => format!(
            "MongoDB at {host} lets the user of store.mongodb.uri read the database and not write it; grant it readWrite \
             and dbAdmin there"
        ),
        Unfit::NoReplicaSet { host } => format!(
            "MongoDB at {host} is not a replica set, which transactions need; start it with --replSet rs0 and \
             run rs.initiate() once"
        ),
        Unfit::OtherReplicaSet { host, found } => format!(
            "MongoDB at {host} belongs to the replica set {found}, not to the one that store.mongodb.uri names; \
             write replicaSet={found} there"
        ),
    }
}
