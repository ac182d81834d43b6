//! The configuration's sections with their defaults, except the limits.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kith_service::{
    application::ApplicationsConfig, change::ChangesConfig, message::MessagesConfig, notice::NoticesConfig,
    receipt::ReceiptsConfig, sequence::SequencesConfig, size,
};
use serde::{Deserialize, Serialize};

use super::{
    ApiKey, AuthConfig, ClusterConfig, CqlConfig, EphemeralConfig, HttpConfig, LimitsConfig, MembersConfig,
    ObserverConfig, PresenceConfig, RedisConfig, RelationsConfig, Secret, WsConfig,
};

/// The configuration of a node.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where gRPC is served. Port 0: any free one.
    pub listen: SocketAddr,
    /// Whether gRPC may be served without TLS to other machines.
    pub insecure_listen: bool,
    /// File with 1 to 8 keys, one a line, of the caller `default`, which may do everything (`kith keys
    /// generate`). Read again while the node runs.
    pub api_key_file: Option<PathBuf>,
    /// A key of the caller `default`. Other programs may see environment variables: prefer the file.
    pub api_key: Option<ApiKey>,
    /// Whether other machines may call without a key, and do everything.
    pub insecure_callers: bool,
    /// Where an embedded node keeps its data; created if it does not exist.
    pub data_dir: PathBuf,
    /// How long calls and writes in progress may take when the node stops.
    #[serde(with = "humantime_serde")]
    pub drain: Duration,
    /// How long a stopping node still serves after it reported NOT_SERVING.
    #[serde(with = "humantime_serde")]
    pub drain_wait: Duration,
    /// File for the line that says why the node could not start or did not end well.
    pub termination_log: Option<PathBuf>,
    /// Where the folder `docs` of this version is, for links in errors.
    pub docs_url: String,
    /// The port for operators.
    pub operations: OperationsConfig,
    /// How TLS is used on the gRPC port.
    pub tls: TlsConfig,
    /// Which callers there are, and how they prove it.
    pub auth: AuthConfig,
    /// Rules for browsers.
    pub http: HttpConfig,
    /// Sockets for browsers and devices.
    pub ws: WsConfig,
    /// The store that keeps the truth.
    pub store: StoreConfig,
    /// Redis, which cluster nodes share.
    pub redis: RedisConfig,
    /// How they follow and reach each other.
    pub cluster: ClusterConfig,
    /// How they look whether what was written is seen.
    pub observer: ObserverConfig,
    /// The tiers before the store.
    pub cache: CacheConfig,
    /// Limits for callers.
    pub limits: LimitsConfig,
    /// Rules for users.
    pub users: UsersConfig,
    /// Follows, friends and blocks.
    pub relations: RelationsConfig,
    /// Rules for group members.
    pub members: MembersConfig,
    /// Rules for presence.
    pub presence: PresenceConfig,
    /// Rules for applications.
    pub applications: ApplicationsConfig,
    /// Rules for messages.
    pub messages: MessagesConfig,
    /// Rules for notices.
    pub notices: NoticesConfig,
    /// Receipts: who has read a message.
    pub receipts: ReceiptsConfig,
    /// Rules for sequences.
    #[serde(skip)]
    pub sequences: SequencesConfig,
    /// Changes that are kept for other systems.
    pub changes: ChangesConfig,
    /// How ids are allocated.
    #[serde(skip)]
    pub ids: IdsConfig,
    /// The node's own keys.
    pub secrets: SecretsConfig,
    /// Logs and traces.
    pub telemetry: TelemetryConfig,
    /// A node for tests.
    pub ephemeral: EphemeralConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7600)),
            insecure_listen: false,
            api_key_file: None,
            api_key: None,
            insecure_callers: false,
            data_dir: PathBuf::from("./data"),
            drain: Duration::from_secs(10),
            drain_wait: Duration::from_secs(2),
            termination_log: None,
            docs_url: "docs/".to_owned(),
            operations: OperationsConfig::default(),
            tls: TlsConfig::default(),
            auth: AuthConfig::default(),
            http: HttpConfig::default(),
            ws: WsConfig::default(),
            store: StoreConfig::default(),
            redis: RedisConfig::default(),
            cluster: ClusterConfig::default(),
            observer: ObserverConfig::default(),
            cache: CacheConfig::default(),
            limits: LimitsConfig::default(),
            users: UsersConfig::default(),
            relations: RelationsConfig::default(),
            members: MembersConfig::default(),
            presence: PresenceConfig::default(),
            applications: ApplicationsConfig::default(),
            messages: MessagesConfig::default(),
            notices: NoticesConfig::default(),
            receipts: ReceiptsConfig::default(),
            sequences: SequencesConfig::default(),
            changes: ChangesConfig::default(),
            ids: IdsConfig::default(),
            secrets: SecretsConfig::default(),
            telemetry: TelemetryConfig::default(),
            ephemeral: EphemeralConfig::default(),
        }
    }
}

/// The port of `/metrics`, `/livez`, `/readyz`, `/openapi.json` and `/console`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperationsConfig {
    /// Whether it is enabled.
    pub enabled: bool,
    /// Its address. Port 0: any free one.
    pub listen: SocketAddr,
}

impl Default for OperationsConfig {
    fn default() -> Self {
        Self { enabled: true, listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7601)) }
    }
}

/// TLS is on when both files are named.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM: the certificate, then those that lead to its root.
    pub cert_file: Option<PathBuf>,
    /// PEM: the private key. Only its owner and group may have read permission.
    pub key_file: Option<PathBuf>,
    /// How often both files are checked; new connections get what has changed.
    #[serde(with = "humantime_serde")]
    pub read_again_every: Duration,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self { cert_file: None, key_file: None, read_again_every: Duration::from_secs(10) }
    }
}

/// Where users and groups are kept.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// The store that keeps the truth.
    pub backend: Backend,
    /// What applies migrations of stored data.
    pub migrate: Migrate,
    /// The embedded store.
    pub sqlite: SqliteConfig,
    /// The store of a cluster.
    pub mongodb: MongodbConfig,
    /// The store in which a cluster keeps relations.
    pub cql: CqlConfig,
}

/// Which store keeps the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// A file of the node itself.
    #[default]
    Sqlite,
    /// A MongoDB replica set.
    Cluster,
}

/// Decides what applies migrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Migrate {
    /// The node, when it starts.
    #[default]
    Auto,
    /// `kith migrate`; the node waits for it.
    Manual,
}

/// The embedded store.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SqliteConfig {
    /// When a write counts as durable.
    pub synchronous: Synchronous,
    /// Connections that read.
    #[serde(skip)]
    pub readers: usize,
    /// Writes that may wait.
    #[serde(skip)]
    pub queue: usize,
}

impl Default for SqliteConfig {
    fn default() -> Self {
        Self { synchronous: Synchronous::default(), readers: 4, queue: 4096 }
    }
}

/// When a write counts as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// When it is on disk: survives a loss of power.
    #[default]
    Full,
    /// When the operating system has it: survives a crash of the process.
    Normal,
}

/// The connection to MongoDB.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MongodbConfig {
    /// `mongodb://...`. A database after the hosts must be `database`, or `admin` for authentication.
    pub uri: Option<Secret>,
    /// A file with the URI.
    pub uri_file: Option<PathBuf>,
    /// Name of the database.
    pub database: String,
    /// Connections to each server.
    pub pool_max: u32,
    /// How long a call may look for a server that can answer it.
    #[serde(with = "humantime_serde")]
    pub server_selection: Duration,
    /// How long a connection may take to open.
    #[serde(skip)]
    pub connect: Duration,
}

impl Default for MongodbConfig {
    fn default() -> Self {
        Self {
            uri: None,
            uri_file: None,
            database: "kith".to_owned(),
            pool_max: 100,
            server_selection: Duration::from_millis(1_500),
            connect: Duration::from_secs(1),
        }
    }
}

/// The tiers before the store.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheConfig {
    /// Bytes of all copies in memory, with their keys and bookkeeping.
    #[serde(with = "size")]
    pub memory_bytes: u64,
    /// How long a value is served before it is read again. With the SQLite store: until it is changed or
    /// evicted.
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,
    /// The same for an absence; no effect with the SQLite store. Absences of relations use `ttl`.
    #[serde(skip)]
    pub negative_ttl: Duration,
    /// Maximum fraction by which a TTL is shortened, at random. 0 to 1.
    #[serde(skip)]
    pub jitter: f64,
    /// After how long a slow load is answered by an expired value, if one may be served.
    #[serde(skip)]
    pub load_soft: Duration,
    /// Maximum duration of a load.
    #[serde(skip)]
    pub load_hard: Duration,
    /// Loads from the store at one time. Above 0.
    pub loads_in_flight: usize,
    /// How long past its TTL a value may be served while the store does not answer.
    #[serde(with = "humantime_serde")]
    pub max_stale: Duration,
    /// After which fraction of its TTL a read value is loaded again. 0 to 1.
    #[serde(skip)]
    pub early_refresh: f64,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            ttl: Duration::from_secs(60),
            negative_ttl: Duration::from_secs(5),
            jitter: 0.1,
            load_soft: Duration::from_millis(100),
            load_hard: Duration::from_secs(2),
            loads_in_flight: 64,
            max_stale: Duration::from_secs(600),
            early_refresh: 0.85,
        }
    }
}

/// Limits of users.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct UsersConfig {
    /// User names that no user can have.
    pub reserved_names: Vec<String>,
    /// How long the name of a deleted user stays reserved.
    #[serde(with = "humantime_serde")]
    pub name_kept: Duration,
    /// Parameters that are secrets: hashed, and never returned.
    pub secret_params: Vec<String>,
    /// Parameters that users who call by a token may set for themselves, and see. All others are for
    /// services.
    pub user_params: Vec<String>,
    /// The same for groups: set by users who may change the group, seen by those who see it.
    pub group_params: Vec<String>,
    /// Checks of one user's secrets in a minute.
    #[serde(skip)]
    pub verify_tries_per_minute: u32,
}

impl Default for UsersConfig {
    fn default() -> Self {
        let reserved =
            ["admin", "administrator", "root", "system", "support", "kith", "service", "moderator"];
        Self {
            reserved_names: reserved.map(str::to_owned).to_vec(),
            name_kept: Duration::from_secs(30 * 24 * 60 * 60),
            secret_params: ["pwd", "sid"].map(str::to_owned).to_vec(),
            user_params: Vec::new(),
            group_params: Vec::new(),
            verify_tries_per_minute: 5,
        }
    }
}

/// Ids that nodes allocate.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct IdsConfig {
    /// Ids that a node allocates from the store at a time; a crash loses at most that many.
    #[serde(skip)]
    pub block: u32,
}

impl Default for IdsConfig {
    fn default() -> Self {
        Self { block: 100 }
    }
}

/// Keys of the node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecretsConfig {
    /// Encrypts invite codes: 32 bytes in base64, the same on every node. Absent: a key in the store.
    pub invite_code_key: Option<Secret>,
    /// A file with the key.
    pub invite_code_key_file: Option<PathBuf>,
}

impl SecretsConfig {
    /// The key for invite codes, decoded. `None` when none is configured.
    #[must_use]
    pub fn invite_code_key_bytes(&self) -> Option<[u8; 32]> {
        let key = self.invite_code_key.as_ref()?;
        STANDARD.decode(key.expose()).ok()?.try_into().ok()
    }
}

/// Logs and traces.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// Which log lines are written: a level, or `target=level` pairs with commas.
    pub log_filter: String,
    /// Whether lines of libraries below `info` may be written too. They may contain keys and stored data.
    pub library_lines: bool,
    /// The form of log lines.
    pub log_format: LogFormat,
    /// Where spans are sent with OTLP over gRPC; absent: they are not sent.
    pub otlp_endpoint: Option<String>,
    /// Name of the service in them.
    pub service_name: String,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            log_filter: "info".to_owned(),
            library_lines: false,
            log_format: LogFormat::default(),
            otlp_endpoint: None,
            service_name: "kith".to_owned(),
        }
    }
}

/// The form that log lines have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
