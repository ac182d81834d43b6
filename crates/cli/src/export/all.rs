//! `kith export all`: writes everything that a node stores, apart from what `docs/operate/data.md` names, as
//! files for `kith import all`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufWriter, Write as _},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result};
use futures::{Stream, StreamExt as _, stream};
use kith_proto::{
    application::v1::ListedApplication, relation::v1::ImportFollow, user::v1::SuspendUserRequest,
};
use serde::Serialize;
use tonic::Status;

use super::{copy, group_records, reaction_records, user_records};
use crate::{
    Common, OK,
    applications::Applications,
    client::{Channel, Target},
    data_folder::{DataFolder, Manifest},
    groups::Groups,
    kind::{Export, Import},
    messages::ConversationMessages,
    moved_records::{Dialogs, Members, Reactions, Settings},
    ordered_follows::OrderedFollows,
    output::{Report, note},
    proto_lines,
    states::State,
    users::Users,
};

/// How many users or groups are read at the same time.
const AT_ONCE: usize = 16;

/// The options for `kith export all`.
#[derive(Debug, clap::Args)]
pub(super) struct AllExport {
    /// Folder to create; it must be empty
    folder: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// A kind's number of records.
#[derive(Debug, Serialize)]
struct KindCount {
    kind: String,
    exported: u64,
}

impl Report for KindCount {
    const COLUMNS: &'static [&'static str] = &["kind", "exported"];
}

/// A running export.
struct FolderExport {
    channel: Channel,
    limit: Duration,
    folder: DataFolder,
    users: Vec<i64>,
    groups: Vec<i64>,
    lines: BTreeMap<String, u64>,
    states: Vec<State>,
}

/// Exports all records of a node. Fails if the node does not answer or a file cannot be written; the folder
/// has no manifest then.
pub(super) async fn run(common: &Common, options: &AllExport) -> Result<u8> {
    let folder = DataFolder::create(&options.folder)?;
    let (channel, limit) = (options.target.connect().await?, options.target.options.message_limit());
    let mut export = FolderExport {
        channel,
        limit,
        folder,
        users: Vec::new(),
        groups: Vec::new(),
        lines: BTreeMap::new(),
        states: Vec::new(),
    };
    export.run().await?;
    let counts = export.lines.into_iter().map(|(kind, exported)| KindCount { kind, exported });
    common.output.print(&counts.collect::<Vec<_>>())?;
    Ok(OK)
}

impl FolderExport {
    async fn run(&mut self) -> Result<()> {
        self.copy(&Users).await?;
        self.copy(&Groups).await?;
        (self.users, self.groups) =
            (self.folder.ids("users", "userId")?, self.folder.ids("groups", "groupId")?);
        self.members().await?;
        self.follows().await?;
        self.settings().await?;
        let conversations = self.dialogs().await?;
        self.applications().await?;
        self.suspensions().await?;
        self.reactions(&conversations).await?;
        self.messages(conversations).await?;
        let states = std::mem::take(&mut self.states);
        let lines = states.iter().map(State::line);
        self.write("states", lines)?;
        self.folder.finish(&Manifest::new(self.lines.clone()))
    }

    /// Writes all records of a kind with a stream of its own.
    async fn copy<K: Export + Import>(&mut self, kind: &K) -> Result<()> {
        let unwritable = || format!("could not write the {}", K::NAME);
        let file = File::create(self.folder.file(K::NAME)).with_context(unwritable)?;
        let count = copy(kind, self.channel.clone(), self.limit, file).await?;
        self.lines.insert(K::NAME.to_owned(), count);
        Ok(())
    }

    /// Writes lines that are known.
    fn write(&mut self, kind: &str, lines: impl Iterator<Item = serde_json::Result<String>>) -> Result<()> {
        let mut sink = Sink::create(&self.folder, kind)?;
        for line in lines {
            sink.line(&line?)?;
        }
        self.lines.insert(kind.to_owned(), sink.finish()?);
        Ok(())
    }

    async fn members(&mut self) -> Result<()> {
        let mut sink = Sink::create(&self.folder, "members")?;
        let channel = &self.channel;
        let reads = stream::iter(self.groups.iter().copied()).map(|id| group_records::read(channel, id));
        let mut reads = std::pin::pin!(reads.buffered(AT_ONCE));
        while let Some(read) = reads.next().await {
            let read = read.map_err(ended)?;
            for record in &read.records {
                sink.line(&proto_lines::line(Members::MESSAGE, record)?)?;
            }
            self.states.extend(read.mute.map(State::Mute));
        }
        self.lines.insert("members".to_owned(), sink.finish()?);
        Ok(())
    }

    /// All follows, by the time when they began: a list has the last first.
    async fn follows(&mut self) -> Result<()> {
        let channel = &self.channel;
        let reads = stream::iter(self.users.iter().copied()).map(|id| user_records::follows(channel, id));
        let mut all: Vec<ImportFollow> = gathered(reads.buffered(AT_ONCE)).await?;
        let time = |follow: &ImportFollow| follow.follow_time.map(|time| (time.seconds, time.nanos));
        all.sort_unstable_by_key(|follow| (time(follow), follow.target_id, follow.user_id));
        let lines = all.iter().map(|follow| proto_lines::line(OrderedFollows::MESSAGE, follow));
        self.write("follows", lines)
    }

    async fn settings(&mut self) -> Result<()> {
        let mut sink = Sink::create(&self.folder, "settings")?;
        let channel = &self.channel;
        let reads = stream::iter(self.users.iter().copied()).map(|id| user_records::settings(channel, id));
        let mut reads = std::pin::pin!(reads.buffered(AT_ONCE));
        while let Some(read) = reads.next().await {
            for record in read.map_err(ended)? {
                if self.users.binary_search(&record.settings.as_ref().map_or(0, |one| one.target_id)).is_ok()
                {
                    sink.line(&proto_lines::line(Settings::MESSAGE, &record)?)?;
                }
            }
        }
        self.lines.insert("settings".to_owned(), sink.finish()?);
        Ok(())
    }

    /// Writes the dialogs. Returns all conversations that can be imported.
    async fn dialogs(&mut self) -> Result<BTreeSet<String>> {
        let mut conversations: BTreeSet<String> = self.groups.iter().map(|id| format!("g{id}")).collect();
        let mut sink = Sink::create(&self.folder, "dialogs")?;
        let channel = &self.channel;
        let reads = stream::iter(self.users.iter().copied()).map(|id| user_records::dialogs(channel, id));
        let mut reads = std::pin::pin!(reads.buffered(AT_ONCE));
        let mut left_out = 0_u64;
        while let Some(read) = reads.next().await {
            for record in read.map_err(ended)? {
                let conversation =
                    record.dialog.as_ref().map(|one| one.conversation_id.clone()).unwrap_or_default();
                if !self.has_members_of(&conversation) {
                    left_out += 1;
                    continue;
                }
                conversations.insert(conversation);
                if !user_records::is_empty(&record) {
                    sink.line(&proto_lines::line(Dialogs::MESSAGE, &record)?)?;
                }
            }
        }
        if left_out > 0 {
            note(&format!(
                "kith: {left_out} dialogs of conversations with a deleted user or group are left out"
            ));
        }
        self.lines.insert("dialogs".to_owned(), sink.finish()?);
        Ok(conversations)
    }

    /// Whether the group, or both users, exist.
    fn has_members_of(&self, conversation: &str) -> bool {
        let is_in = |ids: &[i64], id: &str| id.parse().is_ok_and(|id| ids.binary_search(&id).is_ok());
        match (conversation.strip_prefix('g'), conversation.strip_prefix('d')) {
            (Some(group), _) => is_in(&self.groups, group),
            (None, Some(pair)) => pair
                .split_once('-')
                .is_some_and(|(one, other)| is_in(&self.users, one) && is_in(&self.users, other)),
            (None, None) => false,
        }
    }

    async fn applications(&mut self) -> Result<()> {
        let channel = &self.channel;
        let of_users =
            stream::iter(self.users.iter().copied()).map(|id| user_records::applications(channel, id));
        let mut all: Vec<ListedApplication> = gathered(of_users.buffered(AT_ONCE)).await?;
        let of_groups =
            stream::iter(self.groups.iter().copied()).map(|id| group_records::applications(channel, id));
        all.extend(gathered(of_groups.buffered(AT_ONCE)).await?);
        all.sort_unstable_by_key(|one| one.application.as_ref().map_or(0, |one| one.application_id));
        let lines = all.iter().map(|one| proto_lines::line(Applications::MESSAGE, one));
        self.write("applications", lines)
    }

    async fn suspensions(&mut self) -> Result<()> {
        let channel = &self.channel;
        let reads = stream::iter(self.users.iter().copied()).map(|id| user_records::suspension(channel, id));
        let mut reads = std::pin::pin!(reads.buffered(AT_ONCE));
        while let Some(read) = reads.next().await {
            let suspension: Option<SuspendUserRequest> = read.map_err(ended)?;
            self.states.extend(suspension.map(State::Suspension));
        }
        Ok(())
    }

    async fn reactions(&mut self, conversations: &BTreeSet<String>) -> Result<()> {
        let mut sink = Sink::create(&self.folder, Reactions::NAME)?;
        for conversation in conversations {
            let seqs = reaction_records::seqs(&self.channel, conversation).await.map_err(ended)?;
            for seqs in seqs.collect::<Vec<_>>().chunks(reaction_records::SEQS) {
                let read = reaction_records::read(&self.channel, conversation, seqs).await.map_err(ended)?;
                for record in read {
                    sink.line(&proto_lines::line(Reactions::MESSAGE, &record)?)?;
                }
            }
        }
        self.lines.insert(Reactions::NAME.to_owned(), sink.finish()?);
        Ok(())
    }

    async fn messages(&mut self, conversations: BTreeSet<String>) -> Result<()> {
        let file = self.folder.file("messages");
        let mut file = File::create(&file).with_context(|| format!("could not write {}", file.display()))?;
        let mut count = 0;
        for conversation in conversations {
            let begin = group_records::begin(&self.channel, &conversation).await.map_err(ended)?;
            for line in begin.placeholders() {
                writeln!(file, "{}", line?).context("could not write the messages")?;
            }
            count += begin.hidden();
            self.states.extend(begin.trim());
            count +=
                copy(&ConversationMessages(conversation), self.channel.clone(), self.limit, &file).await?;
        }
        file.sync_all().context("could not write the messages")?;
        self.lines.insert("messages".to_owned(), count);
        Ok(())
    }
}

/// The records of all reads.
async fn gathered<T>(reads: impl Stream<Item = Result<Vec<T>, Status>>) -> Result<Vec<T>> {
    let (mut reads, mut all) = (std::pin::pin!(reads), Vec::new());
    while let Some(read) = reads.next().await {
        all.extend(read.map_err(ended)?);
    }
    Ok(all)
}

/// A file that is being written.
struct Sink {
    file: BufWriter<File>,
    count: u64,
}

impl Sink {
    fn create(folder: &DataFolder, kind: &str) -> Result<Self> {
        let path = folder.file(kind);
        let file = File::create(&path).with_context(|| format!("could not write {}", path.display()))?;
        Ok(Self { file: BufWriter::new(file), count: 0 })
    }

    fn line(&mut self, line: &str) -> Result<()> {
        self.count += 1;
        writeln!(self.file, "{line}").context("could not write the records")
    }

    /// Returns the number of lines, which are on disk.
    fn finish(mut self) -> Result<u64> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .context("could not write the records")?;
        Ok(self.count)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn ended(status: Status) -> anyhow::Error {
    anyhow::anyhow!("the node ended the export: {}", status.message())
}
