//! Group search through the tiers: every search that begins after a write sees its effect.

use crate::counting_store;
use crate::node::{TestNode, params, update_of_group};
use kith_proto::{
    admin::v1::GetCacheStatsRequest,
    group::v1::{group_service_client::GroupServiceClient, *},
    r#type::v1::{Consistency, consistency},
};
use kith_server::edge::Edge;
use tonic::transport::Channel;

fn public(name: &str, tags: &[&str]) -> Group {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    Group { name: name.into(), tags, visibility: Visibility::Public.into(), ..Default::default() }
}

fn create(group: Group) -> CreateGroupRequest {
    CreateGroupRequest { group: Some(group), ..Default::default() }
}

fn prefix(keyword: &str) -> SearchGroupsRequest {
    let r#match = KeywordMatch::Prefix.into();
    SearchGroupsRequest { keyword: keyword.into(), r#match, ..Default::default() }
}

fn exact(keyword: &str) -> SearchGroupsRequest {
    SearchGroupsRequest { r#match: KeywordMatch::Exact.into(), ..prefix(keyword) }
}

fn ids(found: &SearchGroupsResponse) -> Vec<i64> {
    found.groups.iter().map(|group| group.group_id).collect()
}

/// Searches that both kinds of clients make here.
trait Search {
    async fn found(&self, request: SearchGroupsRequest) -> SearchGroupsResponse;

    async fn ids(&self, request: SearchGroupsRequest) -> Vec<i64> {
        ids(&self.found(request).await)
    }
}

impl Search for GroupServiceClient<Channel> {
    async fn found(&self, request: SearchGroupsRequest) -> SearchGroupsResponse {
        self.clone().search_groups(request).await.unwrap().into_inner()
    }
}

impl Search for GroupServiceClient<Edge> {
    async fn found(&self, request: SearchGroupsRequest) -> SearchGroupsResponse {
        self.clone().search_groups(request).await.unwrap().into_inner()
    }
}

/// Returns searches of each kind that would find a group called `Chess at noon`, tagged `games`.
fn searches() -> Vec<SearchGroupsRequest> {
    let mut all: Vec<_> = ["c", "ch", "che", "Chess a", "g", "gam"].map(prefix).into();
    all.extend(["chess at noon", "GAMES"].map(exact));
    all
}

/// Checks that all searches find just these groups.
async fn assert_found(groups: &GroupServiceClient<Channel>, wanted: &[i64], when: &str) {
    for search in searches() {
        assert_eq!(groups.ids(search.clone()).await, wanted, "{when}: {search:?}");
    }
}

#[tokio::test]
async fn group_is_found_until_its_dismissal() {
    let node = TestNode::start().await;
    let mut groups = node.groups();
    assert_found(&groups, &[], "before").await;
    let id = node.group(public("Chess at noon", &["games"])).await.group_id;
    assert_found(&groups, &[id], "created").await;
    groups.dismiss_group(DismissGroupRequest { group_id: id, ..Default::default() }).await.unwrap();
    assert_found(&groups, &[], "dismissed").await;
    let again = Group { group_id: id, ..public("Chess at noon", &["games"]) };
    groups.create_group(create(again)).await.unwrap();
    assert_found(&groups, &[id], "created again").await;
}

#[tokio::test]
async fn a_group_is_found_by_the_words_that_it_has_now() {
    let node = TestNode::start().await;
    let mut groups = node.groups();
    let id = node.group(public("Draughts", &["board"])).await.group_id;
    assert_found(&groups, &[], "with other words").await;
    assert_eq!(groups.ids(prefix("bo")).await, [id]);
    let named = Group { group_id: id, name: "Chess at noon".into(), ..Default::default() };
    groups.update_group(update_of_group(named, &["name"])).await.unwrap();
    let tagged = Group { group_id: id, tags: vec!["games".into()], ..Default::default() };
    groups.update_group(update_of_group(tagged, &["tags"])).await.unwrap();
    assert_found(&groups, &[id], "with these words").await;
    assert!(groups.ids(prefix("bo")).await.is_empty());
    assert!(groups.ids(exact("draughts")).await.is_empty());
    let named = Group { group_id: id, name: "Draughts".into(), ..Default::default() };
    groups.update_group(update_of_group(named, &["name"])).await.unwrap();
    assert_eq!((groups.ids(exact("draughts")).await, groups.ids(prefix("chess")).await), (vec![id], vec![]));
}

#[tokio::test]
async fn a_group_is_found_while_it_is_public() {
    let node = TestNode::start().await;
    let mut groups = node.groups();
    let id = node.group(public("Chess at noon", &["games"])).await.group_id;
    assert_found(&groups, &[id], "public").await;
    let seen_by =
        |visibility: Visibility| Group { group_id: id, visibility: visibility.into(), ..Default::default() };
    groups.update_group(update_of_group(seen_by(Visibility::Private), &["visibility"])).await.unwrap();
    assert_found(&groups, &[], "private").await;
    groups.update_group(update_of_group(seen_by(Visibility::Public), &["visibility"])).await.unwrap();
    assert_found(&groups, &[id], "public again").await;
}

#[tokio::test]
async fn pages_hold_all_unchanged_groups() {
    let node = TestNode::start().await;
    let mut groups = node.groups();
    let mut stood = Vec::new();
    for at in 0..10 {
        stood.push(node.group(public(&format!("Chess {at}"), &["games"])).await.group_id);
    }
    let mut request = SearchGroupsRequest { page_size: 3, ..exact("games") };
    let mut found = Vec::new();
    for turn in 0.. {
        let page = groups.found(request.clone()).await;
        assert!(page.groups.len() <= 3);
        found.extend(ids(&page));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
        let gone = stood.remove(turn);
        groups.dismiss_group(DismissGroupRequest { group_id: gone, ..Default::default() }).await.unwrap();
        node.group(public("Chess, later", &["games"])).await;
    }
    assert!(found.is_sorted() && stood.iter().all(|id| found.contains(id)), "{found:?} of {stood:?}");
}

#[tokio::test]
async fn groups_created_during_searches_are_found() {
    let node = TestNode::start().await;
    let writers = (0..8).map(|writer| {
        let (mut groups, reader) = (node.groups(), node.groups());
        tokio::spawn(async move {
            for at in 0..12 {
                let tag = format!("chess {}", at % 3);
                let group = public(&format!("{writer} {at}"), &[&tag]);
                let id =
                    groups.create_group(create(group)).await.unwrap().into_inner().group.unwrap().group_id;
                for search in [exact(&tag), prefix("chess"), prefix("c")] {
                    let search = SearchGroupsRequest { page_size: 1_000, ..search };
                    assert!(reader.ids(search).await.contains(&id), "its own group");
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let all = SearchGroupsRequest { page_size: 1_000, ..prefix("chess") };
    assert_eq!(node.groups().ids(all).await.len(), 96);
}

#[tokio::test]
async fn searches_are_in_the_figures_of_the_tiers() {
    let node = TestNode::start().await;
    for _ in 0..5 {
        node.groups().ids(prefix("chess")).await;
    }
    let stats = node.admin().get_cache_stats(GetCacheStatsRequest {}).await.unwrap().into_inner().namespaces;
    let of = |name: &str| stats.iter().find(|stats| stats.namespace == name).unwrap();
    assert_eq!((of("group_search_page").hits, of("group_search_page").loads), (4, 1));
    assert_eq!(of("group_search_epoch").entries, 1);
    assert!(
        stats.iter().all(|stats| stats.weight_limit_bytes == 256 << 20),
        "what is configured for all together"
    );
}

#[tokio::test]
async fn strong_search_always_asks_the_store() {
    let (groups, store, _file) = counting_store::node().await;
    let mut writer = groups.clone();
    writer.create_group(create(public("Chess", &[]))).await.unwrap();
    for _ in 0..3 {
        assert_eq!(groups.found(prefix("che")).await.groups.len(), 1);
        assert_eq!(groups.found(exact("chess")).await.groups.len(), 1);
    }
    assert_eq!(store.searches(), 2);
    writer.create_group(create(public("Go", &["board"]))).await.unwrap();
    groups.found(prefix("che")).await;
    assert_eq!(store.searches(), 2, "a group of other words leaves the page alone");
    let level = Some(consistency::Level::Strong(true));
    let strong = SearchGroupsRequest { consistency: Some(Consistency { level }), ..prefix("che") };
    assert_eq!(groups.found(strong.clone()).await.groups.len(), 1);
    assert_eq!(groups.found(strong).await.groups.len(), 1);
    assert_eq!(store.searches(), 4);
}

#[tokio::test]
async fn cached_page_shows_current_records() {
    let (groups, store, _file) = counting_store::node().await;
    let mut writer = groups.clone();
    let group = writer.create_group(create(public("Chess", &[]))).await.unwrap().into_inner().group.unwrap();
    assert_eq!(groups.found(exact("chess")).await.groups, std::slice::from_ref(&group));
    let changed = Group { group_id: group.group_id, params: params([("lang", "zh")]), ..Default::default() };
    let changed = writer
        .update_group(update_of_group(changed, &["params.lang"]))
        .await
        .unwrap()
        .into_inner()
        .group
        .unwrap();
    assert_eq!(groups.found(exact("chess")).await.groups, [changed]);
    assert_eq!(store.searches(), 1);
}

#[tokio::test]
async fn write_with_lost_answer_is_searched() {
    let (groups, store, _file) = counting_store::node().await;
    let mut writer = groups.clone();
    assert!(groups.ids(exact("chess")).await.is_empty());
    store.lose_answer();
    let request = CreateGroupRequest { request_id: "lost-1".into(), ..create(public("Chess", &[])) };
    writer.create_group(request.clone()).await.unwrap_err();
    let found = groups.ids(exact("chess")).await;
    assert_eq!(found.len(), 1);
    let again = writer.create_group(request).await.unwrap().into_inner().group.unwrap();
    assert_eq!(groups.ids(exact("chess")).await, [again.group_id]);
}

#[tokio::test]
async fn search_during_a_write_leaves_no_old_page() {
    let (groups, store, _file) = counting_store::node().await;
    let mut writer = groups.clone();
    let held = store.hold_search();
    let searcher = groups.clone();
    let before = tokio::spawn(async move { searcher.ids(prefix("che")).await });
    held.reached.await.unwrap();
    let group = writer.create_group(create(public("Chess", &[]))).await.unwrap().into_inner().group.unwrap();
    assert_eq!(groups.ids(prefix("che")).await, [group.group_id], "it waits for no search of before");
    held.release.send(()).unwrap();
    assert_eq!(before.await.unwrap(), [group.group_id], "the list changed meanwhile: it looks again");
    assert_eq!(groups.ids(prefix("che")).await, [group.group_id]);
}
