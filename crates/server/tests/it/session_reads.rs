//! Counts the reads for a user who comes online.

use kith_proto::presence::v1::{OpenSessionRequest, presence_service_client::PresenceServiceClient};
use kith_server::config::Config;
use tokio::task::yield_now;

use crate::bare_node;

#[tokio::test]
async fn coming_online_reads_no_relations() {
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let (edge, services) = bare_node::serve(&file.stores(), &Config::default()).await;
    let user_id = bare_node::user(&edge, 0, "ann").await;
    let (device_id, gateway_id) = ("phone".to_owned(), "gateway".to_owned());
    let request = OpenSessionRequest { user_id, device_id, gateway_id, ..OpenSessionRequest::default() };
    PresenceServiceClient::new(edge).open_session(request).await.unwrap();
    // Tasks that were begun meanwhile get their turns.
    for _ in 0..100 {
        yield_now().await;
    }
    for name in ["follow_list_page", "block_list_page", "follow", "block"] {
        let asked = services.node.namespace(name).unwrap().stats();
        assert_eq!(asked.misses, 0, "{name}");
    }
}
