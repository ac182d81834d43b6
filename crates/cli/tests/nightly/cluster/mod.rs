//! Several nodes over one MongoDB and one Redis: like the short tests, with more records, calls and rounds.

#[path = "../../processes/cluster/notice_model.rs"]
pub(crate) mod notice_model;
#[path = "../../processes/cluster/redis.rs"]
pub(crate) mod redis;
#[path = "../../processes/cluster/site.rs"]
pub(crate) mod site;

use self::notice_model::{Size, random_marks_equal_a_plain_model};
use crate::ALONE;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn marks_of_100000_readers_equal_a_plain_model() {
    let _alone = ALONE.lock().await;
    let many = Size { audiences: 3, readers: 33_334, notices: 50, callers: 64, calls: 2 };
    random_marks_equal_a_plain_model(many).await;
}
