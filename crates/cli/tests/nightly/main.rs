//! Long tests, run by `cargo xtask nightly`: two browser windows, which need Chromium and report if there is
//! none; and keys that are swapped for a minute.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod browser;
mod chat_page;
#[cfg(feature = "cluster")]
#[allow(dead_code, reason = "short tests use more of it")]
mod cluster;
#[cfg(feature = "cluster")]
mod console_page;
mod demo;
mod demo_page;
#[path = "../processes/polls.rs"]
mod polls;
#[cfg(feature = "cluster")]
#[path = "../processes/port/mod.rs"]
mod port;
mod rebinding;
#[path = "../processes/rotation/mod.rs"]
mod rotation;
#[path = "../processes/spawned/mod.rs"]
mod spawned;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use browser::{Browser, Window};
use demo::Demo;
use rotation::{Pace, keys_are_swapped_under_load};
use serde_json::{Value, json};

/// Lets these tests run one at a time: a test that keeps the processors busy would make another late.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
/// The variable with the folder to which the documents' images are written.
const IMAGES: &str = "KITH_TEST_IMAGES";
const DIRECT: &str = "d1-2";

#[tokio::test]
async fn two_windows_talk_while_the_node_is_killed() {
    let mut demo = Demo::start();
    let mut browser = Browser::start().await;
    shot(&mut browser, &demo.url, "demo-choose").await;
    let ann = browser.open(&format!("{}?user=1", demo.url)).await;
    let bea = browser.open(&format!("{}?user=2", demo.url)).await;
    for window in [&ann, &bea] {
        browser.until(window, "document.getElementById('state').dataset.state === 'live'").await;
        browser.run(window, &format!("document.querySelector('[data-key=\"{DIRECT}\"]').click()")).await;
        browser.until(window, "document.querySelectorAll('#messages li').length === 2").await;
    }
    say(&mut browser, &ann, "Shall we take the early train?").await;
    see(&mut browser, &bea, "Shall we take the early train?").await;
    say(&mut browser, &bea, "Yes! Ten past eight.").await;
    see(&mut browser, &ann, "Yes! Ten past eight.").await;
    say(&mut browser, &ann, "wrong window").await;
    see(&mut browser, &bea, "wrong window").await;
    // Bea may have it before Ann's node has answered: until then it cannot be recalled.
    let written = "[...document.querySelectorAll('#messages li.mine')].find((one) => one.textContent.includes('wrong window'))";
    let recall =
        format!("[...{written}.querySelectorAll('button')].find((one) => one.textContent === 'Recall')");
    browser.until(&ann, &recall).await;
    browser.run(&ann, &format!("{recall}.click()")).await;
    browser.until(&bea, "![...document.querySelectorAll('#messages p')].some((one) => one.textContent === 'wrong window')").await;

    demo.kill();
    browser.until(&ann, "document.getElementById('state').dataset.state !== 'live'").await;
    say(&mut browser, &ann, "Sent while the node was away").await;
    demo.start_again();
    for window in [&ann, &bea] {
        browser.until(window, "document.getElementById('state').dataset.state === 'live'").await;
    }
    see(&mut browser, &bea, "Sent while the node was away").await;
    say(&mut browser, &bea, "And here it is.").await;
    see(&mut browser, &ann, "And here it is.").await;

    let (of_ann, of_bea) = (texts(&mut browser, &ann).await, texts(&mut browser, &bea).await);
    let sent = [
        "Shall we take the early train?",
        "Yes! Ten past eight.",
        "Sent while the node was away",
        "And here it is.",
    ];
    assert_eq!(of_ann[2..], sent, "once and in order, after the two of the demo");
    assert_eq!(of_ann, of_bea);
    image(&mut browser, &ann, "demo-chat").await;
    browser.run(&bea, "document.querySelector('#app .language').click()").await;
    browser.until(&bea, "document.documentElement.lang === 'zh-CN'").await;
    image(&mut browser, &bea, "demo-chinese").await;
    assert_eq!(
        browser.problems(),
        Vec::<Value>::new(),
        "of the console, also those of the policy of the page"
    );
}

/// Reads a conversation up and down, slowly.
const SCROLL: &str = "const log = document.getElementById('messages'); let step = 150; log.scrollTop = 0; \
     const reading = setInterval(() => { \
     const left = log.scrollHeight - log.scrollTop - log.clientHeight; \
     if (left < 2) step = -150; else if (log.scrollTop <= 0) step = 150; \
     log.scrollTop += step; }, 1300)";

#[tokio::test]
async fn only_what_was_on_the_screen_is_read() {
    let mut demo = Demo::start();
    let mut browser = Browser::start().await;
    let ann = browser.open(&format!("{}?user=1", demo.url)).await;
    let bea = browser.open(&format!("{}?user=2", demo.url)).await;
    for window in [&ann, &bea] {
        browser.until(window, "document.getElementById('state').dataset.state === 'live'").await;
        browser.run(window, &format!("document.querySelector('[data-key=\"{DIRECT}\"]').click()")).await;
    }
    for line in 1..=40 {
        say(&mut browser, &ann, &format!("line {line}")).await;
    }
    see(&mut browser, &bea, "line 40").await;
    // A line counts once it was on the screen for half a second.
    browser.run(&bea, SCROLL).await;
    let last = "[...document.querySelectorAll('#messages li.mine .about')].at(-1).textContent";
    browser.until(&ann, &format!("{last}.endsWith('read')")).await;
    browser.run(&bea, "clearInterval(reading), document.getElementById('messages').scrollTop = 0").await;
    say(&mut browser, &ann, "below the screen").await;
    browser.until(&bea, "!document.getElementById('newer').hidden").await;
    assert_eq!(browser.run(&ann, &format!("{last}.endsWith('sent')")).await, true);
    browser.run(&bea, "document.getElementById('newer').click()").await;
    browser.until(&ann, &format!("{last}.endsWith('read')")).await;

    demo.kill();
    browser.until(&ann, "document.getElementById('talk-about').dataset.state === 'offline'").await;
    let kept: Vec<_> = (1..=20).map(|line| format!("kept {line}")).collect();
    for line in &kept {
        say(&mut browser, &ann, line).await;
    }
    browser.until(&ann, "document.querySelectorAll('#messages li.pending').length === 20").await;
    // The page cannot be loaded while the node is away.
    browser.load(&ann, "about:blank").await;
    browser.until(&ann, "location.href === 'about:blank'").await;
    demo.start_again();
    browser.load(&ann, &format!("{}?user=1", demo.url)).await;
    see(&mut browser, &bea, "kept 20").await;
    let received = texts(&mut browser, &bea).await;
    assert_eq!(received[received.len() - 20..], kept, "once and in order");
    assert_eq!(browser.problems(), Vec::<Value>::new());
}

/// A demo group in which users 1 and 2 are members.
const GROUP: &str = "g12";

#[tokio::test]
async fn receipt_is_shown_2_s_after_message_is_seen() {
    let demo = Demo::start();
    let mut browser = Browser::start().await;
    let ann = browser.open(&format!("{}?user=1", demo.url)).await;
    let bea = browser.open(&format!("{}?user=2", demo.url)).await;
    for window in [&ann, &bea] {
        browser.until(window, "document.getElementById('state').dataset.state === 'live'").await;
    }
    let open = format!("document.querySelector('[data-key=\"{GROUP}\"]').click()");
    browser.run(&ann, &open).await;
    say(&mut browser, &ann, "Who is coming?").await;
    see(&mut browser, &ann, "Who is coming?").await;
    browser.run(&bea, &open).await;
    see(&mut browser, &bea, "Who is coming?").await;
    let seen = Instant::now();
    let receipt = "[...document.querySelectorAll('#messages li.mine')].at(-1)?.querySelector('.receipt')";
    browser.until(&ann, &format!("/^Read by [1-9]/.test({receipt}?.textContent || '')")).await;
    // It counts as seen once it was on the screen for half a second.
    assert!(seen.elapsed() < Duration::from_millis(2500), "{:?}", seen.elapsed());
    browser.run(&ann, &format!("{receipt}.click()")).await;
    let name = "document.querySelector('#me-name').textContent";
    let name = browser.run(&bea, name).await;
    let readers = "[...document.querySelectorAll('#messages li.mine')].at(-1).querySelector('.readers')?.textContent || ''";
    browser.until(&ann, &format!("({readers}).includes({name})")).await;
    image(&mut browser, &ann, "demo-receipt").await;
    assert_eq!(browser.problems(), Vec::<Value>::new());
}

const BELL: &str = "document.getElementById('bell')";
/// Returns a screen reader's text for the bell.
const LABEL: &str = "document.getElementById('bell').getAttribute('aria-label')";
const FOCUSED: &str = "document.activeElement";

#[tokio::test]
async fn bell_changes_when_another_window_reads() {
    let demo = Demo::start();
    let mut browser = Browser::start().await;
    let phone = browser.open(&format!("{}?user=1", demo.url)).await;
    let tablet = browser.open(&format!("{}?user=1", demo.url)).await;
    let other = browser.open(&format!("{}?user=2", demo.url)).await;
    for window in [&phone, &tablet, &other] {
        browser.until(window, &format!("!{BELL}.hidden && {LABEL} === 'Notices, 2 unread'")).await;
    }
    // Uses keys alone: opens the bell, passes the button for all, then presses the first notice's button. The
    // first notice is the newest.
    browser.run(&phone, &format!("{BELL}.focus()")).await;
    browser.press(&phone, "Enter").await;
    browser.until(&phone, "document.querySelectorAll('#notice-list .unread').length === 2").await;
    assert_eq!(browser.run(&phone, &format!("{BELL}.getAttribute('aria-expanded')")).await, "true");
    browser.press(&phone, "Tab").await;
    assert_eq!(browser.run(&phone, &format!("{FOCUSED}.id")).await, "read-all");
    browser.press(&phone, "Tab").await;
    image(&mut browser, &phone, "demo-bell").await;
    let title = browser.run(&phone, "document.querySelector('#notice-list h3').textContent").await;
    let title = title.as_str().unwrap().to_owned();
    let label = browser.run(&phone, &format!("{FOCUSED}.getAttribute('aria-label')")).await;
    assert_eq!(label, format!("Mark as read: {title}"));
    let read = Instant::now();
    browser.press(&phone, "Enter").await;
    browser.until(&tablet, &format!("{LABEL} === 'Notices, 1 unread'")).await;
    assert!(read.elapsed() < Duration::from_secs(2), "{:?}", read.elapsed());
    let announced = "document.getElementById('bell-said').textContent";
    browser.until(&tablet, &format!("{announced} === 'Notices, 1 unread'")).await;
    browser.until(&phone, "document.querySelectorAll('#notice-list .unread').length === 1").await;
    let within = format!("document.getElementById('notices').contains({FOCUSED})");
    assert_eq!(browser.run(&phone, &within).await, true, "the focus stays in the list");
    // The notice that needs a confirmation is confirmed in the other window.
    browser.run(&tablet, &format!("{BELL}.click()")).await;
    let confirm =
        "[...document.querySelectorAll('#notice-list button')].find((one) => one.textContent === 'Confirm')";
    browser.until(&tablet, confirm).await;
    browser.run(&tablet, &format!("{confirm}.click()")).await;
    let confirmed = "[...document.querySelectorAll('#notice-list .about')].some((one) => one.textContent.endsWith('confirmed'))";
    for window in [&tablet, &phone] {
        browser.until(window, confirmed).await;
    }
    browser.run(&phone, "document.getElementById('read-all').click()").await;
    for window in [&tablet, &phone] {
        browser.until(window, &format!("{LABEL} === 'Notices, all read'")).await;
    }
    browser.run(&phone, &format!("{BELL}.focus()")).await;
    browser.press(&phone, "Escape").await;
    browser.until(&phone, "document.getElementById('notices').hidden").await;
    assert_eq!(browser.run(&phone, &format!("{FOCUSED} === {BELL}")).await, true);
    browser.run(&tablet, "document.querySelector('#app .language').click()").await;
    browser
        .until(&tablet, &format!("{LABEL} === '\u{516c}\u{544a}\u{ff0c}\u{5168}\u{90e8}\u{5df2}\u{8bfb}'"))
        .await;
    assert_eq!(browser.run(&other, LABEL).await, "Notices, 2 unread", "another person has read nothing");
    assert_eq!(browser.problems(), Vec::<Value>::new());
}

/// The node keeps its default: it looks for new keys every 10 s.
#[tokio::test(flavor = "multi_thread")]
async fn keys_swapped_for_a_minute_hold_under_load() {
    let _alone = ALONE.lock().await;
    keys_are_swapped_under_load(Pace {
        read_again_every: "10s",
        swaps: 60,
        kept: 24,
        added: Duration::from_secs(15),
        removed: Duration::from_secs(11),
        streams: Duration::from_secs(1),
    })
    .await;
}

async fn say(browser: &mut Browser, window: &Window, text: &str) {
    let text = json!(text);
    let script = format!(
        "(() => {{ const field = document.getElementById('text'); field.value = {text}; \
         field.dispatchEvent(new Event('input')); document.getElementById('write').requestSubmit(); }})()"
    );
    browser.run(window, &script).await;
}

/// Waits until a message with this text is shown.
async fn see(browser: &mut Browser, window: &Window, text: &str) {
    let text = json!(text);
    let script = format!(
        "[...document.querySelectorAll('#messages li:not(.pending) p')].some((one) => one.textContent === {text})"
    );
    browser.until(window, &script).await;
}

/// Returns all texts that are shown, from the top.
async fn texts(browser: &mut Browser, window: &Window) -> Vec<String> {
    let script = "[...document.querySelectorAll('#messages p')].map((one) => one.textContent)";
    let texts = browser.run(window, script).await;
    texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

async fn shot(browser: &mut Browser, url: &str, name: &str) {
    let window = browser.open(url).await;
    browser.until(&window, "document.querySelectorAll('#people li').length === 200").await;
    image(browser, &window, name).await;
}

/// Writes a picture to the folder in [`IMAGES`]; people look at it.
async fn image(browser: &mut Browser, window: &Window, name: &str) {
    let image = browser.image(window).await;
    assert!(image.starts_with(b"\x89PNG"), "{name}");
    if let Some(folder) = std::env::var_os(IMAGES).map(PathBuf::from) {
        std::fs::write(folder.join(format!("{name}.png")), image).unwrap();
    }
}

/// No step in these tests takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
