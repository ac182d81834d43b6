//! Answers about notices and receipts, over a bare tonic server that echoes them.

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::imported::fill_up_to;
use kith_proto::{
    message::v1::message_service_client::MessageServiceClient,
    notice::v1::{
        Audience, CountNoticesRequest, MarkReadRequest, Notice, PublishNoticeRequest,
        RegisterAudienceRequest, notice_service_client::NoticeServiceClient,
    },
    receipt::v1::{GetReceiptRequest, ReceiptForm, receipt_service_client::ReceiptServiceClient},
};
use tonic::transport::Channel;

use crate::{
    claims::{COUNT_NOTICES_CPU, NOTICE_TOTALS_FLAT, Plan, RECEIPT_CPU},
    echo,
    ratio::Pair,
    results::Results,
    rows::{
        groups::make_group,
        latency::compare_medians,
        messages::text,
        methods::{COUNT_NOTICES, GET_RECEIPT},
        relations::{EchoedAnswers, over_echo},
        until_done::until_done,
    },
    served::ServerProcess,
};

const GROUP: &str = "g1";
/// The number of members in the group.
const MEMBERS: i64 = 200;
/// An audience with few notices, and an audience with many.
const FEW: i32 = 1;
const MANY: i32 = 2;
const READER: i64 = 7;

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&COUNT_NOTICES_CPU, &RECEIPT_CPU, &NOTICE_TOTALS_FLAT]) {
        return Ok(());
    }
    let kith = ServerProcess::kith(plan)?;
    let channel = kith.connect().await?;
    results.row(&RECEIPT_CPU, receipt(plan, &kith, channel.clone())).await?;
    if plan.wants_any(&[&COUNT_NOTICES_CPU, &NOTICE_TOTALS_FLAT]) {
        totals(plan, &kith, channel, results).await?;
    }
    Ok(())
}

/// The receipt for a message that half the members have read.
async fn receipt(plan: &Plan, kith: &ServerProcess, channel: Channel) -> Result<Vec<Pair<f64>>> {
    let users: Vec<i64> = (1..=MEMBERS).collect();
    fill_up_to(channel.clone(), MEMBERS).await?;
    make_group(&channel, 1, &users).await?;
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
    let echoed = EchoedAnswers { path: echo::RECEIPT, answers: vec![answer] };
    over_echo(plan, kith, GET_RECEIPT, vec![request], echoed).await
}

async fn totals(
    plan: &Plan,
    kith: &ServerProcess,
    channel: Channel,
    results: &mut Results<'_>,
) -> Result<()> {
    let mut client = NoticeServiceClient::new(channel);
    publish_read(&mut client, FEW, 10).await?;
    let request = |audience_id| CountNoticesRequest { audience_id, reader_id: READER, consistency: None };
    let answer = client.count_notices(request(FEW)).await?.into_inner();
    let echoed = EchoedAnswers { path: echo::NOTICES, answers: vec![answer] };
    let compared = over_echo(plan, kith, COUNT_NOTICES, vec![request(FEW)], echoed);
    results.row(&COUNT_NOTICES_CPU, compared).await?;
    if plan.wants(&NOTICE_TOTALS_FLAT) {
        publish_read(&mut client, MANY, plan.size(1_000, 20)).await?;
        let rounds = compare_medians(plan.rounds, plan.size(5_000, 50), async |side| {
            client.count_notices(request(side.of(FEW, MANY))).await?;
            Ok(())
        });
        results.add(&NOTICE_TOTALS_FLAT, &rounds.await?)?;
    }
    Ok(())
}

/// Registers an audience with so many notices. The reader has read all but the last.
async fn publish_read(
    client: &mut NoticeServiceClient<Channel>,
    audience_id: i32,
    notices: i32,
) -> Result<()> {
    let audience = Audience { audience_id, name: format!("audience {audience_id}"), ..Audience::default() };
    let register = RegisterAudienceRequest { audience: Some(audience), request_id: String::new() };
    // The node may be starting.
    until_done(async || client.clone().register_audience(register.clone()).await).await?;
    for number in 1..=notices {
        if number == notices {
            let all = MarkReadRequest { audience_id, reader_id: READER, all: true, ..Default::default() };
            client.mark_read(all).await?;
        }
        let title = format!("notice {number}");
        let notice = Notice { title, audience_ids: vec![audience_id], ..Notice::default() };
        let publish = PublishNoticeRequest { notice: Some(notice), request_id: String::new() };
        client.publish_notice(publish).await?;
    }
    Ok(())
}
