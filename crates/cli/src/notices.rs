//! `kith notice`: publishes notices to all readers in an audience, and counts the readers who have read them.

use std::time::SystemTime;

use anyhow::{Context as _, Result};
use kith_proto::notice::v1::{
    CountReadersRequest, GetNoticeRequest, ListNoticesRequest, Notice, PublishNoticeRequest,
    notice_service_client::NoticeServiceClient,
};
use serde::Serialize;

use super::{
    Common, FAILED, OK,
    client::Target,
    output::{Report, yes},
};

/// The commands for notices.
#[derive(Debug, clap::Subcommand)]
pub(super) enum NoticeCommand {
    /// Publish a notice to audiences
    #[command(after_help = "Exit codes: 0 it is published, 2 it is not.")]
    Publish(Publish),
    /// List the notices of an audience, scheduled ones among them, or what one reader sees
    #[command(after_help = "Exit codes: 0 listed, 2 the node does not answer.")]
    List(List),
    /// Count who has read a notice, in each of its audiences
    #[command(
        after_help = "Exit codes: 0 counted, 1 some readers are not counted yet: repeat it, 2 the node does not answer."
    )]
    Stats(Stats),
}

/// The options for `kith notice publish`.
#[derive(Debug, clap::Args)]
pub(super) struct Publish {
    /// Audiences that see it; repeat it, or separate them by commas
    #[arg(long, required = true, value_delimiter = ',', value_name = "NUMBER")]
    audience: Vec<i32>,
    /// The notice's title
    #[arg(long)]
    title: String,
    /// The notice's text
    #[arg(long, default_value = "")]
    body: String,
    /// Its id [default: one that the node chooses]
    #[arg(long, value_name = "NUMBER")]
    id: Option<i64>,
    /// From when on it is visible, such as 2030-01-31T08:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_rfc3339)]
    at: Option<SystemTime>,
    /// Until when it is visible [default: until it is deleted]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_rfc3339)]
    until: Option<SystemTime>,
    /// List it before others
    #[arg(long)]
    pinned: bool,
    /// Readers have to confirm it
    #[arg(long)]
    must_confirm: bool,
    /// Readers who are registered later see it, too
    #[arg(long)]
    for_newcomers: bool,
    #[command(flatten)]
    target: Target,
}

/// The options for `kith notice list`.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// Number of the audience
    #[arg(long, value_name = "NUMBER")]
    audience: i32,
    /// What this reader sees, and has read
    #[arg(long, value_name = "NUMBER")]
    reader: Option<i64>,
    #[command(flatten)]
    target: Target,
}

/// The options for `kith notice stats`.
#[derive(Debug, clap::Args)]
pub(super) struct Stats {
    /// Id of the notice
    notice: i64,
    #[command(flatten)]
    target: Target,
}

/// Publishes, lists or counts. Fails when the node does not answer, or refuses.
pub(super) async fn run(common: &Common, what: &NoticeCommand) -> Result<u8> {
    match what {
        NoticeCommand::Publish(what) => publish(common, what).await,
        NoticeCommand::List(what) => list(common, what).await,
        NoticeCommand::Stats(what) => stats(common, what).await,
    }
}

async fn publish(common: &Common, what: &Publish) -> Result<u8> {
    let target = &what.target;
    let notice = Notice {
        notice_id: what.id.unwrap_or_default(),
        title: what.title.clone(),
        body: what.body.clone(),
        audience_ids: what.audience.clone(),
        publish_time: what.at.map(Into::into),
        expire_time: what.until.map(Into::into),
        pinned: what.pinned,
        must_confirm: what.must_confirm,
        for_newcomers: what.for_newcomers,
        ..Notice::default()
    };
    let request = PublishNoticeRequest { notice: Some(notice), ..PublishNoticeRequest::default() };
    let mut client = NoticeServiceClient::new(target.connect().await?);
    let published = target.response(client.publish_notice(target.request(request))).await?;
    let notice = published.notice.context("the answer has no notice")?;
    common.output.print(&vec![row(&notice, None)])?;
    Ok(OK)
}

async fn list(common: &Common, what: &List) -> Result<u8> {
    let target = &what.target;
    let mut client = NoticeServiceClient::new(target.connect().await?);
    let (mut rows, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListNoticesRequest {
            audience_id: what.audience,
            reader_id: what.reader.unwrap_or_default(),
            page_size: 100,
            page_token,
            consistency: None,
        };
        let page = target.response(client.list_notices(target.request(request))).await?;
        rows.extend(page.notices.iter().filter_map(|listed| {
            let notice = listed.notice.as_ref()?;
            Some(row(notice, what.reader.map(|_| (listed.read, listed.confirmed))))
        }));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    common.output.print(&rows)?;
    Ok(OK)
}

async fn stats(common: &Common, what: &Stats) -> Result<u8> {
    let target = &what.target;
    let mut client = NoticeServiceClient::new(target.connect().await?);
    let request = GetNoticeRequest { notice_id: what.notice, consistency: None };
    let notice = target.response(client.get_notice(target.request(request))).await?;
    let mut rows = Vec::new();
    for audience_id in notice.notice.unwrap_or_default().audience_ids {
        let request = CountReadersRequest { audience_id, notice_ids: vec![what.notice] };
        let counted = target.response(client.count_readers(target.request(request))).await?;
        let count = counted.counts.first().copied().unwrap_or_default();
        rows.push(Count {
            audience: audience_id,
            read: count.read,
            confirmed: count.confirmed,
            registered: counted.registered,
            incomplete: counted.incomplete,
        });
    }
    common.output.print(&rows)?;
    Ok(if rows.iter().any(|row| row.incomplete) { FAILED } else { OK })
}

#[derive(Serialize)]
struct NoticeRow {
    notice: i64,
    title: String,
    published: String,
    expires: Option<String>,
    pinned: bool,
    must_confirm: bool,
    /// Whether the named reader has read it; absent if no reader was named.
    read: Option<bool>,
    confirmed: Option<bool>,
}

fn row(notice: &Notice, of_reader: Option<(bool, bool)>) -> NoticeRow {
    NoticeRow {
        notice: notice.notice_id,
        title: notice.title.clone(),
        published: notice.publish_time.map(|time| time.to_string()).unwrap_or_default(),
        expires: notice.expire_time.map(|time| time.to_string()),
        pinned: notice.pinned,
        must_confirm: notice.must_confirm,
        read: of_reader.map(|(read, _)| read),
        confirmed: of_reader.map(|(_, confirmed)| confirmed),
    }
}

impl Report for NoticeRow {
    const COLUMNS: &'static [&'static str] =
        &["notice", "published", "expires", "pinned", "confirm", "read", "confirmed", "title"];

    fn row(&self) -> Vec<String> {
        vec![
            self.notice.to_string(),
            self.published.clone(),
            self.expires.clone().unwrap_or_default(),
            yes(self.pinned),
            yes(self.must_confirm),
            self.read.map(yes).unwrap_or_default(),
            self.confirmed.map(yes).unwrap_or_default(),
            self.title.clone(),
        ]
    }
}

#[derive(Serialize)]
struct Count {
    audience: i32,
    read: i64,
    confirmed: i64,
    registered: i64,
    incomplete: bool,
}

impl Report for Count {
    const COLUMNS: &'static [&'static str] = &["audience", "read", "confirmed", "registered", "incomplete"];
}
