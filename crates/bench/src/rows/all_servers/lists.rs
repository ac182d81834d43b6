//! Measures lists of conversations with unread messages from others: in a cluster, by all servers, and on a
//! node in single-node mode.

use anyhow::{Result, ensure};
use kith_lab_servers::imported::{fill, fill_up_to};
use kith_proto::{
    message::v1::ListConversationsRequest,
    user::v1::{GetUserRequest, user_service_client::UserServiceClient},
};
use tonic::transport::Channel;

use super::{
    load::{Load, Measured, Times, measure},
    processes::Processes,
    stage::ClusterStage,
};
use crate::{
    claims::{
        LIST_20_UNREAD_CPU, LIST_20_UNREAD_SERVERS, LIST_200_UNREAD_CPU, LIST_200_UNREAD_SERVERS, Plan,
    },
    load::Callers,
    ratio::{Claim, Pair, Side, each, interleave},
    results::Results,
    rows::{
        messages::{MessageClient, fill_from},
        methods::{GET_USER, LIST_CONVERSATIONS},
    },
    served::ServerProcess,
};

/// Unread messages in each conversation: fewer than a list counts at most.
const UNREAD: usize = 95;
/// The number of senders: the users from 1 on.
const SENDERS: i64 = 200;
/// The users who read the two lists.
const READERS: [i64; 2] = [100_001, 100_002];
/// Lists under way.
const IN_FLIGHT: usize = 8;

/// A list with so many conversations, and its reader.
struct List {
    claim: &'static Claim,
    reader: i64,
    conversations: i64,
}

/// The rows for a node in single-node mode.
pub(super) async fn embedded(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let claims = [&LIST_20_UNREAD_CPU, &LIST_200_UNREAD_CPU];
    if !plan.wants_any(&claims) {
        return Ok(());
    }
    let kith = ServerProcess::kith(plan)?;
    let channel = kith.connect().await?;
    fill_up_to(channel.clone(), SENDERS).await?;
    let servers = Processes(vec![kith.id()]);
    rows(plan, claims, results, &kith, &channel, &servers).await
}

/// The rows for all servers in a cluster.
pub(super) async fn of_cluster(plan: &Plan, stage: &ClusterStage, results: &mut Results<'_>) -> Result<()> {
    let claims = [&LIST_20_UNREAD_SERVERS, &LIST_200_UNREAD_SERVERS];
    let node = &stage.nodes[0];
    rows(plan, claims, results, &node.served, &node.channel, &stage.all()?).await
}

async fn rows(
    plan: &Plan,
    claims: [&'static Claim; 2],
    results: &mut Results<'_>,
    node: &ServerProcess,
    channel: &Channel,
    servers: &Processes,
) -> Result<()> {
    for (claim, (reader, conversations)) in
        claims.into_iter().zip(READERS.into_iter().zip([20, plan.size(200, 25)]))
    {
        if !plan.wants(claim) {
            continue;
        }
        let list = List { claim, reader, conversations };
        list.fill(channel).await?;
        let pairs = list.measure(plan, node, servers).await?;
        results.add(list.claim, &each(&pairs, Measured::cpu_micros))?;
    }
    Ok(())
}

impl List {
    /// Has others send to the reader, and makes sure that the list counts it.
    async fn fill(&self, channel: &Channel) -> Result<()> {
        fill(&mut UserServiceClient::new(channel.clone()), &[self.reader]).await?;
        let conversations: Vec<_> =
            (1..=self.conversations).map(|other| (other, format!("d{other}-{}", self.reader))).collect();
        fill_from(channel, &conversations, UNREAD).await?;
        let list = MessageClient::new(channel.clone()).list_conversations(self.request()).await?.into_inner();
        let unread: i64 = list.conversations.iter().map(|conversation| conversation.unread).sum();
        let expected = self.conversations * i64::try_from(UNREAD)?;
        ensure!(unread == expected, "{unread} messages are unread of {expected}");
        Ok(())
    }

    fn request(&self) -> ListConversationsRequest {
        let page_size = i32::try_from(self.conversations).unwrap_or(i32::MAX);
        ListConversationsRequest { user_id: self.reader, page_size, ..ListConversationsRequest::default() }
    }

    async fn measure(
        &self,
        plan: &Plan,
        node: &ServerProcess,
        servers: &Processes,
    ) -> Result<Vec<Pair<Measured>>> {
        let users = (1..=SENDERS).map(|user_id| GetUserRequest { user_id, consistency: None }).collect();
        let get_user = Callers::connect(node.address, 4, GET_USER, users).await?;
        let list = Callers::connect(node.address, 4, LIST_CONVERSATIONS, vec![self.request()]).await?;
        let (times, load) = (Times::of(plan), Load::Callers(IN_FLIGHT));
        interleave(plan.rounds, async |side| match side {
            Side::Baseline => {
                let callers = get_user.clone();
                measure(times, load, servers, move |number| one(callers.clone(), number)).await
            }
            Side::Kith => {
                let callers = list.clone();
                measure(times, load, servers, move |number| one(callers.clone(), number)).await
            }
        })
        .await
    }
}

/// One call by these callers.
pub(super) async fn one<Q, A>(callers: Callers<Q, A>, number: u64) -> Result<()>
where
    Q: prost::Message + Clone + Default + 'static,
    A: prost::Message + Clone + Default + 'static,
{
    let at = usize::try_from(number)?;
    callers.call(at, at).await.map(drop)
}
