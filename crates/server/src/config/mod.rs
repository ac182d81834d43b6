//! The configuration, its sources, and its defaults.
//!
//! One loader: defaults, then a file, then the environment (`KITH_LIMITS__IN_FLIGHT=100`), then flags; the
//! later wins, key by key. An unknown key is an error that contains its place. Nothing else in this program
//! reads the environment. Only tests set a field with `serde(skip)`: no operator has a reason to.

mod auth;
mod check;
mod cluster;
mod cql;
mod ephemeral;
mod http;
mod limits;
mod load;
mod observer;
mod plain_links;
mod secret;
mod sections;
mod service_links;
mod show;
mod source_line;
mod termination;
mod text_value;
mod unknown;
mod value_error;
mod ws;

pub use crate::auth::{IssuerConfig, TokenAlgorithm};
pub use auth::{ApiKey, AuthConfig};
pub use cluster::{ClusterConfig, RedisConfig};
pub use cql::CqlConfig;
pub use ephemeral::EphemeralConfig;
pub use http::{CorsConfig, HttpConfig};
pub use kith_service::{
    group::member::{AddedByUsers, MembersConfig},
    presence::PresenceConfig,
    relation::{ListReaders, RelationMode, RelationsConfig},
};
pub use limits::LimitsConfig;
pub use load::{ConfigError, Flag, LoadedConfig, Sources, load};
pub use observer::ObserverConfig;
pub use plain_links::plain_links;
pub use secret::Secret;
pub use sections::{
    Backend, CacheConfig, Config, IdsConfig, LogFormat, Migrate, MongodbConfig, OperationsConfig,
    SecretsConfig, SqliteConfig, StoreConfig, Synchronous, TelemetryConfig, TlsConfig, UsersConfig,
};
pub use show::{ConfigValue, show, values};
pub use termination::termination_log;
pub use ws::WsConfig;
