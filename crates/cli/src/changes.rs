//! `kith changes`: prints which records have changed, from a cursor on.

use std::time::Duration;

use anyhow::Result;
use kith_proto::change::v1::{
    Change, ChangeKind, GetCursorRequest, ReadChangesRequest, ReadChangesResponse,
    change_service_client::ChangeServiceClient,
};
use serde::Serialize;
use tokio::{signal::ctrl_c, time::sleep};

use super::{
    Common, OK,
    client::{Channel, Target},
    output::{OutputForm, Report, note, print_next},
};

/// The beginning of the kinds' names in the contract.
pub(super) const KIND: &str = "CHANGE_KIND_";

/// The options for `kith changes`.
#[derive(Debug, clap::Args)]
#[command(after_help = "The last line, on standard error, is the cursor to continue from with --after.\n\
                  Exit codes: 0 printed to the end, or interrupted, 2 the node does not answer, or the cursor has expired.")]
pub(super) struct ChangesOptions {
    /// Kinds to print, separated by commas: user, group, member, roster, follow, block, messages,
    /// conversation, dialog, audience, notice [default: all that are kept and that the key may read]
    #[arg(long, value_delimiter = ',', value_name = "KINDS", value_parser = kind)]
    kinds: Vec<ChangeKind>,
    /// Print what changed after this cursor [default: the present end]
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Wait for more at the end, until it is interrupted
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    target: Target,
}

/// Prints changes. Fails when the node does not answer, or the cursor has expired.
pub(super) async fn run(common: &Common, options: &ChangesOptions) -> Result<u8> {
    let target = &options.target;
    let mut client = ChangeServiceClient::new(target.connect().await?);
    let mut cursor = match &options.after {
        Some(cursor) => cursor.clone(),
        None => target.response(client.get_cursor(target.request(GetCursorRequest {}))).await?.cursor,
    };
    let form = match common.output.form() {
        OutputForm::Json => OutputForm::Json,
        OutputForm::Plain | OutputForm::Table => OutputForm::Plain,
    };
    let printed = tokio::select! {
        printed = print_all(&mut client, options, form, &mut cursor) => printed,
        _interrupted = ctrl_c() => Ok(()),
    };
    note(&format!("cursor {cursor}"));
    printed.map(|()| OK)
}

/// Prints page after page, and moves the cursor behind each page that is printed.
async fn print_all(
    client: &mut ChangeServiceClient<Channel>,
    options: &ChangesOptions,
    form: OutputForm,
    cursor: &mut String,
) -> Result<()> {
    let target = &options.target;
    let kinds: Vec<i32> = options.kinds.iter().map(|kind| (*kind).into()).collect();
    let (mut first, mut was_last) = (true, false);
    loop {
        let request = ReadChangesRequest { cursor: cursor.clone(), kinds: kinds.clone(), limit: 0 };
        let page: ReadChangesResponse = target.response(client.read_changes(target.request(request))).await?;
        for change in &page.changes {
            if !print_next(form, &row(change), first)? {
                return Ok(());
            }
            first = false;
        }
        *cursor = page.cursor;
        let wait = page.ask_again_after.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or_default();
        // A node may not know of the last changes at first: the end is where it is again after the wait.
        if !wait.is_zero() && was_last && !options.follow {
            return Ok(());
        }
        was_last = !wait.is_zero();
        sleep(wait).await;
    }
}

/// Returns the kind with this name. Fails if there is none.
pub(super) fn kind(text: &str) -> Result<ChangeKind, String> {
    ChangeKind::from_str_name(&format!("{KIND}{}", text.trim().to_uppercase()))
        .filter(|kind| *kind != ChangeKind::Unspecified)
        .ok_or_else(|| "no such kind; --help names them".to_owned())
}

/// One change. What does not identify the record is absent.
#[derive(Default, Serialize)]
struct ChangeRow {
    position: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_user: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_seq: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seq: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audience: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<i64>,
    /// Absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    by_hand: bool,
}

fn row(change: &Change) -> ChangeRow {
    let given = |number: i64| Some(number).filter(|number| *number != 0);
    ChangeRow {
        position: change.position.clone(),
        kind: change.kind().as_str_name().trim_start_matches(KIND).to_lowercase(),
        user: given(change.user_id),
        other_user: given(change.other_user_id),
        group: given(change.group_id),
        conversation: Some(change.conversation_id.clone()).filter(|id| !id.is_empty()),
        first_seq: given(change.first_seq),
        last_seq: given(change.last_seq),
        audience: given(change.audience_id.into()),
        notice: given(change.notice_id),
        version: given(change.version),
        by_hand: change.by_hand,
    }
}

impl Report for ChangeRow {
    const COLUMNS: &'static [&'static str] = &["position", "kind", "record", "version", "by_hand"];

    fn row(&self) -> Vec<String> {
        let numbers = [self.group, self.user, self.other_user, self.audience, self.notice].into_iter();
        let mut record: Vec<_> = numbers.flatten().map(|number| number.to_string()).collect();
        record.extend(self.conversation.clone());
        if let (Some(first), Some(last)) = (self.first_seq, self.last_seq) {
            record.push(format!("{first}..{last}"));
        }
        let version = self.version.map(|version| version.to_string()).unwrap_or_default();
        let by_hand = super::output::yes(self.by_hand);
        vec![self.position.clone(), self.kind.clone(), record.join(" "), version, by_hand]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_in_the_contract() {
        assert_eq!(kind("user"), Ok(ChangeKind::User));
        assert_eq!(kind(" Messages"), Ok(ChangeKind::Messages));
        for wrong in ["", "users", "unspecified", "CHANGE_KIND_USER"] {
            assert!(kind(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn row_names_the_record() {
        let mut change = Change { position: "5f.file.3.0".into(), version: 4, ..Change::default() };
        change.set_kind(ChangeKind::Member);
        (change.group_id, change.user_id) = (9, 7);
        assert_eq!(row(&change).row(), ["5f.file.3.0", "member", "9 7", "4", "no"]);
        let mut change =
            Change { conversation_id: "g9".into(), first_seq: 2, last_seq: 4, ..Change::default() };
        change.set_kind(ChangeKind::Messages);
        assert_eq!(row(&change).row()[1..], ["messages", "g9 2..4", "", "no"]);
        let json = serde_json::to_string(&row(&change)).unwrap();
        assert_eq!(
            json,
            r#"{"position":"","kind":"messages","conversation":"g9","first_seq":2,"last_seq":4,"by_hand":false}"#
        );
    }
}
