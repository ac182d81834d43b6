//! A group's members at the end, by its list, its count and its ordinals (C13).

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use kith_proto::member::v1::{
    CountMembersRequest, ListMembersRequest, member_service_client::MemberServiceClient,
};

use super::{MISCOUNTED, NODES, OF_A_GROUP, group::DecidedGroup};
use crate::{
    faults::{answered::call, calls::consistency},
    history::Level,
};

impl DecidedGroup {
    /// Compares the member list with the count, with the ordinals, and with the users who joined and stayed.
    pub(super) async fn judge_members(&self) -> Result<()> {
        let (listed, ordinals) = self.listed().await?;
        let (counted, stayed) = (self.counted().await?, self.stayed());
        let distinct: BTreeSet<u32> = ordinals.iter().copied().collect();
        let is_counted = usize::try_from(counted) == Ok(listed);
        if !is_counted || distinct.len() != listed || listed != stayed {
            let ordinals = distinct.len();
            let what = format!("{listed} listed, {counted} counted, {ordinals} ordinals, {stayed} stayed");
            self.add_violation(MISCOUNTED, 0, &what);
        }
        Ok(())
    }

    /// The member list's length, and the members' ordinals.
    async fn listed(&self) -> Result<(usize, Vec<u32>)> {
        let request = ListMembersRequest {
            group_id: self.group,
            page_size: 2 * (i32::try_from(NODES)? + i32::try_from(OF_A_GROUP)?),
            consistency: consistency(Level::Strong, ""),
            ..ListMembersRequest::default()
        };
        let answered = self.until_answered(0, request, call!(MemberServiceClient::list_members));
        let members = answered.await.context("the members cannot be listed")?.members;
        Ok((members.len(), members.iter().map(|member| member.ordinal).collect()))
    }

    async fn counted(&self) -> Result<i64> {
        let request =
            CountMembersRequest { group_id: self.group, consistency: consistency(Level::Strong, "") };
        let answered = self.until_answered(0, request, call!(MemberServiceClient::count_members));
        let roster = answered.await.context("the members cannot be counted")?.roster;
        Ok(roster.context("an answer without roster")?.count)
    }
}
