//! Members: plans, rows from older versions.

use kith_store::{ChangeContext, ConversationId, FormerMember, GroupId, MemberChange, MemberKey};

use super::{message::message, *};
use crate::member::{self, ban};

#[tokio::test]
async fn member_queries_seek_in_their_index() {
    let handle = open_in_memory().await.unwrap();
    for (sql, expected) in [
        (member::BY_KEYS.sql(500), "members USING PRIMARY KEY (group_id=? AND user_id=?)"),
        (member::ROSTERS.sql(500), "rosters USING INTEGER PRIMARY KEY (rowid=?)"),
        (member::ALL, "members USING PRIMARY KEY (group_id=? AND user_id>?)"),
        (member::LIST, "members USING INDEX members_living (group_id=? AND user_id>?)"),
        (member::ABOVE, "members USING INDEX members_above (group_id=? AND user_id>?)"),
        (member::GROUPS, "members USING COVERING INDEX members_groups (user_id=? AND group_id>?)"),
        (
            member::CHANGES,
            "members USING COVERING INDEX members_changed (group_id=? AND (version,user_id)>(?,?))",
        ),
        (member::MUTED, "members USING INDEX members_muted (group_id=?)"),
        (ban::BY_KEY, "bans USING PRIMARY KEY (group_id=? AND user_id=?)"),
        (ban::LIST, "bans USING PRIMARY KEY (group_id=? AND user_id>?)"),
        (ban::GROUPS, "bans USING COVERING INDEX bans_user (user_id=? AND group_id>?)"),
        (ban::COUNT, "bans USING PRIMARY KEY (group_id=?)"),
        (ban::EXPIRE, "bans USING PRIMARY KEY (group_id=?)"),
        (ban::REMOVE, "bans USING PRIMARY KEY (group_id=? AND user_id=?)"),
    ] {
        let plan = plan(&handle, sql).await.join("\n");
        assert!(plan.contains(expected) && !plan.contains("TEMP B-TREE"), "{expected}\n{plan}");
    }
}

#[tokio::test]
async fn row_without_ranges_opens_nothing() {
    let handle = open_in_memory().await.unwrap();
    // Migration 10 leaves the rows that it meets like this. User 2 has left, 3 is a member.
    let rows = |connection: &Connection| {
        Ok(connection.execute_batch(
            "INSERT INTO rosters (id, version, count, ordinals) VALUES (9, 3, 1, 2);
             INSERT INTO members (group_id, user_id, version, live, role, ordinal, remark, joined_ms)
             VALUES (9, 2, 2, 0, 1, 0, '', 0), (9, 3, 3, 1, 1, 1, '', 0)",
        )?)
    };
    handle.sqlite.writer.exclusively(rows).await.unwrap();
    let (stores, group) = (handle.stores(), GroupId::new(9).unwrap());
    let [left, stays] = [2, 3].map(|user| MemberKey { group, user: id(user) });
    stores.messages.append(ConversationId::Group(group), &[message("a")]).await.unwrap();
    assert_eq!(stores.members.former(&[left, stays]).await.unwrap(), [None, None]);
    let found = stores.members.members(&[stays]).await.unwrap()[0].1.clone().live().unwrap();
    assert_eq!((found.from_seq, found.joined_seq), (0, 0));
    let terms = ChangeContext { by: None, members_max: 9, bans_max: 9, history: false };
    let leave = MemberChange::Leave(stays.user);
    stores.members.change_members(group, leave, terms, write()).await.unwrap();
    let open = FormerMember { from_seq: 0, left_seq: 1 };
    assert_eq!(stores.members.former(&[left, stays]).await.unwrap(), [None, Some(open)]);
}
