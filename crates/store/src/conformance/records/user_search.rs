//! User store cases: searching by name, email and phone.

use super::sample::{
    applied, assert_pages, bare_user, create_user, delete_and_release, full_user, live_user, name, user_id,
    write,
};
use crate::{Email, Keyword, NewUser, Phone, Stores, Timestamp, User, UserPatch};

async fn search(stores: &Stores, keyword: &str, after: Option<i64>, limit: usize) -> Vec<User> {
    let keyword = Keyword::new(keyword).unwrap();
    stores.users.search_users(&keyword, after.map(user_id), limit).await.unwrap()
}

async fn found(stores: &Stores, keyword: &str) -> Vec<i64> {
    search(stores, keyword, None, 100).await.iter().map(|user| user.id.get()).collect()
}

fn with_email(id: i64, email: &str) -> NewUser {
    NewUser { email: Some(Email::new(email).unwrap()), ..bare_user(id, &format!("user-{id}")) }
}

fn with_phone(id: i64, phone: &str) -> NewUser {
    NewUser { phone: Some(Phone::new(phone).unwrap()), ..bare_user(id, &format!("user-{id}")) }
}

pub async fn user_is_found_by_every_form_of_full_name(stores: Stores) {
    create_user(&stores, bare_user(1, "Straße o\u{FB03}ce")).await;
    create_user(&stores, bare_user(2, "other")).await;
    for keyword in ["Straße office", "STRASSE OFFICE", "\u{FF33}trasse o\u{FB03}ce", "strasse office "] {
        assert_eq!(found(&stores, keyword).await, [1], "{keyword}");
    }
}

pub async fn a_user_is_found_by_email_in_any_case(stores: Stores) {
    create_user(&stores, with_email(1, "Ann.Lee@Example.ORG")).await;
    create_user(&stores, with_email(2, "bob@example.org")).await;
    for keyword in ["Ann.Lee@Example.ORG", "ann.lee@example.org", "ANN.LEE@EXAMPLE.ORG"] {
        assert_eq!(found(&stores, keyword).await, [1], "{keyword}");
    }
}

pub async fn a_user_is_found_by_phone(stores: Stores) {
    create_user(&stores, with_phone(1, "+8613800138000")).await;
    create_user(&stores, with_phone(2, "+8613800138001")).await;
    assert_eq!(found(&stores, "+8613800138000").await, [1]);
    assert_eq!(found(&stores, "8613800138000").await, [0_i64; 0]);
}

pub async fn phone_is_found_as_people_write_it(stores: Stores) {
    create_user(&stores, with_phone(1, "+491701234567")).await;
    create_user(&stores, bare_user(2, "+49 170 1234567")).await;
    for keyword in ["0049 170 1234567", "+49-170-1234567", "\u{202A}+49 (0)170 1234567\u{202C}"] {
        assert_eq!(found(&stores, keyword).await, [1], "{keyword}");
    }
    assert_eq!(found(&stores, "+49 170 1234567").await, [1, 2], "a name and a number");
    assert_eq!(found(&stores, "0170 1234567").await, [0_i64; 0]);
}

pub async fn email_is_found_by_both_forms_of_its_host(stores: Stores) {
    create_user(&stores, with_email(1, "ann@bücher.example")).await;
    create_user(&stores, with_email(2, "Ann@xn--bcher-kva.example")).await;
    for keyword in ["ANN@BÜCHER.example", "ann@XN--BCHER-KVA.example", " \u{202A}ann@bücher.example\u{202C}"]
    {
        assert_eq!(found(&stores, keyword).await, [1, 2], "{keyword}");
    }
    assert_eq!(live_user(&stores, 1).await.email, "ann@bücher.example");
}

pub async fn what_is_found_is_the_whole_record(stores: Stores) {
    let created = create_user(&stores, full_user(1)).await;
    for keyword in [&created.user_name, &created.email, &created.phone] {
        assert_eq!(search(&stores, keyword, None, 10).await, std::slice::from_ref(&created));
    }
}

pub async fn part_of_a_name_finds_no_user(stores: Stores) {
    create_user(&stores, NewUser { nick_name: "Annie".into(), ..with_email(1, "ann@example.org") }).await;
    for keyword in ["user", "user-", "user-11", "ser-1", "ann", "example.org", "@", "Annie"] {
        assert_eq!(found(&stores, keyword).await, [0_i64; 0], "{keyword}");
    }
}

pub async fn a_user_is_found_once_though_two_fields_match(stores: Stores) {
    let both = NewUser { user_name: name("ANN@example.org"), ..with_email(1, "ann@example.org") };
    create_user(&stores, both).await;
    let phone = NewUser { user_name: name("+15551234567"), ..with_phone(2, "+15551234567") };
    create_user(&stores, phone).await;
    assert_eq!(found(&stores, "ann@example.org").await, [1]);
    assert_eq!(found(&stores, "+15551234567").await, [2]);
}

pub async fn users_who_share_an_email_are_all_found(stores: Stores) {
    for (id, email) in [(30, "desk@example.org"), (4, "DESK@example.org"), (11, "Desk@Example.Org")] {
        create_user(&stores, with_email(id, email)).await;
    }
    assert_eq!(found(&stores, "desk@example.org").await, [4, 11, 30]);
}

pub async fn pages_of_matches_have_exact_ends(stores: Stores) {
    let ids: Vec<i64> = (1..=10).map(|at| at * 3).collect();
    for id in ids.iter().rev() {
        create_user(&stores, with_email(*id, "desk@example.org")).await;
    }
    assert_pages(&ids, async |after, limit| {
        let page = search(&stores, "desk@example.org", after, limit).await;
        page.iter().map(|user| (user.id.get(), user.id.get())).collect()
    })
    .await;
    assert_eq!(search(&stores, "desk@example.org", Some(28), 10).await, [live_user(&stores, 30).await]);
}

pub async fn pages_join_matches_of_name_email_and_phone(stores: Stores) {
    const NUMBER: &str = "+15551234567";
    for id in [2, 4, 6, 8] {
        create_user(&stores, with_phone(id, NUMBER)).await;
    }
    create_user(&stores, bare_user(5, NUMBER)).await;
    create_user(&stores, NewUser { email: Some(Email::new("5@x").unwrap()), ..bare_user(1, "unrelated") })
        .await;
    let page = async |after, limit| {
        search(&stores, NUMBER, after, limit).await.iter().map(|user| user.id.get()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, [2, 4]);
    assert_eq!(page(Some(4), 2).await, [5, 6]);
    assert_eq!(page(Some(6), 2).await, [8]);
    assert_eq!(page(Some(8), 2).await, [0_i64; 0]);
}

/// Texts that mean something to a pattern, a query language or a path.
const TRICKS: [&str; 14] = [
    ".*",
    "(a+)+$",
    "^",
    "%",
    "_",
    "a%",
    "'",
    "\"",
    "' OR 1=1 --",
    "$ne",
    "{\"$ne\": null}",
    "*",
    "\\",
    "a.b",
];

pub async fn keywords_are_never_patterns_or_operators(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    create_user(&stores, bare_user(2, "a")).await;
    create_user(&stores, bare_user(3, "ab")).await;
    for keyword in TRICKS {
        assert_eq!(found(&stores, keyword).await, [0_i64; 0], "{keyword}");
    }
}

pub async fn names_like_patterns_match_only_themselves(stores: Stores) {
    for (id, text) in (1..).zip(TRICKS) {
        create_user(&stores, bare_user(id, text)).await;
    }
    for (id, text) in (1..).zip(TRICKS) {
        assert_eq!(found(&stores, text).await, [id], "{text}");
    }
}

pub async fn missing_email_and_phone_match_no_keyword(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    create_user(&stores, bare_user(2, "null")).await;
    assert_eq!(found(&stores, "null").await, [2]);
    assert_eq!(found(&stores, "undefined").await, [0_i64; 0]);
}

pub async fn a_deleted_user_is_never_found(stores: Stores) {
    let user = create_user(&stores, full_user(1)).await;
    delete_and_release(&stores, 1, write().now.after(crate::REQUEST_KEPT)).await;
    for keyword in [&user.user_name, &user.email, &user.phone] {
        assert_eq!(found(&stores, keyword).await, [0_i64; 0]);
    }
    create_user(&stores, bare_user(1, "again")).await;
    for keyword in [&user.user_name, &user.email, &user.phone] {
        assert_eq!(found(&stores, keyword).await, [0_i64; 0]);
    }
    assert_eq!(found(&stores, "again").await, [1]);
}

pub async fn changed_fields_match_only_new_values(stores: Stores) {
    let old = create_user(&stores, full_user(1)).await;
    let patch = UserPatch {
        user_name: Some(name("new")),
        email: Some(Some(Email::new("New@example.org").unwrap())),
        phone: Some(Some(Phone::new("+4912345678").unwrap())),
        ..UserPatch::default()
    };
    applied(stores.users.update_user(user_id(1), patch, write()).await.unwrap());
    for keyword in ["NEW", "new@EXAMPLE.org", "+4912345678"] {
        assert_eq!(found(&stores, keyword).await, [1], "{keyword}");
    }
    for keyword in [&old.user_name, &old.email, &old.phone] {
        assert_eq!(found(&stores, keyword).await, [0_i64; 0]);
    }
}

pub async fn removed_fields_are_found_no_more(stores: Stores) {
    let old = create_user(&stores, full_user(1)).await;
    let patch = UserPatch { email: Some(None), phone: Some(None), ..UserPatch::default() };
    stores.users.update_user(user_id(1), patch, write()).await.unwrap();
    for keyword in [&old.email, &old.phone] {
        assert_eq!(found(&stores, keyword).await, [0_i64; 0]);
    }
    assert_eq!(found(&stores, &old.user_name).await, [1]);
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    assert_eq!(found(&stores, &old.user_name).await, [0_i64; 0]);
}
