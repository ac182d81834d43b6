//! Members: plans.

use super::*;
use crate::{ban, member};

#[tokio::test]
async fn each_query_of_members_is_read_from_its_index_at_the_place_where_it_goes_on() {
    let handle = open_in_memory().await.unwrap();
    for (sql, expected) in [
        (member::BY_KEYS.sql(500), "members USING PRIMARY KEY (group_id=? AND user_id=?)"),
        (member::ROSTERS.sql(500), "rosters USING INTEGER PRIMARY KEY (rowid=?)"),
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
