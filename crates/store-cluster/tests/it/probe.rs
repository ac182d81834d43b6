//! Tests what the probe says about a separate MongoDB: with TLS, and with users.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use kith_store_cluster::{MongoOptions, Unfit, connect};
use mongodb::{
    Client,
    bson::{Document, doc},
    options::ClientOptions,
};

const BOUND: Duration = Duration::from_secs(60);
const PORT_TRIES: usize = 3;
const LOG: &str = "mongod.log";

/// A mongod in a separate folder; killed when dropped.
struct Mongod {
    process: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Mongod {
    /// `arguments` may name files in the folder, which is given. Another program may take the free port
    /// before it does: then it ends, and the next try has another port.
    async fn start(folder: tempfile::TempDir, arguments: &[&str]) -> Self {
        let mut tries = PORT_TRIES;
        loop {
            tries -= 1;
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut process = Self::spawn(folder.path(), port, arguments);
            if listens(&mut process, folder.path()).await {
                return Self { process, port, folder };
            }
            assert!(tries > 0, "mongod ends: {}", fs::read_to_string(folder.path().join(LOG)).unwrap());
        }
    }

    #[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
    fn spawn(folder: &Path, port: u16, arguments: &[&str]) -> Child {
        let program = std::env::var("KITH_TEST_MONGOD").expect("KITH_TEST_MONGOD names a mongod");
        let mut command = Command::new(program);
        command.args(["--replSet", "rs0", "--bind_ip", "127.0.0.1", "--wiredTigerCacheSizeGB=0.25"]);
        command.args(["--port", &port.to_string(), "--dbpath"]).arg(folder).args(arguments);
        let log = fs::File::create(folder.join(LOG)).unwrap();
        command.current_dir(folder).stdout(log).spawn().unwrap()
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns what keeps it from serving the database `kith`, asked until it is something else than that it
    /// starts.
    async fn unfit(&self, user: &str, query: &str) -> Option<Unfit> {
        let uri = format!("mongodb://{user}{}/?{query}", self.host());
        let handle = connect(MongoOptions::new(uri, "kith")).await.unwrap();
        let begun = Instant::now();
        loop {
            let unfit = handle.probe().unfit().await;
            let starts = matches!(unfit, None | Some(Unfit::NoPrimary { .. } | Unfit::NoReplicaSet { .. }));
            if !starts || begun.elapsed() > BOUND {
                return unfit;
            }
        }
    }

    /// Runs it on this server until it succeeds: the server may still start.
    async fn run(&self, user: &str, database: &str, command: Document) {
        let uri = format!("mongodb://{user}{}/?directConnection=true", self.host());
        let mut options = ClientOptions::parse(uri).await.unwrap();
        options.server_selection_timeout = Some(Duration::from_secs(2));
        let client = Client::with_options(options).unwrap();
        let begun = Instant::now();
        while let Err(error) = client.database(database).run_command(command.clone()).await {
            assert!(begun.elapsed() < BOUND, "{error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Waits until the server says that it accepts connections; false: it has ended. Asking the port would not
/// do: another program may answer there.
async fn listens(process: &mut Child, folder: &Path) -> bool {
    let begun = Instant::now();
    while !fs::read_to_string(folder.join(LOG)).unwrap().contains("Waiting for connections") {
        if process.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(begun.elapsed() < BOUND, "mongod does not listen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    true
}

impl Drop for Mongod {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A certificate for the tests' address with its key, in one file as mongod wants it.
fn certificate(folder: &tempfile::TempDir) -> PathBuf {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let path = folder.path().join("mongod.pem");
    fs::write(&path, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
    path
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn tls_on_one_side_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let pem = certificate(&folder);
    let pem = pem.to_str().unwrap();
    let tls = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", pem, "--tlsCAFile", pem];
    let mongod = Mongod::start(folder, &tls).await;
    let host = mongod.host();
    assert_eq!(mongod.unfit("", "replicaSet=rs0").await, Some(Unfit::TlsRequired { host: host.clone() }));
    assert_eq!(mongod.unfit("", "replicaSet=rs0&tls=true").await, Some(Unfit::TlsFailed { host }));
    assert!(mongod.folder.path().exists());
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn user_who_may_only_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "a".repeat(64)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let mongod = Mongod::start(folder, &["--auth", "--keyFile", key.to_str().unwrap()]).await;
    let members = vec![doc! { "_id": 0, "host": mongod.host() }];
    mongod.run("", "admin", doc! { "replSetInitiate": { "_id": "rs0", "members": members } }).await;
    mongod.run("", "admin", doc! { "createUser": "root", "pwd": "sesame", "roles": ["root"] }).await;
    for (name, role) in [("reader", "read"), ("writer", "readWrite")] {
        let roles = vec![doc! { "role": role, "db": "kith" }];
        let create = doc! { "createUser": name, "pwd": "sesame", "roles": roles };
        mongod.run("root:sesame@", "admin", create).await;
    }
    let other = doc! { "createUser": "other", "pwd": "sesame", "roles": [{ "role": "read", "db": "shop" }] };
    mongod.run("root:sesame@", "admin", other).await;
    let host = mongod.host();
    let unfit = |user: &'static str| mongod.unfit(user, "replicaSet=rs0");
    assert_eq!(unfit("reader:sesame@").await, Some(Unfit::ReadOnly { host: host.clone() }));
    assert_eq!(unfit("other:sesame@").await, Some(Unfit::Rights { host: host.clone() }));
    assert_eq!(unfit("reader:wrong@").await, Some(Unfit::Credentials { host }));
    let uri = format!("mongodb://writer:sesame@{}/?replicaSet=rs0", mongod.host());
    assert_eq!(connect(MongoOptions::new(uri, "kith")).await.unwrap().probe().unfit().await, None);
}
