//! Nodes that each have their own data file, and faults in it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::wait;
use kith_proto::{
    r#type::v1::{Consistency, consistency},
    user::v1::{CreateUserRequest, GetUserRequest, User, user_service_client::UserServiceClient},
};
use tonic::Code;

use crate::{
    faults::{Node, Site},
    scrape,
};

/// How long a node may take until it serves.
const SERVES_WITHIN: Duration = Duration::from_secs(60);
const TEN_DAYS: Duration = Duration::from_secs(10 * 24 * 3_600);
/// Enough users to fill most of a data file.
const USERS: i64 = 300;
/// More users than fit below the limit.
const TOO_MANY: i64 = 5_000;
/// The limit in blocks, which are 512 or 1024 bytes depending on the shell: 2 MiB, or 4 MiB.
const SMALL: &str = "ulimit -f 4096 &&";
const PAGE: u64 = 4_096;
/// How many pages are damaged, at the file's end.
const DAMAGED: u64 = 30;

/// A fault in all nodes, which have no cluster then.
#[derive(Clone, Copy, Debug)]
pub(super) enum EmbeddedFault {
    /// Their files have a low size limit.
    NearlyFull,
    /// Like `NearlyFull`, and the files are filled.
    Full,
    /// Pages in their files are overwritten, and read.
    Damaged,
    /// Their certificates end in ten days.
    CertificateEndsSoon,
}

impl EmbeddedFault {
    /// Starts the nodes again, and returns once the fault is in effect.
    pub(super) async fn inject(self, site: &mut Site) -> Result<()> {
        for member in &mut site.members {
            let node = &mut member.node;
            node.end().await?;
            match self {
                Self::NearlyFull => start(node, SMALL, &[]).await?,
                Self::Full => {
                    start(node, SMALL, &[]).await?;
                    fill(node).await?;
                }
                Self::Damaged => damage(node).await?,
                Self::CertificateEndsSoon => {
                    write_certificate(node.folder())?;
                    start(node, "", &["tls.cert_file=cert.pem", "tls.key_file=key.pem"]).await?;
                }
            }
        }
        Ok(())
    }
}

/// Does not wait for the node's health, which needs TLS if the node has a certificate.
async fn start(node: &mut Node, before: &str, settings: &[&str]) -> Result<()> {
    node.run_embedded(before, settings)?;
    let operations = node.operations();
    wait::until("a node does not serve", SERVES_WITHIN, async || {
        node.ensure_alive()?;
        let metrics = scrape::metrics(operations).await;
        Ok(metrics.is_ok_and(|text| text.lines().any(|line| line == "kith_serving 1")))
    })
    .await
}

async fn create(node: &Node, user_id: i64) -> Result<(), tonic::Status> {
    let params = BTreeMap::from([("text".to_owned(), "x".repeat(2_000))]);
    let user = User { user_id, user_name: format!("user {user_id}"), params, ..User::default() };
    let request = CreateUserRequest { user: Some(user), ..CreateUserRequest::default() };
    UserServiceClient::new(node.channel()).create_user(request).await.map(drop)
}

async fn fill(node: &Node) -> Result<()> {
    for user_id in 1..TOO_MANY {
        match create(node, user_id).await {
            Ok(()) => {}
            Err(status) if status.code() == Code::ResourceExhausted => return Ok(()),
            Err(status) => return Err(status.into()),
        }
    }
    anyhow::bail!("the limit on file size was not reached")
}

async fn damage(node: &mut Node) -> Result<()> {
    start(node, "", &[]).await?;
    for user_id in 1..=USERS {
        create(node, user_id).await?;
    }
    node.end().await?;
    let path = node.folder().join("data/kith.db");
    let pages = fs::metadata(&path)?.len() / PAGE;
    let file = fs::OpenOptions::new().write(true).open(&path)?;
    for page in pages.saturating_sub(DAMAGED)..pages {
        file.write_all_at(&[0xa5; 4_096], page * PAGE)?;
    }
    start(node, "", &[]).await?;
    let mut damaged = 0;
    for user_id in 1..=USERS {
        let consistency = Some(Consistency { level: Some(consistency::Level::Strong(true)) });
        let read =
            UserServiceClient::new(node.channel()).get_user(GetUserRequest { user_id, consistency }).await;
        damaged += usize::from(read.is_err_and(|status| status.code() == Code::DataLoss));
    }
    ensure!(damaged > 0, "no damaged page was read");
    Ok(())
}

/// A certificate that ends in ten days, and its key.
fn write_certificate(folder: &Path) -> Result<()> {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?;
    let end = humantime::format_rfc3339_seconds(SystemTime::now() + TEN_DAYS).to_string();
    let part = |at: std::ops::Range<usize>| end.get(at).context("a date");
    params.not_after =
        rcgen::date_time_ymd(part(0..4)?.parse()?, part(5..7)?.parse()?, part(8..10)?.parse()?);
    let key = rcgen::KeyPair::generate()?;
    fs::write(folder.join("cert.pem"), params.self_signed(&key)?.pem())?;
    fs::write(folder.join("key.pem"), key.serialize_pem())?;
    fs::set_permissions(folder.join("key.pem"), fs::Permissions::from_mode(0o600))?;
    Ok(())
}
