//! The seed for a node for tests: users and groups from a JSON Lines file.

use std::{fs, path::Path};

use kith_proto::{
    group::v1::{CreateGroupRequest, group_service_client::GroupServiceClient},
    user::v1::{CreateUserRequest, user_service_client::UserServiceClient},
};
use kith_service::rpc::call::Call;
use kith_store::Stores;
use tokio::time::Instant;
use tonic::{Request, Status};

use crate::{
    admin::NodeStatus,
    config::Config,
    edge::{Edge, Routes},
    health::Reporter,
    jsonl::{
        file_form::FileForm,
        record::{Record, parse},
    },
    node::services,
    start_error::StartError,
};

/// A seed is read as a whole; larger data sets are for `kith import`.
const BYTES_MAX: u64 = 64 << 20;

/// Records with their line numbers, from 1.
#[derive(Debug)]
pub(crate) struct SeedRecords {
    place: String,
    records: Vec<(usize, Record)>,
}

impl SeedRecords {
    /// Reads a file. Empty lines are ignored.
    pub(crate) fn read(path: &Path) -> Result<Self, StartError> {
        let place = path.display().to_string();
        let cannot = |why: &dyn std::fmt::Display| StartError::new(format!("{place}: {why}"));
        let size = fs::metadata(path).map_err(|error| cannot(&error))?.len();
        if size > BYTES_MAX {
            return Err(cannot(&format!("a seed has at most {BYTES_MAX} bytes; use kith import")));
        }
        let text = fs::read(path).map_err(|error| cannot(&error))?;
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&text);
        if let Some(form) = FileForm::of(text) {
            return Err(cannot(&format!("is {}; make JSON Lines of it with {}", form.is, form.filter)));
        }
        let lines = text.split(|byte| *byte == b'\n').enumerate();
        let lines = lines.filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace));
        let records = lines.map(|(at, line)| match parse(line) {
            Ok(record) => Ok((at + 1, record)),
            Err(why) => Err(StartError::new(format!("{place}:{}: {why}", at + 1))),
        });
        let records = records.collect::<Result<_, _>>()?;
        Ok(Self { place, records })
    }

    /// Creates the records in their order, so that allocated ids are the same each time. Uses temporary
    /// caches.
    pub(crate) async fn apply(self, stores: &Stores, config: &Config) -> Result<(), StartError> {
        // The health of this temporary node is never read.
        let edge = Edge::new(Routes::default(), &config.limits);
        let node_status = NodeStatus::new(Reporter::new(), edge.load(), stores);
        let services = services::services(stores, config, node_status).await;
        let services = services.map_err(|error| StartError::new(format!("{}: {error}", self.place)))?;
        let routes = services.routes;
        for (line, record) in self.records {
            let created = create(&routes, record, config).await;
            created
                .map_err(|status| StartError::new(format!("{}:{line}: {}", self.place, status.message())))?;
        }
        Ok(())
    }
}

async fn create(routes: &Routes, record: Record, config: &Config) -> Result<(), Status> {
    match record {
        Record::User(user) => {
            let request = CreateUserRequest { user: Some(user), ..Default::default() };
            let mut users = UserServiceClient::new(routes.clone());
            users.create_user(as_service(request, config)).await?;
        }
        Record::Group(group) => {
            let request = CreateGroupRequest { group: Some(group), ..Default::default() };
            let mut groups = GroupServiceClient::new(routes.clone());
            groups.create_group(as_service(request, config)).await?;
        }
    }
    Ok(())
}

/// The extension that the edge adds to external calls.
fn as_service<T>(message: T, config: &Config) -> Request<T> {
    let mut request = Request::new(message);
    let deadline = Instant::now() + config.limits.deadline_max;
    request.extensions_mut().insert(Call::internal(deadline));
    request
}
