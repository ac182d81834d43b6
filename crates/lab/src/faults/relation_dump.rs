//! Reads the final relations between users, by strong reads through a node.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::{
    calls::retried,
    figure::{Figure, float},
    relation_calls::{PreparedRelationCall, counted_strong},
    relation_client::USERS,
};
use crate::{
    checker,
    history::{Edge, EdgeEnd, Event, Level, ListsEnd, Recorder, RelationOutcome, RelationRequest, Side},
};

/// The time limit until everything has to agree after the last change, whichever node died.
const AGREE_WITHIN: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(500);

/// Records the relations between them once they agree, or after a minute. Figure: how long that took.
pub(super) async fn dump(recorder: &Recorder, node: &Channel) -> Result<Figure> {
    let began = Instant::now();
    loop {
        let took = began.elapsed();
        let ends = read_end(node).await?;
        if checker::relations_agree(&ends) || took > AGREE_WITHIN {
            ends.iter().try_for_each(|end| recorder.write(end))?;
            let (took, most) = (took.as_millis(), AGREE_WITHIN.as_millis());
            let number = |millis: u128| float(u64::try_from(millis).unwrap_or(u64::MAX));
            return Ok(Figure::at_most("relations agree", "ms", number(took), number(most)));
        }
        sleep(PAUSE).await;
    }
}

/// The reads are sequential: few calls may be with the store.
async fn read_end(node: &Channel) -> Result<Vec<Event>> {
    let mut ends = Vec::new();
    for user in 1..=USERS {
        ends.push(lists(node, user).await?);
        for other in (1..=USERS).filter(|other| *other != user) {
            ends.push(edge_end(node, Edge(user, other)).await?);
        }
    }
    Ok(ends)
}

async fn lists(node: &Channel, user: i64) -> Result<Event> {
    let list = async |side| match asked(node, RelationRequest::List(user, side, Level::Strong)).await? {
        RelationOutcome::Listed(entries) => Ok(entries),
        outcome => bail!("a list is {outcome:?}"),
    };
    let (following, fans) = (list(Side::Following).await?, list(Side::Fans).await?);
    match retried(async || counted_strong(node.clone(), user).await).await? {
        RelationOutcome::Counted(of_following, of_fans) => {
            Ok(Event::Lists(ListsEnd { user, following, fans, counts: (of_following, of_fans) }))
        }
        outcome => bail!("a count is {outcome:?}"),
    }
}

async fn edge_end(node: &Channel, edge: Edge) -> Result<Event> {
    match asked(node, RelationRequest::Get(edge, Level::Strong)).await? {
        RelationOutcome::Found { follow, settings, .. } => {
            Ok(Event::Edge(EdgeEnd { edge, follow, settings }))
        }
        outcome => bail!("a relation is {outcome:?}"),
    }
}

async fn asked(node: &Channel, what: RelationRequest) -> Result<RelationOutcome> {
    let answered = retried(async || match PreparedRelationCall::strong(what).send(node.clone()).await.0 {
        RelationOutcome::Refused(code) => Err(code),
        outcome => Ok(outcome),
    });
    answered.await.map_err(|code| anyhow!("{what:?} is answered with {code}"))
}
