//! The demo's page on a phone, and on a node with an issuer of tokens.

use std::fs;

use serde_json::{Value, json};

use crate::{
    DIRECT,
    browser::{Browser, Window},
    chat_page::SEED,
    demo::Demo,
    say,
    spawned::{Started, kith, output_of},
};

const STATE: &str = "document.getElementById('state').dataset.state";

#[tokio::test]
async fn phone_shows_pictures_and_a_lost_connection() {
    let mut demo = Demo::start();
    let mut browser = Browser::start().await;
    let phone = browser.open(&format!("{}?user=1", demo.url)).await;
    browser.resize(&phone, 390, 844).await;
    browser.until(&phone, &format!("{STATE} === 'live'")).await;
    let row = format!("document.querySelector('[data-key=\"{DIRECT}\"]')");
    assert_eq!(browser.run(&phone, &format!("{row}.querySelector('img')")).await, Value::Null);
    let picture = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==";
    let update = json!({"user": {"userId": "2", "icon": picture}, "updateMask": "icon"}).to_string();
    let call = format!(
        "fetch('/kith.user.v1.UserService/UpdateUser', {{method: 'POST', \
         headers: {{'content-type': 'application/json'}}, body: {update:?}}}).then(({{status}}) => status)"
    );
    assert_eq!(browser.run(&phone, &call).await, 200);
    browser.until(&phone, &format!("{row}.querySelector('img')?.naturalWidth === 1")).await;

    browser.run(&phone, &format!("{row}.click()")).await;
    browser.until(&phone, "document.querySelectorAll('#messages li').length === 2").await;
    say(&mut browser, &phone, &"\u{4f60}\u{597d}".repeat(80)).await;
    let overflow = "document.documentElement.scrollWidth - innerWidth";
    assert_eq!(browser.run(&phone, overflow).await, 0, "nothing is beside the screen");

    browser.run(&phone, "document.querySelector('#messages [aria-expanded]').click()").await;
    browser.until(&phone, "document.querySelectorAll('.reaction').length === 6").await;
    browser.run(&phone, "document.querySelector('.reaction').click()").await;
    let counted = "document.querySelector('.reaction[aria-pressed=\"true\"]')?.textContent === '👍 1'";
    browser.until(&phone, counted).await;
    browser.run(&phone, "document.querySelector('.reaction').click()").await;
    browser.until(&phone, "!document.querySelector('.reaction')").await;
    demo.kill();
    let about = "document.getElementById('talk-about')";
    let is_shown = format!("{about}.offsetHeight > 0 && {about}.textContent.startsWith('not connected')");
    browser.until(&phone, &is_shown).await;
    demo.start_again();
    browser.until(&phone, &format!("{about}.dataset.state === ''")).await;
    assert_eq!(browser.problems(), Vec::<Value>::new());
}

const TOKEN: &str = "document.getElementById('token')";

async fn paste(browser: &mut Browser, window: &Window, token: &str) {
    // The page may not be loaded yet.
    browser.until(window, &format!("{TOKEN}?.hidden === false")).await;
    let pasted = format!("document.getElementById('token-text').value = '{token}'");
    browser.run(window, &format!("{pasted}, {TOKEN}.requestSubmit()")).await;
}

#[tokio::test]
async fn page_asks_for_a_token_before_one_ends() {
    let _alone = crate::ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("seed.jsonl"), SEED).unwrap();
    let token = |user: &str| {
        let made = kith(folder.path(), &["token", "make", user, "--expires", "15s"]);
        let (code, token, err) = output_of(made);
        assert_eq!(code, Some(0), "{err}");
        token.trim().to_owned()
    };
    let _trial = token("7");
    let serve = ["serve", "--ephemeral", "--seed", "seed.jsonl", "--config", "trial/kith.toml"];
    let set = ["--set", "ws.enabled=true", "--set", "ws.demo=true"];
    let node = Started::new(folder.path(), &[&serve[..], &set].concat());
    let mut browser = Browser::start().await;
    let ann = browser.open(&format!("{}/demo", node.url())).await;
    paste(&mut browser, &ann, "no.token.here").await;
    browser.until(&ann, "document.getElementById('token-problem').textContent").await;
    paste(&mut browser, &ann, &token("7")).await;
    browser.until(&ann, &format!("{STATE} === 'live'")).await;
    browser.until(&ann, "document.getElementById('me-name').textContent === 'ann'").await;

    // A token of another user is refused by the page, and by the node.
    paste(&mut browser, &ann, &token("8")).await;
    browser.until(&ann, "document.getElementById('token-problem').textContent").await;
    paste(&mut browser, &ann, &token("7")).await;
    let renewed =
        "[...document.querySelectorAll('#wire li')].some((one) => one.textContent.includes('renewed'))";
    browser.until(&ann, renewed).await;
    let shown = "document.getElementById('wire').textContent";
    assert_eq!(browser.run(&ann, &format!("/eyJ/.test({shown})")).await, false, "no token is shown");

    // Signing out in place of the next token ends the session, and removes what was kept.
    browser.until(&ann, &format!("!{TOKEN}.hidden")).await;
    browser.run(&ann, "document.getElementById('token-none').click()").await;
    browser.until(&ann, &format!("{STATE} === 'signedOut'")).await;
    browser.run(&ann, "document.getElementById('leave').click()").await;
    browser.until(&ann, &format!("document.getElementById('app').hidden && !{TOKEN}.hidden")).await;
    assert_eq!(browser.run(&ann, "indexedDB.databases().then((all) => all.length)").await, 0);
    assert_eq!(browser.problems(), Vec::<Value>::new());
}
