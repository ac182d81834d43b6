//! Documents are changed by hand in MongoDB, and their versions with them: how long nodes answer the previous
//! state.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_lab_servers::imported::fill;
use kith_proto::user::v1::{GetUserRequest, user_service_client::UserServiceClient};
use mongodb::{
    Collection,
    bson::{Document, doc},
};
use tokio::time::Instant;
use tonic::{Code, transport::Channel};

use super::{
    Sizes,
    aged::{ChangeSeen, WatchedChange, watch},
};
use crate::faults::{
    Figure, Plan, Site,
    calls::{renaming, with_deadline},
    site::NAME,
};

const NODES: u32 = 3;
/// The bound for an old answer.
const WITHIN: Duration = Duration::from_secs(11);
/// How often each user is updated before it is changed by hand.
const UPDATES: usize = 5;
/// A user's name after the change.
const AFTER: &str = "by hand";

/// The kinds of changes by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit {
    /// Its version is lowered a little.
    Lowered,
    /// Its version is set to an early version.
    SetBack,
    /// Its version is set higher than any real version.
    SetHigh,
    /// Its version is removed.
    Unset,
    /// It is replaced by a document without a version.
    Replaced,
    /// It is deleted, and then inserted again unchanged.
    Reinserted,
    /// Like `Reinserted`, before it was ever updated.
    ReinsertedFirst,
}

const EDITS: [Edit; 7] = [
    Edit::Lowered,
    Edit::SetBack,
    Edit::SetHigh,
    Edit::Unset,
    Edit::Replaced,
    Edit::Reinserted,
    Edit::ReinsertedFirst,
];

/// The answer that every node must give about a user from a time on.
struct Expected {
    edit: Edit,
    user_id: i64,
    /// `None`: it does not exist.
    nick_name: Option<String>,
    at: Instant,
}

/// Collections that are dropped: these callers do not use them.
const DROPPED: [&str; 3] = ["audiences", "groups", "notices"];

/// Figures: for each kind of edit, how long a node answered the previous state.
///
/// `drops`: before the documents are changed, collections are dropped.
pub(super) async fn run(plan: &Plan, sizes: &Sizes, drops: bool) -> Result<Vec<Figure>> {
    let site = Site::start(&Plan { nodes: NODES, ..plan.clone() }).await?;
    let nodes = site.channels();
    let users = users(&nodes, sizes.rounds).await?;
    let documents = site.mongod.database(NAME).await?.collection("users");
    let lasts = WITHIN + sizes.lasts;

    for name in DROPPED.into_iter().filter(|_| drops) {
        site.drop_collection(name).await?;
    }
    let (mut edited, mut deleted) = (Vec::new(), Vec::new());
    for (edit, user_id) in users {
        let before = find(&documents, user_id).await?;
        let nick_name = edit.apply(&documents, user_id).await?;
        if nick_name.is_none() {
            deleted.push((edit, user_id, before));
        }
        let nick_name = nick_name.map(str::to_owned);
        edited.push(Expected { edit, user_id, nick_name, at: Instant::now() });
    }
    let seen = watch(&edited, &nodes, lasts).await;

    let mut inserted = Vec::new();
    for (edit, user_id, document) in deleted {
        documents.insert_one(&document).await?;
        let nick_name = Some(document.get_str("nick").unwrap_or_default().to_owned());
        inserted.push(Expected { edit, user_id, nick_name, at: Instant::now() });
    }
    let seen_again = watch(&inserted, &nodes, lasts).await;

    let edits = edited.iter().chain(&inserted).map(|expected| expected.edit);
    Ok(figures(&edits.zip(seen.into_iter().chain(seen_again)).collect::<Vec<_>>(), drops))
}

/// Makes users for each kind, updated as it needs, that all nodes hold.
async fn users(nodes: &[Channel], rounds: u32) -> Result<Vec<(Edit, i64)>> {
    let of_each = (0..rounds).flat_map(|_| EDITS);
    let users: Vec<(Edit, i64)> = of_each.zip(1..).collect();
    let mut client = UserServiceClient::new(nodes[0].clone());
    fill(&mut client, &users.iter().map(|(_, id)| *id).collect::<Vec<_>>()).await?;
    for (edit, id) in &users {
        let updates = if *edit == Edit::ReinsertedFirst { 0 } else { UPDATES };
        for update in 1..=updates {
            let change = renaming(*id, format!("update {update}"), String::new());
            client.update_user(with_deadline(change)).await?;
        }
        for node in nodes {
            nick_name(node.clone(), *id).await.context("a node does not answer")?;
        }
    }
    Ok(users)
}

async fn find(documents: &Collection<Document>, id: i64) -> Result<Document> {
    documents.find_one(doc! { "_id": id }).await?.context("the user is stored")
}

/// The user's name on that node; `None`: no answer.
pub(super) async fn nick_name(node: Channel, user_id: i64) -> Option<Option<String>> {
    let asked = with_deadline(GetUserRequest { user_id, consistency: None });
    match UserServiceClient::new(node).get_user(asked).await {
        Ok(answer) => Some(answer.into_inner().user.map(|user| user.nick_name)),
        Err(status) => (status.code() == Code::NotFound).then_some(None),
    }
}

impl Edit {
    /// Changes the document. Returns the user's name afterwards; `None`: it does not exist.
    async fn apply(self, documents: &Collection<Document>, id: i64) -> Result<Option<&'static str>> {
        let query = doc! { "_id": id };
        let update = match self {
            Self::Lowered => doc! { "$inc": { "v": -3_i64 }, "$set": { "nick": AFTER } },
            Self::SetBack => doc! { "$set": { "v": 2_i64, "nick": AFTER } },
            Self::SetHigh => doc! { "$set": { "v": 1_i64 << 61, "nick": AFTER } },
            Self::Unset => doc! { "$unset": { "v": "" }, "$set": { "nick": AFTER } },
            Self::Replaced => {
                let mut document = find(documents, id).await?;
                document.remove("v");
                document.insert("nick", AFTER);
                documents.replace_one(query, document).await?;
                return Ok(Some(AFTER));
            }
            Self::Reinserted | Self::ReinsertedFirst => {
                documents.delete_one(query).await?;
                return Ok(None);
            }
        };
        documents.update_one(query, update).await?;
        Ok(Some(AFTER))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Lowered => "version lowered",
            Self::SetBack => "version set back",
            Self::SetHigh => "version set high",
            Self::Unset => "version taken out",
            Self::Replaced => "replaced",
            Self::Reinserted => "deleted and inserted",
            Self::ReinsertedFirst => "deleted and inserted in its first version",
        }
    }
}

impl WatchedChange for Expected {
    fn at(&self) -> Instant {
        self.at
    }

    async fn is_seen(&self, node: Channel) -> Option<bool> {
        Some(nick_name(node, self.user_id).await? == self.nick_name)
    }
}

fn figures(seen: &[(Edit, ChangeSeen)], drops: bool) -> Vec<Figure> {
    let all = seen.iter().map(|(_, seen)| *seen).fold(ChangeSeen::default(), ChangeSeen::and);
    let of_each = EDITS.map(|edit| {
        let of_this = seen.iter().filter(|(of, _)| *of == edit).map(|(_, seen)| *seen);
        let old_for = of_this.fold(ChangeSeen::default(), ChangeSeen::and).old_for;
        Figure::within(format!("{}: old for", edit.name()), old_for, WITHIN)
    });
    let mut figures = of_each.to_vec();
    figures.push(Figure::at_least_count("answers", all.answers, 1));
    figures.push(if drops {
        // A document without a version is damaged until the stream is read again and gives it a version.
        Figure::within("no answer for", all.failed_for, WITHIN)
    } else {
        Figure::none("calls without an answer", all.failed)
    });
    figures
}
