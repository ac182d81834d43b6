//! Imports present and former members, and bans, as they were elsewhere, and exports members.

use std::collections::{BTreeMap, HashSet};

use kith_proto::{member::v1 as wire, r#type::v1::ImportResult};
use kith_store::{
    Ban, EARLIER_STAYS_MAX, GroupId, MEMBERS_AT_ONCE, Member, MemberChange, MemberKey, MemberRow, Role, Seq,
    StayHistory, Timestamp, UserId, Version,
};

use super::{Members, convert, service::store_error};
use crate::{
    error::{Error, Reason, valid},
    rpc::{
        batch::{Limits, import_result, missing},
        call::{Call, Principal},
        ids,
        request::WriteContext,
        versions::{moment, past_moment},
    },
};

/// A record of an import.
#[derive(Clone, Debug)]
enum ImportedRecord {
    Member(Box<MemberRow>),
    Ban(Ban),
}

impl ImportedRecord {
    fn key(&self) -> MemberKey {
        match self {
            Self::Member(row) => row.member.key,
            Self::Ban(ban) => ban.key,
        }
    }
}

/// Imports these records. Returns each result, in the same order.
pub(super) async fn import(
    members: Members,
    limits: Limits,
    call: Call,
    records: Vec<wire::ImportMember>,
) -> Vec<ImportResult> {
    let numbers: Vec<i64> = records.iter().map(|record| record.record).collect();
    let read: Vec<_> = records.iter().map(read).collect();
    let mut results: Vec<Result<i64, Error>> = read
        .iter()
        .map(|record| record.as_ref().map(|record| record.key().user.get()).map_err(Clone::clone))
        .collect();
    for step in steps(&read) {
        let call = Call { deadline: limits.import_deadline(), ..call };
        let records: Vec<ImportedRecord> =
            step.iter().filter_map(|at| read[*at].as_ref().ok()).cloned().collect();
        let outcomes = members.import_step(records, call).await;
        for (at, outcome) in step.iter().zip(outcomes) {
            results[*at] = results[*at].clone().and_then(|user| outcome.map(|()| user));
        }
    }
    numbers.into_iter().zip(results).map(|(record, result)| import_result(record, result)).collect()
}

/// The valid records' positions in steps: each of one group and one kind, each user once, in their order.
fn steps(records: &[Result<ImportedRecord, Error>]) -> Vec<Vec<usize>> {
    let mut steps: Vec<Vec<usize>> = Vec::new();
    let mut users: HashSet<UserId> = HashSet::new();
    let mut last: Option<(GroupId, bool)> = None;
    for (at, record) in records.iter().enumerate() {
        let Ok(record) = record else { continue };
        let of = Some((record.key().group, matches!(record, ImportedRecord::Member(_))));
        if last != of || users.len() >= MEMBERS_AT_ONCE || users.contains(&record.key().user) {
            steps.push(Vec::new());
            users.clear();
            last = of;
        }
        users.insert(record.key().user);
        if let Some(step) = steps.last_mut() {
            step.push(at);
        }
    }
    steps
}

impl Members {
    /// Imports records of one group and kind. Returns each one's outcome. If they cannot be written together,
    /// each is written alone, so that none keeps the others out.
    async fn import_step(&self, records: Vec<ImportedRecord>, call: Call) -> Vec<Result<(), Error>> {
        match self.import_together(&records, call).await {
            Ok(outcomes) => outcomes,
            Err(error) if records.len() == 1 => vec![Err(error)],
            Err(_) => {
                let mut outcomes = Vec::with_capacity(records.len());
                for record in records {
                    let alone = self.import_together(&[record], call).await;
                    outcomes.extend(alone.unwrap_or_else(|error| vec![Err(error)]));
                }
                outcomes
            }
        }
    }

    /// Writes the records that are not stored yet.
    async fn import_together(
        &self,
        records: &[ImportedRecord],
        call: Call,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let before = self.are_stored(records).await?;
        let new = records.iter().zip(&before).filter(|(_, stored)| !**stored);
        self.import_change(new.map(|(record, _)| record.clone()).collect(), call).await?;
        let outcome = |(stored, after): (bool, bool)| match (stored, after) {
            (true, _) => Err(Error::new(Reason::IdTaken, "it is stored already")),
            (false, true) => Ok(()),
            (false, false) => {
                let why = "another record of the user is stored, or another owner";
                Err(Error::new(Reason::StateForbids, why))
            }
        };
        Ok(before.into_iter().zip(self.are_stored(records).await?).map(outcome).collect())
    }

    async fn import_change(&self, records: Vec<ImportedRecord>, call: Call) -> Result<(), Error> {
        let Some(group) = records.first().map(|record| record.key().group) else { return Ok(()) };
        let (mut rows, mut bans) = (Vec::new(), Vec::new());
        for record in records {
            match record {
                ImportedRecord::Member(row) => rows.push(*row),
                ImportedRecord::Ban(ban) => bans.push(ban),
            }
        }
        let change =
            if bans.is_empty() { MemberChange::Import(rows) } else { MemberChange::ImportBans(bans) };
        let context = WriteContext::of(Call { principal: Principal::Service, ..call }, 0, None)?;
        self.apply_change(group, change, context).await.map(drop)
    }

    /// Whether each of these records is stored as it was sent.
    async fn are_stored(&self, records: &[ImportedRecord]) -> Result<Vec<bool>, Error> {
        let keys: Vec<MemberKey> = records
            .iter()
            .filter(|record| matches!(record, ImportedRecord::Member(_)))
            .map(ImportedRecord::key)
            .collect();
        let rows = self.store.stored_members(&keys).await.map_err(store_error)?;
        let rows: BTreeMap<MemberKey, MemberRow> =
            rows.into_iter().flatten().map(|row| (row.member.key, row)).collect();
        let mut stored = Vec::with_capacity(records.len());
        for record in records {
            stored.push(match record {
                ImportedRecord::Member(row) => {
                    rows.get(&row.member.key).is_some_and(|found| found.is_imported(row))
                }
                ImportedRecord::Ban(ban) => {
                    let found = self.store.ban(ban.key, Timestamp::now()).await.map_err(store_error)?;
                    found == Some(*ban)
                }
            });
        }
        Ok(stored)
    }

    /// A page of a group's present and former members, by rising user id, and after which it continues.
    pub(super) async fn export_page(
        &self,
        group: GroupId,
        after: Option<UserId>,
        size: usize,
    ) -> Result<(Vec<wire::MemberRecord>, Option<i64>), Error> {
        self.group(group).await?;
        let rows = self.store.group_rows(group, after, size).await.map_err(store_error)?;
        let next = rows.last().filter(|_| rows.len() == size).map(|last| last.member.key.user.get());
        Ok((rows.iter().map(to_wire).collect(), next))
    }
}

fn to_wire(row: &MemberRow) -> wire::MemberRecord {
    let MemberRow { member, live, stays } = row;
    wire::MemberRecord {
        member: Some(convert::member_to_wire(member)),
        former: !live,
        from_seq: member.from_seq,
        joined_seq: member.joined_seq,
        left_seq: stays.left_seq,
        first_seq: stays.first_seq,
        earlier: stays
            .earlier
            .iter()
            .map(|(first, last)| wire::Stay { first: *first, last: *last })
            .collect(),
    }
}

fn read(record: &wire::ImportMember) -> Result<ImportedRecord, Error> {
    match (&record.member, &record.ban) {
        (Some(member), None) => row(member)
            .map(|row| ImportedRecord::Member(Box::new(row)))
            .map_err(|error| error.within("member")),
        (None, Some(ban)) => self::ban(ban).map(ImportedRecord::Ban).map_err(|error| error.within("ban")),
        (None, None) => Err(missing("member")),
        (Some(_), Some(_)) => Err(Error::invalid("ban", "must not be given with a member")),
    }
}

fn row(record: &wire::MemberRecord) -> Result<MemberRow, Error> {
    let sent = record.member.as_ref().ok_or_else(|| missing("member"))?;
    let joined = sent.join_time.as_ref().ok_or_else(|| missing("member.join_time"))?;
    let member = Member {
        key: convert::key(sent.group_id, sent.user_id)?,
        version: Version::NONE,
        role: role(sent.role)?,
        ordinal: 0,
        remark: valid("member.remark", Member::remark(&sent.remark))?,
        muted_until: convert::mute(sent.mute_time.as_ref())?,
        joined: past_moment("member.join_time", joined)?,
        from_seq: number("from_seq", record.from_seq)?,
        joined_seq: number("joined_seq", record.joined_seq)?,
    };
    let stays = StayHistory {
        left_seq: number("left_seq", record.left_seq)?,
        first_seq: number("first_seq", record.first_seq)?,
        earlier: earlier(&record.earlier)?,
    };
    if !record.former && stays.left_seq > 0 {
        return Err(Error::invalid("left_seq", "must be 0 for a member"));
    }
    Ok(MemberRow { member, live: !record.former, stays })
}

fn earlier(stays: &[wire::Stay]) -> Result<Vec<(Seq, Seq)>, Error> {
    let rising = stays.windows(2).all(|pair| pair[0].last < pair[1].first);
    if stays.len() > EARLIER_STAYS_MAX
        || !rising
        || stays.iter().any(|stay| stay.first < 1 || stay.last < stay.first)
    {
        let why = format!("must be at most {EARLIER_STAYS_MAX} ranges, rising and apart");
        return Err(Error::invalid("earlier", &why));
    }
    Ok(stays.iter().map(|stay| (stay.first, stay.last)).collect())
}

fn role(number: i32) -> Result<Role, Error> {
    Role::of(number.into()).ok_or_else(|| Error::invalid("member.role", "must be a role"))
}

fn number(field: &'static str, seq: Seq) -> Result<Seq, Error> {
    if seq < 0 { Err(Error::invalid(field, "must not be below 0")) } else { Ok(seq) }
}

fn ban(sent: &wire::Ban) -> Result<Ban, Error> {
    let since = sent.ban_time.as_ref().ok_or_else(|| missing("ban_time"))?;
    Ok(Ban {
        key: convert::key(sent.group_id, sent.user_id)?,
        by: match sent.banned_by {
            0 => None,
            id => Some(ids::user("banned_by", id)?),
        },
        since: past_moment("ban_time", since)?,
        until: sent.until.as_ref().map(|time| moment("until", time)).transpose()?,
    })
}
