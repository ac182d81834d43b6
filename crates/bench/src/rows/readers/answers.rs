//! Answers about notices and receipts, over a bare tonic server that echoes them.

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::imported::fill;
use kith_proto::{
    member::v1::{AddMembersRequest, member_service_client::MemberServiceClient},
    message::v1::message_service_client::MessageServiceClient,
    notice::v1::{CountNoticesRequest, MarkReadRequest, notice_service_client::NoticeServiceClient},
    receipt::v1::{GetReceiptRequest, ReceiptForm, receipt_service_client::ReceiptServiceClient},
    user::v1::{GetUserRequest, user_service_client::UserServiceClient},
};
use tonic::transport::{Channel, Endpoint};

use super::notices::{self, publish};
use crate::{
    claims::{COUNT_NOTICES_CPU, NOTICE_TOTALS_FLAT, Plan, RECEIPT_CPU},
    echo,
    load::Callers,
    ratio::{Side, interleave},
    results::Results,
    rows::{
        latency::Latency,
        messages::{make_group, text},
        relations::EchoComparison,
        rpc::{CONNECTIONS, GET_USER},
    },
    served::Served,
};

const COUNT_NOTICES: &str = "/kith.notice.v1.NoticeService/CountNotices";
const GET_RECEIPT: &str = "/kith.receipt.v1.ReceiptService/GetReceipt";
const GROUP: &str = "g1";
/// Of the group.
const MEMBERS: i64 = 200;
/// Members that are added by one call.
const ADDED: usize = 100;
/// An audience with few notices, and one with many.
const FEW: i32 = 1;
const MANY: i32 = 2;
const READER: i64 = 7;

/// Runs what is asked for.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if [&COUNT_NOTICES_CPU, &RECEIPT_CPU, &NOTICE_TOTALS_FLAT].iter().all(|claim| !plan.wants(claim)) {
        return Ok(());
    }
    let kith = Served::kith(&plan.kith)?;
    let channel = served(&kith).await?;
    if plan.wants(&RECEIPT_CPU) {
        receipt(plan, &kith, channel.clone(), results).await?;
    }
    if plan.wants(&COUNT_NOTICES_CPU) || plan.wants(&NOTICE_TOTALS_FLAT) {
        totals(plan, &kith, channel, results).await?;
    }
    Ok(())
}

/// A connection to a node once it serves.
pub(super) async fn served(kith: &Served) -> Result<Channel> {
    let asked = vec![GetUserRequest { user_id: 1, consistency: None }];
    // Waits for the node.
    drop(Callers::<GetUserRequest>::connect(kith.address, CONNECTIONS, GET_USER, asked).await?);
    Ok(Endpoint::from_shared(format!("http://{}", kith.address))?.connect().await?)
}

/// Of a message that half of the members have read.
async fn receipt(plan: &Plan, kith: &Served, channel: Channel, results: &mut Results<'_>) -> Result<()> {
    let users: Vec<i64> = (1..=MEMBERS).collect();
    fill(&mut UserServiceClient::new(channel.clone()), &users).await?;
    make_group(channel.clone()).await?;
    for user_ids in users[1..].chunks(ADDED) {
        let request =
            AddMembersRequest { group_id: 1, user_ids: user_ids.to_vec(), ..AddMembersRequest::default() };
        MemberServiceClient::new(channel.clone()).add_members(request).await?;
    }
    let mut messages = MessageServiceClient::new(channel.clone());
    let seq = messages.send_message(text(GROUP)).await?.into_inner().seq;
    for user in (2..=MEMBERS).step_by(2) {
        let mut mark = tonic::Request::new(kith_proto::message::v1::MarkReadRequest {
            conversation_id: GROUP.to_owned(),
            up_to: seq,
            ..Default::default()
        });
        mark.metadata_mut().insert("kith-acting-user", user.into());
        messages.mark_read(mark).await?;
    }
    let request = GetReceiptRequest {
        conversation_id: GROUP.to_owned(),
        seq,
        form: ReceiptForm::Bits.into(),
        consistency: None,
    };
    let answer = ReceiptServiceClient::new(channel).get_receipt(request.clone()).await?.into_inner();
    let read = answer.receipt.as_ref().context("a receipt")?.read;
    ensure!(read == MEMBERS / 2, "{read} have read the message");
    let callers = Callers::connect(kith.address, CONNECTIONS, GET_RECEIPT, vec![request]).await?;
    let compared = EchoComparison { kith, callers, path: echo::RECEIPT, answers: vec![answer] };
    compared.measure(plan, &RECEIPT_CPU, results).await
}

async fn totals(plan: &Plan, kith: &Served, channel: Channel, results: &mut Results<'_>) -> Result<()> {
    let mut client = NoticeServiceClient::new(channel);
    publish_read(&mut client, FEW, 10).await?;
    let request = |audience_id| CountNoticesRequest { audience_id, reader_id: READER, consistency: None };
    if plan.wants(&COUNT_NOTICES_CPU) {
        let answer = client.count_notices(request(FEW)).await?.into_inner();
        let callers = Callers::connect(kith.address, CONNECTIONS, COUNT_NOTICES, vec![request(FEW)]).await?;
        let compared = EchoComparison { kith, callers, path: echo::NOTICES, answers: vec![answer] };
        compared.measure(plan, &COUNT_NOTICES_CPU, results).await?;
    }
    if plan.wants(&NOTICE_TOTALS_FLAT) {
        publish_read(&mut client, MANY, plan.size(1_000, 20)).await?;
        let calls = plan.size(5_000, 50);
        let rounds = interleave(plan.rounds, async |side| {
            let audience = if side == Side::Kith { MANY } else { FEW };
            let call = async || {
                client.clone().count_notices(request(audience)).await?;
                anyhow::Ok(())
            };
            Ok(Latency::of_calls(calls, call).await?.p50)
        });
        results.add(&NOTICE_TOTALS_FLAT, &rounds.await?)?;
    }
    Ok(())
}

/// An audience with so many notices, of which the reader has read all but the last.
async fn publish_read(
    client: &mut NoticeServiceClient<Channel>,
    audience_id: i32,
    notices: i32,
) -> Result<()> {
    notices::register_audience(client, audience_id).await?;
    for number in 1..=notices {
        if number == notices {
            let all = MarkReadRequest { audience_id, reader_id: READER, all: true, ..Default::default() };
            client.mark_read(all).await?;
        }
        publish(client, audience_id, 0).await?;
    }
    Ok(())
}
