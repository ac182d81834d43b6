//! Application store cases: lists by pages, and their owners' marks.

use super::{
    application_sample::{create, friend, list, long_ago, shown, try_decide},
    sample::{assert_fails, group_id, user_id},
};
use crate::{
    APPLICATIONS_AT_ONCE, ApplicationId, ApplicationList, ApplicationMark, ApplicationPurpose,
    ApplicationState, Decision, StoreError, Stores, Timestamp,
};

fn sent(id: i64) -> ApplicationList {
    ApplicationList::Sent(user_id(id))
}

fn received(id: i64) -> ApplicationList {
    ApplicationList::Received(user_id(id))
}

fn of_group(id: i64) -> ApplicationList {
    ApplicationList::Group(group_id(id))
}

pub async fn application_is_listed_for_both_sides(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let expected = [(made.id, ApplicationState::Pending)];
    assert_eq!(shown(&stores, sent(1)).await, expected);
    assert_eq!(shown(&stores, received(2)).await, expected);
    for other in [received(1), sent(2), of_group(1), of_group(2)] {
        assert_eq!(shown(&stores, other).await, []);
    }
    assert_eq!(list(&stores, received(2)).await[0].application, made);
}

pub async fn application_to_group_is_listed_for_admins(stores: Stores) {
    let made = create(&stores, 5, ApplicationPurpose::Join(group_id(9))).await;
    let expected = [(made.id, ApplicationState::Pending)];
    for list in [sent(5), of_group(9), received(1), received(2)] {
        assert_eq!(shown(&stores, list).await, expected, "{list:?}");
    }
    assert_eq!(shown(&stores, received(9)).await, []);
}

pub async fn invite_is_in_the_list_of_the_group_too(stores: Stores) {
    let made = create(&stores, 1, ApplicationPurpose::Invite(group_id(9), user_id(5))).await;
    for list in [sent(1), of_group(9), received(5)] {
        assert_eq!(shown(&stores, list).await, [(made.id, ApplicationState::Pending)], "{list:?}");
    }
}

pub async fn lists_show_what_was_decided(stores: Stores) {
    let made = create(&stores, 5, ApplicationPurpose::Join(group_id(9))).await;
    let decided = try_decide(&stores, made.key(), Decision::Refuse, 2).await.unwrap();
    for of in [sent(5), of_group(9), received(1), received(2)] {
        let listed = list(&stores, of).await;
        assert_eq!((listed.len(), &listed[0].application), (1, &decided), "{of:?}");
    }
}

pub async fn list_is_paged_by_rising_id(stores: Stores) {
    let mut ids = Vec::new();
    for applicant in 10..17 {
        ids.push(create(&stores, applicant, friend(2)).await.id);
    }
    let (mut listed_ids, mut after) = (Vec::<ApplicationId>::new(), long_ago());
    for expected in [3, 3, 1, 0] {
        let page = stores.applications.list_applications(received(2), after, 3).await.unwrap();
        assert_eq!(page.len(), expected);
        listed_ids.extend(page.iter().map(|listed| listed.application.id));
        after = listed_ids.last().copied().unwrap();
    }
    assert_eq!(listed_ids, ids);
    assert_eq!(stores.applications.list_applications(received(2), long_ago(), 0).await.unwrap(), []);
}

pub async fn first_note_wins(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let first = made.created;
    let mark = |mark, seconds: i64| {
        let at = Timestamp(first.0 + 1000 * seconds);
        stores.applications.mark_applications(received(2), std::slice::from_ref(&made.id), mark, at)
    };
    let noted = mark(ApplicationMark::Received, 1).await.unwrap();
    assert_eq!((noted[0].received, noted[0].read), (Some(Timestamp(first.0 + 1000)), None));
    mark(ApplicationMark::Received, 2).await.unwrap();
    mark(ApplicationMark::Read, 3).await.unwrap();
    let noted = mark(ApplicationMark::Read, 4).await.unwrap();
    let expected = (Some(Timestamp(first.0 + 1000)), Some(Timestamp(first.0 + 3000)));
    assert_eq!((noted[0].received, noted[0].read), expected);
    try_decide(&stores, made.key(), Decision::Refuse, 2).await.unwrap();
    let listed = list(&stores, received(2)).await;
    assert_eq!((listed[0].received, listed[0].read), expected);
}

pub async fn each_side_notes_for_itself(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let read = ApplicationMark::Read;
    stores.applications.mark_applications(received(2), &[made.id], read, made.created).await.unwrap();
    let (there, here) = (list(&stores, received(2)).await, list(&stores, sent(1)).await);
    assert_eq!((there[0].received, there[0].read), (Some(made.created), Some(made.created)));
    assert_eq!((here[0].received, here[0].read), (None, None));
}

pub async fn what_is_not_in_a_list_is_not_noted(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let ids = [long_ago(), made.id];
    let now = Timestamp::now();
    let noted = stores.applications.mark_applications(received(3), &ids, ApplicationMark::Read, now).await;
    assert_eq!(noted.unwrap(), []);
    assert_eq!(list(&stores, received(3)).await, []);
    let noted = stores.applications.mark_applications(received(2), &ids, ApplicationMark::Read, now).await;
    assert_eq!(noted.unwrap().len(), 1);
    assert_eq!(list(&stores, received(2)).await.len(), 1);
}

pub async fn no_more_are_noted_at_once_than_may_be(stores: Stores) {
    let ids = vec![long_ago(); APPLICATIONS_AT_ONCE + 1];
    let now = Timestamp::now();
    assert_fails!(
        stores.applications.mark_applications(received(2), &ids, ApplicationMark::Read, now).await,
        StoreError::Overloaded
    );
}
