//! Group store cases: searching by tag and name.

use super::sample::{
    applied, assert_pages, bare_group, create_group, expecting, full_group, group_id, live_group, replay,
    requested, tags, write,
};
use crate::{GroupPatch, GroupWords, NewGroup, Stores, Visibility};

async fn by_key(stores: &Stores, key: &str, after: Option<i64>, limit: usize) -> Vec<i64> {
    let groups = stores.groups.search_groups(key, after.map(group_id), limit).await.unwrap();
    groups.iter().map(|group| group.id.get()).collect()
}

async fn whole(stores: &Stores, keyword: &str) -> Vec<i64> {
    by_key(stores, &GroupWords::exact_key(keyword), None, 100).await
}

async fn beginning(stores: &Stores, keyword: &str) -> Vec<i64> {
    by_key(stores, &GroupWords::prefix_key(keyword).0, None, 100).await
}

const NONE: [i64; 0] = [];

fn tagged(id: i64, words: &[&str]) -> NewGroup {
    NewGroup { tags: tags(words), ..bare_group(id, &format!("group-{id}")) }
}

pub async fn group_is_found_by_every_form_of_full_name(stores: Stores) {
    create_group(&stores, bare_group(1, "Straße o\u{FB03}ce")).await;
    create_group(&stores, bare_group(2, "other")).await;
    for keyword in ["Straße office", "STRASSE OFFICE", "\u{FF33}trasse o\u{FB03}ce"] {
        assert_eq!(whole(&stores, keyword).await, [1], "{keyword}");
    }
}

pub async fn a_group_is_found_by_each_whole_tag(stores: Stores) {
    create_group(&stores, tagged(3, &["Chess", "go", "Jose\u{301}"])).await;
    create_group(&stores, tagged(2, &["chess"])).await;
    assert_eq!(whole(&stores, "CHESS").await, [2, 3]);
    assert_eq!(whole(&stores, "Go").await, [3]);
    assert_eq!(whole(&stores, "JOSÉ").await, [3]);
    assert_eq!(whole(&stores, "jose").await, NONE);
}

pub async fn group_is_found_by_prefix_of_tag_or_name(stores: Stores) {
    create_group(&stores, NewGroup { name: "Checkers club".into(), ..tagged(1, &["Chess"]) }).await;
    create_group(&stores, tagged(2, &["東京の会"])).await;
    for keyword in ["c", "CHE", "ches", "chess", "checkers c", "checkers club"] {
        assert_eq!(beginning(&stores, keyword).await, [1], "{keyword}");
    }
    for keyword in ["東", "東京", "東京の会", "Gro"] {
        assert_eq!(beginning(&stores, keyword).await, [2], "{keyword}");
    }
    for keyword in ["hess", "chesss", "club", "京"] {
        assert_eq!(beginning(&stores, keyword).await, NONE, "{keyword}");
    }
}

pub async fn what_is_found_is_the_whole_record(stores: Stores) {
    let created = create_group(&stores, full_group(1)).await;
    for key in [GroupWords::exact_key(&created.name), GroupWords::prefix_key("sch").0] {
        let found = stores.groups.search_groups(&key, None, 10).await.unwrap();
        assert_eq!(found, std::slice::from_ref(&created), "{key}");
    }
}

pub async fn group_is_found_once_if_name_and_tags_match(stores: Stores) {
    create_group(&stores, NewGroup { name: "chess".into(), ..tagged(1, &["Chess", "chessboard"]) }).await;
    assert_eq!(whole(&stores, "chess").await, [1]);
    assert_eq!(beginning(&stores, "chess").await, [1]);
}

pub async fn a_beginning_is_not_the_whole(stores: Stores) {
    create_group(&stores, tagged(1, &["chess"])).await;
    assert_eq!(whole(&stores, "ches").await, NONE);
    assert_eq!(by_key(&stores, "chess", None, 10).await, NONE);
    assert_eq!(by_key(&stores, "", None, 10).await, NONE);
}

pub async fn a_private_group_is_never_found(stores: Stores) {
    let group = NewGroup { visibility: Visibility::Private, ..tagged(1, &["chess"]) };
    create_group(&stores, group).await;
    for keyword in ["chess", "group-1"] {
        assert_eq!(whole(&stores, keyword).await, NONE);
        assert_eq!(beginning(&stores, keyword).await, NONE);
    }
}

async fn update(stores: &Stores, patch: GroupPatch) {
    applied(stores.groups.update_group(group_id(1), patch, write()).await.unwrap());
}

pub async fn visibility_changes_search_at_once(stores: Stores) {
    create_group(&stores, tagged(1, &["chess"])).await;
    for _ in 0..2 {
        update(&stores, GroupPatch { visibility: Some(Visibility::Private), ..GroupPatch::default() }).await;
        assert_eq!(whole(&stores, "chess").await, NONE);
        assert_eq!(beginning(&stores, "gr").await, NONE);
        update(&stores, GroupPatch { visibility: Some(Visibility::Public), ..GroupPatch::default() }).await;
        assert_eq!(whole(&stores, "chess").await, [1]);
        assert_eq!(beginning(&stores, "gr").await, [1]);
    }
}

pub async fn tags_change_search_at_once(stores: Stores) {
    create_group(&stores, tagged(1, &["chess", "go"])).await;
    update(&stores, GroupPatch { tags: Some(tags(&["go", "shogi"])), ..GroupPatch::default() }).await;
    assert_eq!(whole(&stores, "chess").await, NONE);
    assert_eq!(beginning(&stores, "ch").await, NONE);
    assert_eq!(whole(&stores, "go").await, [1]);
    assert_eq!(beginning(&stores, "sho").await, [1]);
    update(&stores, GroupPatch { tags: Some(Vec::new()), ..GroupPatch::default() }).await;
    assert_eq!(whole(&stores, "go").await, NONE);
    assert_eq!(whole(&stores, "group-1").await, [1]);
}

pub async fn a_name_changes_search_at_once(stores: Stores) {
    create_group(&stores, tagged(1, &["chess"])).await;
    update(&stores, GroupPatch { name: Some("New name".into()), ..GroupPatch::default() }).await;
    assert_eq!(whole(&stores, "group-1").await, NONE);
    assert_eq!(whole(&stores, "NEW NAME").await, [1]);
    assert_eq!(whole(&stores, "chess").await, [1]);
}

pub async fn a_patch_of_other_fields_leaves_search(stores: Stores) {
    create_group(&stores, tagged(1, &["chess"])).await;
    update(&stores, GroupPatch { history_for_new_members: Some(true), ..GroupPatch::default() }).await;
    assert_eq!(whole(&stores, "chess").await, [1]);
    assert_eq!(beginning(&stores, "group").await, [1]);
}

pub async fn a_failed_update_leaves_search(stores: Stores) {
    create_group(&stores, tagged(1, &["chess"])).await;
    let patch = GroupPatch { tags: Some(tags(&["go"])), ..GroupPatch::default() };
    stores.groups.update_group(group_id(1), patch, expecting(9)).await.unwrap_err();
    assert_eq!(whole(&stores, "chess").await, [1]);
    assert_eq!(whole(&stores, "go").await, NONE);
    stores.groups.create_group(tagged(1, &["shogi"]), write()).await.unwrap_err();
    assert_eq!(whole(&stores, "shogi").await, NONE);
}

pub async fn a_dismissed_group_is_never_found(stores: Stores) {
    let create = || stores.groups.create_group(tagged(1, &["chess"]), requested("r", 1));
    applied(create().await.unwrap());
    create_group(&stores, tagged(2, &["chess"])).await;
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    replay(create().await);
    assert_eq!(whole(&stores, "chess").await, [2]);
    assert_eq!(beginning(&stores, "group").await, [2]);
}

pub async fn recreated_group_is_not_found_by_old_words(stores: Stores) {
    create_group(&stores, tagged(1, &["chess"])).await;
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    create_group(&stores, bare_group(1, "again")).await;
    assert_eq!(whole(&stores, "chess").await, NONE);
    assert_eq!(beginning(&stores, "group").await, NONE);
    assert_eq!(whole(&stores, "again").await, [1]);
}

pub async fn pages_of_matches_have_exact_ends(stores: Stores) {
    let ids: Vec<i64> = (1..=10).map(|at| at * 3).collect();
    for id in ids.iter().rev() {
        create_group(&stores, tagged(*id, &["chess"])).await;
        create_group(&stores, tagged(id + 1, &["go"])).await;
    }
    let key = GroupWords::prefix_key("che").0;
    assert_pages(&ids, async |after, limit| {
        by_key(&stores, &key, after, limit).await.into_iter().map(|id| (id, id)).collect()
    })
    .await;
    assert_eq!(by_key(&stores, &key, Some(28), 10).await, [30]);
}

pub async fn tags_of_special_characters_match_only_exactly(stores: Stores) {
    let words = [
        ":",
        "a:b",
        "{a}",
        "{b}",
        "*",
        "?",
        "a b",
        "a  b",
        "%",
        "_",
        ".*",
        "$ne",
        "^a",
        "=a",
        "'; DROP TABLE groups;--",
        "\\",
        "\"",
        "a,b",
        "a|b",
        "[a]",
    ];
    for (id, word) in (1..).zip(words) {
        create_group(&stores, tagged(id, &[word])).await;
    }
    for (id, word) in (1..).zip(words) {
        assert_eq!(whole(&stores, word).await, [id], "{word}");
        assert_eq!(live_group(&stores, id).await.tags, [word]);
    }
    assert_eq!(whole(&stores, "a").await, NONE);
}
