//! Applications: plans.

use super::*;
use crate::application;

#[tokio::test]
async fn application_queries_seek_in_their_index() {
    let handle = open_in_memory().await.unwrap();
    let by_key = "USING PRIMARY KEY (side=? AND receiver=? AND id=?)";
    for (sql, expected) in [
        (application::PENDING, "dockets USING PRIMARY KEY (side=? AND receiver=?)"),
        (application::BY_ID, by_key),
        (
            application::BY_SLOT,
            "applications USING INDEX applications_slot (side=? AND receiver=? AND kind=? AND origin=?)",
        ),
        (application::LIST, "l USING PRIMARY KEY (list=? AND owner=? AND id>?)"),
        (application::LIST, by_key),
        (application::LISTED, "l USING PRIMARY KEY (list=? AND owner=? AND id=?)"),
        (application::OUTSTANDING, "INDEX applications_outstanding (decided_ms<?)"),
        (application::EXPIRING, "INDEX applications_expiring (expires_ms<?)"),
        (application::FORGOTTEN, "applications USING INDEX applications_forgotten (forget_ms<?)"),
    ] {
        let plan = plan(&handle, sql).await.join("\n");
        assert!(plan.contains(expected) && !plan.contains("TEMP B-TREE"), "{expected}\n{plan}");
    }
}
