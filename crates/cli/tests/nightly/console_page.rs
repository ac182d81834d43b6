//! The console in a browser: a record followed through the tiers of two nodes, with stale copies made by
//! hand.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    PATIENCE,
    browser::{Browser, Window},
    cluster::{
        redis::ask,
        site::{Site, variable},
    },
    image,
    polls::until,
    spawned::{FREE, Started},
};

const KEY: &str = "correct-horse-battery-staple-one-key";
/// A nickname that would be markup if the page let it.
const MARKUP: &str = "<img src=x onerror=throw>";
const VERDICT: &str = "document.getElementById('verdict').textContent";

/// Starts a node that wants the key, and waits until it trusts its memory.
async fn start(site: &Site, folder: &TempDir) -> Started {
    // A turn lasts at least five thirds of the bound.
    let set = ["--set", "observer.canary_every=500ms", "--set", "observer.bound=1s"];
    let mut command = site.command(folder.path(), &[&FREE[..], &set].concat());
    command.env("KITH_API_KEY", KEY);
    let node = Started::of(command);
    until(PATIENCE, async || node.figure("kith_bus_trusted") == 1).await;
    node
}

/// Opens a node's console and enters a key, as a person does.
async fn enter(browser: &mut Browser, node: &Started) -> Window {
    let window = browser.open(&format!("http://{}/console", node.operations())).await;
    browser.until(&window, "document.getElementById('sign-in')?.hidden === false").await;
    press_key(browser, &window, "another-key-that-no-caller-has-here").await;
    let problem = "document.getElementById('key-problem').textContent";
    browser.until(&window, &format!("{problem}.includes('CREDENTIALS_REFUSED')")).await;
    press_key(browser, &window, KEY).await;
    browser.until(&window, "!document.getElementById('main').hidden").await;
    window
}

async fn press_key(browser: &mut Browser, window: &Window, key: &str) {
    let typed = format!("document.getElementById('key').focus(), document.activeElement.value = '{key}'");
    browser.run(window, &typed).await;
    browser.press(window, "Enter").await;
}

/// Makes a call by the form, and returns the answer that is shown.
async fn call(browser: &mut Browser, window: &Window, method: &str, message: &Value) -> String {
    let script = format!(
        "(() => {{ document.getElementById('answer').hidden = true; \
         document.getElementById('method').value = '{method}'; \
         document.getElementById('message').value = {}; \
         document.getElementById('call').requestSubmit(); }})()",
        json!(message.to_string())
    );
    browser.run(window, &script).await;
    browser.until(window, "!document.getElementById('answer').hidden").await;
    let shown = "document.getElementById('answer').textContent";
    browser.run(window, shown).await.as_str().unwrap().to_owned()
}

async fn follow(browser: &mut Browser, window: &Window, key: &str) {
    let script = format!(
        "document.getElementById('record-key').value = '{key}', document.getElementById('follow').requestSubmit()"
    );
    browser.run(window, &script).await;
}

/// A script that counts the rows of copies with this tier, version and verdict.
fn rows(tier: &str, version: &str, verdict: &str) -> String {
    format!(
        "[...document.querySelectorAll('#copies tbody tr')].map((row) => [...row.cells].map(({{ textContent }}) => \
         textContent)).filter((row) => row[1] === '{tier}' && row[3] === '{version}' && \
         row[7].startsWith('{verdict}')).length"
    )
}

/// Returns the name of the user's copy in Redis.
async fn copy_in_redis(site: &Site, id: &str) -> String {
    let answer = ask(site.redis.as_ref().unwrap(), &format!("KEYS {{{}*}}:*:user:{id}", site.prefix)).await;
    answer.split(' ').next_back().filter(|name| name.starts_with('{')).expect("a copy").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn stale_copies_are_seen_in_redis_and_memory() {
    let _alone = crate::ALONE.lock().await;
    let site = Site::in_redis_of_tests();
    let url = variable("KITH_TEST_REDIS");
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let a = start(&site, &folders[0]).await;
    let mut browser = Browser::start().await;
    let of_a = enter(&mut browser, &a).await;
    let created = json!({"user": {"userId": "7", "userName": "grace", "nickName": MARKUP}});
    let shown = call(&mut browser, &of_a, "UserService/CreateUser", &created).await;
    assert!(shown.contains(MARKUP), "{shown}");
    assert_eq!(browser.run(&of_a, "document.querySelectorAll('main img').length").await, 0);

    // The record is followed from its first version to its second.
    let get = json!({"userId": "7"});
    // A read of the store also fills Redis.
    call(&mut browser, &of_a, "FlushMemory", &json!({})).await;
    call(&mut browser, &of_a, "GetUser", &get).await;
    follow(&mut browser, &of_a, "7").await;
    for tier in ["memory", "redis"] {
        browser.until(&of_a, &format!("{} === 1", rows(tier, "1", "current"))).await;
    }
    let copy = copy_in_redis(&site, "7").await;
    assert_eq!(ask(&url, &format!("COPY {copy} {copy}:old")).await, ":1");
    let update = json!({"user": {"userId": "7", "nickName": "Amazing Grace"}, "updateMask": "nickName"});
    call(&mut browser, &of_a, "UpdateUser", &update).await;
    browser.until(&of_a, &format!("{} === 1", rows("store", "2", ""))).await;
    browser.until(&of_a, &format!("{VERDICT}.endsWith('(version 2)')")).await;

    // A second node reads an old copy that was put into Redis by hand.
    let b = start(&site, &folders[1]).await;
    let of_b = enter(&mut browser, &b).await;
    assert_eq!(ask(&url, &format!("COPY {copy}:old {copy} REPLACE")).await, ":1");
    let old = call(&mut browser, &of_b, "GetUser", &get).await;
    assert!(old.contains(MARKUP), "the old copy: {old}");
    let stale = [("redis", 2), ("memory", 1)];
    for (tier, nodes) in stale {
        browser.until(&of_a, &format!("{} === {nodes}", rows(tier, "1", "STALE for at least"))).await;
    }
    browser.until(&of_a, &format!("{} === 2", rows("store", "2", ""))).await;
    browser.until(&of_a, &format!("{VERDICT}.includes('3 stale copies')")).await;
    let nodes = "[...document.querySelectorAll('#nodes tbody tr')].map((row) => row.cells[4].textContent)";
    browser
        .until(&of_a, &format!("{nodes}.length === 2 && {nodes}.every((trust) => /ago$/.test(trust))"))
        .await;
    browser.resize(&of_a, 1280, 1000).await;
    image(&mut browser, &of_a, "console").await;

    // The remedy is a call, too.
    call(&mut browser, &of_a, "InvalidateKey", &json!({"key": "user/7"})).await;
    browser.until(&of_a, &format!("{VERDICT}.startsWith('user/7: every copy is what the store has')")).await;
    browser.until(&of_a, "document.querySelectorAll('#change-list li').length > 2").await;
    looks_well(&mut browser, &of_a).await;
    assert_eq!(browser.problems(), Vec::<Value>::new());
    drop((a, b));
}

/// Checks the rest of the page: figures, errors, a phone, and that the key is in memory alone.
async fn looks_well(browser: &mut Browser, window: &Window) {
    let promise = "document.querySelector('#ages tbody tr').cells";
    browser
        .until(
            window,
            &format!("{promise}[1].textContent === '50 ms' && / ms$/.test({promise}[3].textContent)"),
        )
        .await;
    browser.until(window, "document.getElementById('callers').textContent.includes('default')").await;
    let refused = call(browser, window, "GetUser", &json!({"userId": "-1"})).await;
    assert!(refused.contains("invalid_argument"), "{refused}");
    let problem = browser.run(window, "document.getElementById('call-problem').textContent").await;
    for part in ["invalid_argument", "INVALID_FIELD", "user_id"] {
        assert!(problem.as_str().unwrap().contains(part), "{problem}");
    }
    browser.resize(window, 390, 844).await;
    let fits = "document.documentElement.scrollWidth <= innerWidth";
    assert_eq!(browser.run(window, fits).await, true, "nothing is beside the screen of a phone");
    let kept = format!(
        "[localStorage.length, sessionStorage.length, document.cookie, location.search, \
         document.documentElement.outerHTML.includes('{KEY}'), document.getElementById('key').value]"
    );
    assert_eq!(browser.run(window, &kept).await, json!([0, 0, "", "", false, ""]));
    browser.run(window, "document.getElementById('forget').click()").await;
    browser
        .until(window, "document.getElementById('main').hidden && !document.getElementById('sign-in').hidden")
        .await;
    assert_eq!(browser.run(window, "document.getElementById('nodes').textContent").await, "");
}
