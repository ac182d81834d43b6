//! One group: its applicants, those who decide, and their answers.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use futures::future::try_join_all;
use kith_proto::{
    application::v1::{
        Application, ApplyRequest, DecideRequest, Decision, Effect, GetApplicationRequest, Kind, Receiver,
        State, application_service_client::ApplicationServiceClient, receiver,
    },
    group::v1::{Group, JoinPolicy},
    member::v1::{
        BatchIsMemberRequest, LeaveRequest, Role, SetRoleRequest, member_result,
        member_service_client::MemberServiceClient,
    },
};
use parking_lot::Mutex;
use rand::Rng as _;
use tokio::time::{Instant, sleep};
use tonic::{Code, Request, Response, Status, transport::Channel};
use tonic_types::StatusExt as _;

use super::{
    ACCEPTED, DECIDED, DECIDED_TWICE, EFFECT_AGAIN, LATER, LEFT, LOST, NO_EFFECT, NODES, NOT_ACCEPTED,
    OF_A_GROUP, Workload,
};
use crate::{
    faults::{
        answered::{call, make_group, until_answered_but},
        calls::{code_of, consistency},
    },
    history::Level,
};

/// Pause between two reads of an application.
const PAUSE: Duration = Duration::from_millis(30);
/// Maximum number of reads for an application that has no effect yet.
const TRIES: usize = 400;

/// The answer to a decision about one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DecisionAnswer {
    accepted: bool,
    decider: i64,
}

/// A group whose owner and two admins decide the same applications.
#[derive(Debug)]
pub(super) struct DecidedGroup {
    state: Arc<Workload>,
    pub(super) group: i64,
    /// The application and the first answer about it, by user.
    decided: BTreeMap<i64, (i64, DecisionAnswer)>,
    /// Users who left after they had joined.
    left: Vec<i64>,
}

impl DecidedGroup {
    /// Creates a group, sends its applications, and has all of them decided.
    pub(super) async fn decided(state: &Arc<Workload>, group: i64) -> Result<Self> {
        let mut opened = Self { state: Arc::clone(state), group, decided: BTreeMap::new(), left: Vec::new() };
        opened.create().await?;
        let asked =
            try_join_all((1..=OF_A_GROUP).map(|number| opened.ask(i64::from(NODES) + number))).await?;
        let answers = Mutex::default();
        try_join_all((1..=i64::from(NODES)).map(|decider| opened.decide_all(decider, &asked, &answers)))
            .await?;
        opened.decided = answers.into_inner();
        opened.leave().await?;
        state.count(DECIDED, opened.decided.len() as u64);
        state.count(ACCEPTED, opened.accepted() as u64);
        state.count(LEFT, opened.left.len() as u64);
        Ok(opened)
    }

    /// Creates the group with its admins.
    async fn create(&self) -> Result<()> {
        let group = Group {
            group_id: self.group,
            name: "decided".to_owned(),
            creator_id: 1,
            join_policy: JoinPolicy::Approval.into(),
            ..Group::default()
        };
        let admins: Vec<i64> = (2..=i64::from(NODES)).collect();
        make_group(&self.state.nodes, group, admins.clone()).await?;
        for user_id in admins {
            let role = Role::Admin.into();
            let request = SetRoleRequest { group_id: self.group, user_id, role, ..Default::default() };
            let given = self.until_answered(0, request, call!(MemberServiceClient::set_role));
            given.await.context("the role is refused")?;
        }
        Ok(())
    }

    /// A user asks to join. Returns the user and the application.
    async fn ask(&self, user: i64) -> Result<(i64, i64)> {
        let request = ApplyRequest {
            kind: Kind::Join.into(),
            applicant_id: user,
            group_id: self.group,
            request_id: format!("{}-asks-{user}", self.group),
            ..ApplyRequest::default()
        };
        let answered = self.until_answered(self.at(user), request, call!(ApplicationServiceClient::apply));
        let answer = answered.await.context("an application is refused")?;
        let application = answer.application.context("an answer without application")?;
        Ok((user, application.application_id))
    }

    /// Decides all applications as one user, and compares the answers with the first answers.
    async fn decide_all(
        &self,
        decider: i64,
        asked: &[(i64, i64)],
        answers: &Mutex<BTreeMap<i64, (i64, DecisionAnswer)>>,
    ) -> Result<()> {
        let mut random = self.state.random(self.group * 8 + decider);
        for (user, id) in asked {
            let accept = random.random_ratio(2, 3);
            let answer = self.decide(decider, *id, accept).await?;
            let before = match answers.lock().entry(*user) {
                Entry::Vacant(free) => {
                    free.insert((*id, answer));
                    continue;
                }
                Entry::Occupied(known) => *known.get(),
            };
            if before.1 == answer {
                self.state.count(LATER, 1);
            } else {
                let what = format!("application {id}: {before:?}, then {answer:?} to {decider}");
                self.add_violation(DECIDED_TWICE, *user, &what);
            }
        }
        Ok(())
    }

    async fn decide(&self, decider: i64, id: i64, accept: bool) -> Result<DecisionAnswer> {
        let decision = if accept { Decision::Accept } else { Decision::Refuse };
        let request = DecideRequest {
            receiver: Some(self.receiver()),
            application_id: id,
            decision: decision.into(),
            request_id: format!("{}-{id}-{decider}", self.group),
        };
        let answered = self.until_answered(self.at(decider), request, |node, mut request| {
            act_as(&mut request, decider);
            async move { ApplicationServiceClient::new(node).decide(request).await }
        });
        match answered.await {
            Ok(answer) => answer_of(answer.application.as_ref()),
            Err(status) => late_answer(&status),
        }
    }

    /// Lets every second accepted user leave, as soon as its application is reported as effective.
    async fn leave(&mut self) -> Result<()> {
        for (user, (id, answer)) in &self.decided {
            if !answer.accepted || user % 2 == 0 {
                continue;
            }
            self.until_done(*id).await?;
            let request = LeaveRequest {
                group_id: self.group,
                user_id: *user,
                request_id: format!("{}-leaves-{user}", self.group),
            };
            let gone = self.until_answered(self.at(*user), request, call!(MemberServiceClient::leave));
            gone.await.with_context(|| format!("user {user} cannot leave group {}", self.group))?;
            self.left.push(*user);
        }
        Ok(())
    }

    async fn until_done(&self, id: i64) -> Result<()> {
        for _ in 0..TRIES {
            if self.read(id).await?.is_some_and(|found| found.effect() == Effect::Done) {
                return Ok(());
            }
            sleep(2 * PAUSE).await;
        }
        bail!("application {id} of group {} has no effect", self.group)
    }

    /// Compares the stored applications and members with the answers. Waits for outstanding effects until
    /// `until`.
    pub(super) async fn judge(&self, until: Instant) -> Result<()> {
        let mut done = BTreeMap::new();
        for (user, (id, answer)) in &self.decided {
            let mut found = self.read(*id).await?;
            while found.as_ref().is_some_and(|found| found.effect() == Effect::Outstanding)
                && Instant::now() < until
            {
                sleep(PAUSE).await;
                found = self.read(*id).await?;
            }
            if answer_of(found.as_ref()).ok() != Some(*answer) {
                self.add_violation(LOST, *user, &format!("{answer:?} was answered, {found:?} is stored"));
            }
            done.insert(*user, found.is_some_and(|found| found.effect() == Effect::Done));
        }
        for (user, is_in) in self.members().await? {
            let accepted = self.decided.get(&user).is_some_and(|(_, answer)| answer.accepted);
            let left = self.left.contains(&user);
            match (is_in, accepted, left) {
                (true, true, true) => self.add_violation(EFFECT_AGAIN, user, "the user had left"),
                (true, false, _) => self.add_violation(NOT_ACCEPTED, user, "the user was not accepted"),
                (false, true, false) => self.add_violation(NO_EFFECT, user, "the user is not a member"),
                _ if accepted && done.get(&user) != Some(&true) => {
                    self.add_violation(NO_EFFECT, user, "the application is not reported as effective");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The number of members according to the answers.
    pub(super) fn stayed(&self) -> usize {
        usize::try_from(NODES).unwrap_or(0) + self.accepted() - self.left.len()
    }

    fn accepted(&self) -> usize {
        self.decided.values().filter(|(_, answer)| answer.accepted).count()
    }

    /// Counts a violation about a user. User 0: about the group.
    pub(super) fn add_violation(&self, kind: &'static str, user: i64, what: &str) {
        let group = self.group;
        self.state.add_violation(kind, || format!("group {group}, user {user}: {what}"));
    }

    async fn members(&self) -> Result<Vec<(i64, bool)>> {
        let request = BatchIsMemberRequest {
            group_id: self.group,
            user_ids: self.decided.keys().copied().collect(),
            consistency: consistency(Level::Strong, ""),
        };
        let answered = self.until_answered(0, request, call!(MemberServiceClient::batch_is_member));
        let results = answered.await.context("the members cannot be read")?.results;
        let members = results.into_iter().map(|found| match found.result {
            Some(member_result::Result::Role(role)) => {
                Ok((found.user_id, role != i32::from(Role::Unspecified)))
            }
            other => bail!("the membership of {} is {other:?}", found.user_id),
        });
        members.collect()
    }

    async fn read(&self, id: i64) -> Result<Option<Application>> {
        let request = GetApplicationRequest { receiver: Some(self.receiver()), application_id: id };
        let answered =
            self.until_answered(self.at(id), request, call!(ApplicationServiceClient::get_application));
        Ok(answered.await.context("an application cannot be read")?.application)
    }

    /// Sends a call to one node after the other until one answers or refuses it.
    pub(super) async fn until_answered<Q, A, F>(
        &self,
        first: usize,
        request: Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Status>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        until_answered_but(&self.state.nodes, first, request, send, is_outage).await
    }

    fn at(&self, user: i64) -> usize {
        usize::try_from(user).unwrap_or(0) % self.state.nodes.len()
    }

    const fn receiver(&self) -> Receiver {
        Receiver { receiver: Some(receiver::Receiver::GroupId(self.group)) }
    }
}

fn answer_of(application: Option<&Application>) -> Result<DecisionAnswer> {
    let application = application.context("an answer without application")?;
    let accepted = match application.state() {
        State::Accepted => true,
        State::Refused => false,
        other => bail!("an application is {other:?}"),
    };
    Ok(DecisionAnswer { accepted, decider: application.decider_id })
}

/// Reads the earlier decision from the error that a later decision gets.
fn late_answer(status: &Status) -> Result<DecisionAnswer> {
    let details = status.get_error_details();
    let found = details.error_info().map(|info| &info.metadata);
    let found = found.with_context(|| format!("{status:?} has no ErrorInfo"))?;
    let text = |name: &str| found.get(name).with_context(|| format!("{status} has no {name}"));
    let accepted = match text("state")?.as_str() {
        "accepted" => true,
        "refused" => false,
        other => bail!("an application is {other}"),
    };
    Ok(DecisionAnswer { accepted, decider: text("decider_id")?.parse()? })
}

fn act_as<T>(request: &mut Request<T>, user: i64) {
    request.metadata_mut().insert("kith-acting-user", user.into());
}

/// Whether the call is sent again. If the node was killed after the head of its answer, the client reports
/// `INTERNAL` with the connection error as its source.
fn is_outage(status: &Status) -> bool {
    matches!(
        code_of(status),
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Unknown
            | Code::Aborted
            | Code::ResourceExhausted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_over_broken_connection_is_repeated() {
        let mut broken = Status::internal("error reading a body from connection");
        broken.set_source(Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        assert!(is_outage(&broken));
        assert!(!is_outage(&Status::internal("a bug of the node")));
        assert!(!is_outage(&Status::failed_precondition("decided before")));
    }

    #[test]
    fn error_without_details_reports_its_status() {
        let error = late_answer(&Status::internal("a bug of the node")).expect_err("it has no decision");
        assert!(format!("{error:#}").contains("a bug of the node"), "{error:#}");
    }
}
