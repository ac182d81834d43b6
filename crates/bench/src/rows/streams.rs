//! Measures the edge's cost for a stream that is always sending, over a bare tonic server that sends the same
//! messages.

use anyhow::{Result, ensure};
use kith_proto::user::v1::{ExportUsersRequest, user_service_client::UserServiceClient};
use tonic::transport::Channel;

use crate::{
    claims::{Plan, STREAM_CHECK_CPU},
    ratio::interleave,
    results::Results,
    served::ServerProcess,
};

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants(&STREAM_CHECK_CPU) {
        return Ok(());
    }
    let (bare, edge) = (StreamStage::start(false).await?, StreamStage::start(true).await?);
    let messages = plan.size(2_000_000, 200_000);
    for stage in [&bare, &edge] {
        stage.micros_a_message(messages / 10).await?;
    }
    let cpu = interleave(plan.rounds, async |side| side.of(&bare, &edge).micros_a_message(messages).await);
    results.add(&STREAM_CHECK_CPU, &cpu.await?)
}

struct StreamStage {
    server: ServerProcess,
    client: UserServiceClient<Channel>,
}

impl StreamStage {
    async fn start(behind_edge: bool) -> Result<Self> {
        let server = ServerProcess::frames(behind_edge)?;
        let client = UserServiceClient::new(server.connect().await?);
        Ok(Self { server, client })
    }

    /// Processor time that the server takes for each message on a stream, in microseconds.
    async fn micros_a_message(&self, messages: u32) -> Result<f64> {
        let before = self.server.cpu_seconds()?;
        let request = ExportUsersRequest { after_user_id: messages.into() };
        let mut stream = self.client.clone().export_users(request).await?.into_inner();
        let mut count = 0;
        while stream.message().await?.is_some() {
            count += 1;
        }
        ensure!(count == messages, "{count} messages came of {messages}");
        Ok((self.server.cpu_seconds()? - before) * 1e6 / f64::from(messages))
    }
}
