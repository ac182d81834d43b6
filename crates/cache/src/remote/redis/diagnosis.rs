//! Finds out why a server that answers cannot be used, over a separate connection.

use std::io::ErrorKind as IoError;

use fred::{
    clients::Client,
    error::Error,
    interfaces::{ClientLike, ClusterInterface, KeysInterface},
    types::{
        ClusterHash, CustomCommand, Expiration, Value,
        config::{Config, Server, TlsConnector},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{
    RedisShared,
    link::Connection,
    refusal::Refusal,
    scripts::{publish_command, run_text},
};
use crate::api::clock::milliseconds;

/// Every server without TLS answers it, even before authentication.
const PING: &[u8] = b"PING\r\n";
/// Commands on keys, with their further arguments.
const ON_KEYS: [(&str, &str); 24] = [
    ("GET", ""),
    ("MGET", ""),
    ("GETRANGE", "0 1"),
    ("SET", "x"),
    ("SETRANGE", "0 x"),
    ("DEL", ""),
    ("PEXPIRE", "1"),
    ("PERSIST", ""),
    ("PTTL", ""),
    ("HGET", "x"),
    ("HMGET", "x"),
    ("HSET", "x x"),
    ("HDEL", "x"),
    ("HGETALL", ""),
    ("XADD", "* x x"),
    ("XRANGE", "- +"),
    ("XREVRANGE", "+ -"),
    ("ZADD", "1 x"),
    ("ZREM", "x"),
    ("ZCARD", ""),
    ("ZSCORE", "x"),
    ("ZRANGE", "0 1"),
    ("ZRANGEBYLEX", "- +"),
    ("ZRANGEBYSCORE", "0 1"),
];

impl RedisShared {
    /// Why the server cannot be used although it answers; `None`: it can, or there is no answer. Writes one
    /// key that expires after a millisecond. Takes at most a few times the connect timeout.
    pub async fn refusal(&self) -> Option<Refusal> {
        let client = self.options.one_connection(self.config.clone());
        // Covers the connection and its setup; in a cluster and behind sentinels two connections.
        let bound = self.options.connect_timeout * 4;
        let refused = match timeout(bound, Connection::open(&client)).await {
            // Closed when it is dropped.
            Ok(Ok(_connection)) => return self.refused_over(&client).await,
            Ok(Err(error)) => Refusal::of(&error, "HELLO", self.config.database),
            Err(_) => None,
        };
        if refused.is_some() { refused } else { self.other_transport().await }
    }

    /// Why an established connection is refused.
    async fn refused_over(&self, client: &Client) -> Option<Refusal> {
        let index = self.config.database;
        match self.forbidden(client).await {
            Ok(None) => {}
            Ok(forbidden) => return forbidden,
            Err(error) => return Refusal::of(&error, "EVAL", index),
        }
        match self.replicas_of_write(client).await {
            Ok(replicas) => {
                let least = self.options.replicas_min;
                (replicas < i64::from(least)).then_some(Refusal::Replicas(least))
            }
            Err(error) => Refusal::of(&error, "SET", index),
        }
    }

    /// Commands that the user may not run, or the server does not know; in a cluster, from the first primary
    /// that reports some.
    async fn forbidden(&self, client: &Client) -> Result<Option<Refusal>, Error> {
        if !client.is_clustered() {
            return self.forbidden_at(client).await;
        }
        let servers = client.cached_cluster_state().map(|state| state.unique_primary_nodes());
        for server in servers.unwrap_or_default() {
            let forbidden = self.forbidden_at(&client.with_cluster_node(server)).await?;
            if forbidden.is_some() {
                return Ok(forbidden);
            }
        }
        Ok(None)
    }

    async fn forbidden_at<C: ClientLike>(&self, client: &C) -> Result<Option<Refusal>, Error> {
        let answer: Vec<Vec<String>> = run_text(client, &self.scripts.rights, self.needed()).await?;
        let mut answer = answer.into_iter();
        let (mut denied, unknown) = (answer.next().unwrap_or_default(), answer.next().unwrap_or_default());
        denied.sort_unstable();
        denied.dedup();
        Ok(match (denied.is_empty(), unknown.is_empty()) {
            (_, false) => Some(Refusal::Commands { commands: unknown }),
            (false, true) => Some(Refusal::Rights { commands: denied }),
            (true, true) => None,
        })
    }

    /// Every command that nodes send or scripts run, with valid arguments.
    fn needed(&self) -> Vec<String> {
        let key = self.names.write_test().into_string().unwrap_or_default();
        let owner = self.names.owner.as_str_lossy();
        let channel = self.names.self_test(0);
        let mut needed: Vec<_> = ON_KEYS.iter().map(|(name, rest)| format!("{name} {key} {rest}")).collect();
        // Presence has its own tags, which begin with this tag.
        needed.push(format!("HSET {{{}:presence}}:x x x", self.options.tag()));
        needed.push(format!("SET {owner} x"));
        needed.extend([format!("EVAL x 1 {key}"), format!("EVALSHA x 1 {key}")]);
        let is_cluster = self.config.server.is_clustered();
        let (publish, subscribe) =
            (publish_command(is_cluster), if is_cluster { "SSUBSCRIBE" } else { "SUBSCRIBE" });
        needed.extend([format!("{publish} {channel} x"), format!("{subscribe} {channel}")]);
        needed.extend(["TIME", "INFO", "PING", "CLIENT INFO"].map(str::to_owned));
        if self.options.replicas_min > 0 {
            needed.push("WAIT 1 1".to_owned());
        }
        needed
    }

    /// Writes, and returns how many replicas have the write; 0 if none is required.
    async fn replicas_of_write(&self, client: &Client) -> Result<i64, Error> {
        let key = self.names.write_test();
        let slot = ClusterHash::Custom(key.cluster_hash());
        let _: Value = client.set(key, "", Some(Expiration::PX(1)), None, false).await?;
        if self.options.replicas_min == 0 {
            return Ok(0);
        }
        let patience = milliseconds(self.options.unresponsive / 2).max(1).to_string();
        let wait = CustomCommand::new_static("WAIT", slot, false);
        client.custom(wait, vec![self.options.replicas_min.to_string(), patience]).await
    }

    /// Whether the server uses TLS and the address does not, or the reverse: then neither end understands the
    /// other, and the client only reports that it has no connection.
    async fn other_transport(&self) -> Option<Refusal> {
        let server = self.config.server.hosts().into_iter().next()?;
        let first = timeout(self.options.connect_timeout, first_byte(&server)).await.ok()?;
        match first.map_err(|error| error.kind()) {
            Ok(b'+' | b'-') if self.config.tls.is_some() => Some(Refusal::PlainText),
            // A TLS port closes a connection that sends something else.
            Err(IoError::ConnectionReset | IoError::UnexpectedEof) if self.config.tls.is_none() => {
                self.speaks_tls().await.then_some(Refusal::Tls)
            }
            _ => None,
        }
    }

    /// Whether it answers with TLS, even if only with its certificate.
    async fn speaks_tls(&self) -> bool {
        let Ok(connector) = TlsConnector::default_rustls() else { return false };
        let client =
            self.options.one_connection(Config { tls: Some(connector.into()), ..self.config.clone() });
        match timeout(self.options.connect_timeout * 2, Connection::open(&client)).await {
            Ok(Ok(_connection)) => true,
            Ok(Err(error)) => Refusal::of(&error, "HELLO", None).is_some(),
            Err(_) => false,
        }
    }
}

/// The first byte of a server's answer to a request without TLS.
async fn first_byte(server: &Server) -> std::io::Result<u8> {
    let mut stream = TcpStream::connect((&*server.host, server.port)).await?;
    stream.write_all(PING).await?;
    stream.read_u8().await
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_command_of_the_scripts_is_checked() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut found = 0;
        for folder in ["cache/src/remote/redis/lua", "presence/src/redis/lua"] {
            for file in fs::read_dir(crates.join(folder)).unwrap() {
                let text = fs::read_to_string(file.unwrap().path()).unwrap();
                for call in text.split("call('").skip(1) {
                    let name = call.split('\'').next().unwrap();
                    let known = ON_KEYS.iter().any(|(known, _)| *known == name);
                    assert!(known || ["TIME", "INFO"].contains(&name), "{name}");
                    found += 1;
                }
            }
        }
        assert!(found > 50, "found only {found}");
    }
}
