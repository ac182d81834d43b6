//! Runs nodes and commands as processes.

use std::{
    path::Path,
    process::{Command, Output},
};

use kith_store::{NewUser, Params, Timestamp, UserId, UserName, Write};
use serde_json::Value;
use tonic::transport::Channel;

use crate::spawned::Started;

/// A node over a data folder; killed when dropped.
pub(crate) struct Node {
    pub(crate) process: Started,
    pub(crate) channel: Channel,
}

impl Node {
    /// Starts it and waits until it serves.
    pub(crate) async fn start(data: &Path) -> Self {
        Self::start_with(data, &[]).await
    }

    pub(crate) async fn start_with(data: &Path, flags: &[&str]) -> Self {
        let data = ["--data-dir", data.to_str().unwrap()];
        let process = Started::new(&std::env::temp_dir(), &[&data, flags].concat());
        process.until_ready(|code, _| code == 200);
        let channel = process.channel().await;
        Self { process, channel }
    }
}

/// Makes a command for a data folder.
pub(crate) fn command(data: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    command.args(arguments).arg("--data-dir").arg(data);
    command
}

/// Runs `kith backup` and returns its result.
pub(crate) fn backup(data: &Path, to: &Path) -> Value {
    succeeded(
        "backup",
        &command(data, &["backup", "-o", "json", "--to", to.to_str().unwrap()]).output().unwrap(),
    )
}

/// Runs `kith restore` and returns its result.
pub(crate) fn restore(from: &Path, data: &Path) -> Value {
    succeeded("restore", &command(data, &["restore", "-o", "json", from.to_str().unwrap()]).output().unwrap())
}

#[track_caller]
pub(crate) fn succeeded(event: &str, output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors.lines().count(), 1, "nothing but the security event: {errors}");
    assert!(errors.contains("kith::audit") && errors.contains(&format!("event=\"{event}\"")), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Makes a data folder with `users` users; each has 60 kB.
pub(crate) async fn filled(data: &Path, users: i64) {
    let options = kith_store_sqlite::SqliteOptions::new(data.join("kith.db"));
    let handle = kith_store_sqlite::open(options).await.unwrap();
    let stores = handle.stores();
    stores.migrations.migrate().await.unwrap();
    let text = [("text".to_owned(), "x".repeat(60_000))];
    let writes = (1..=users).map(|number| {
        let user = NewUser {
            id: UserId::new(1_000_000 + number).unwrap(),
            user_name: UserName::new(&format!("filler {number}")).unwrap(),
            nick_name: "".into(),
            email: None,
            phone: None,
            gender: kith_store::Gender::Unspecified,
            age: 0,
            region: "".into(),
            icon: "".into(),
            params: Params::new(text.clone().into()).unwrap(),
            secrets: std::collections::BTreeMap::new(),
        };
        stores.users.create_user(user, Write::at(Timestamp::now()))
    });
    futures::future::try_join_all(writes).await.unwrap();
    handle.close().await;
}
