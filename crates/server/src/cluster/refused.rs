//! The reasons for which Redis cannot be used although it answers, as texts for operators.

#[cfg(feature = "cluster")]
use kith_cache::remote::redis::Refusal;

/// The reason why Redis cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisRefused {
    /// The text, with what to do. Contains no credentials, and only the first word of Redis' answer.
    pub line: String,
    /// Whether it is permanent until Redis or the configuration is changed.
    pub(crate) lasts: bool,
}

/// The cause, and what to do.
#[cfg(feature = "cluster")]
pub(super) fn line(refusal: &Refusal, prefix: &str) -> String {
    match refusal {
        Refusal::Credentials { code } => format!(
            "Redis answers {code}: it refuses the user or password of redis.url, or wants ones; correct them (special \
             characters as %XX)"
        ),
        Refusal::Rights { commands } => format!(
            "Redis answers NOPERM: the user of redis.url may not run {} on the keys and channels that it needs; grant \
             ~{{{prefix}:* &{{{prefix}:* +@read +@write +@pubsub +@scripting +@connection -@dangerous +info +time +wait",
            commands.join(", ")
        ),
        Refusal::Commands { commands } => format!(
            "Redis does not know the command {}: it is renamed there, or Redis is older than 7; nodes need it under its \
             own name",
            if commands.is_empty() { "that was sent".to_owned() } else { commands.join(", ") }
        ),
        Refusal::Index(index) => {
            format!("Redis has no database {index}; correct the number at the end of redis.url, or leave it out")
        }
        Refusal::PlainText => {
            "Redis speaks no TLS at the address of redis.url; write redis:// in place of rediss://, or name its \
             port for TLS"
                .to_owned()
        }
        Refusal::Tls => {
            "Redis speaks TLS at the address of redis.url; write rediss:// in place of redis://".to_owned()
        }
        Refusal::Certificate => {
            "the certificate of Redis is not trusted, or is not for the host of redis.url; name the authority that \
             signed it with redis.ca_file"
                .to_owned()
        }
        Refusal::NoCluster => {
            "Redis is no member of a cluster; write redis:// in place of redis-cluster:// in redis.url".to_owned()
        }
        Refusal::Protected => {
            "Redis answers DENIED: it is in protected mode and takes calls from its own machine alone; give it a \
             password or a bind address"
                .to_owned()
        }
        Refusal::Connections => {
            "Redis has as many connections as it takes; raise its maxclients, or end other clients".to_owned()
        }
        Refusal::Writes { code } => format!(
            "Redis answers {code}: it takes no writes now (OOM: no memory, MISCONF: no disk, READONLY: a replica, \
             LOADING: it starts)"
        ),
        Refusal::Replicas(least) => {
            format!("fewer than {least} replicas (redis.replicas_min) have what is written to Redis")
        }
    }
}
