//! The page of the guide "Build a chat in an afternoon", in a browser.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    browser::{Browser, Window},
    polls::block_until,
    spawned::{KilledOnDrop, Started, kith, output_of},
};

const GUIDE: &str = include_str!("../../../../docs/guide/chat.md");
pub(crate) const SEED: &str =
    "{\"userId\": \"7\", \"userName\": \"ann\"}\n{\"userId\": \"8\", \"userName\": \"bea\"}\n";
/// The node's address in the guide.
const NODE: &str = "127.0.0.1:7600";

/// A user's page, served as the guide serves it.
struct Page {
    port: u16,
    _server: KilledOnDrop,
}

impl Page {
    fn serve(folder: &Path, name: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Command::new("python3");
        server.args(["-m", "http.server", &port.to_string(), "--bind", "127.0.0.1", "--directory", name]);
        server.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        let server = KilledOnDrop(server.spawn().unwrap());
        let is_served = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        block_until(Duration::from_secs(20), is_served, || "the page is not served");
        Self { port, _server: server }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

async fn say(browser: &mut Browser, window: &Window, text: &str) {
    let script = format!("form.text.value = '{text}', form.requestSubmit()");
    browser.run(window, &script).await;
}

async fn see(browser: &mut Browser, window: &Window, lines: &[&str]) {
    let shown = "[...document.querySelectorAll('#talk li')].map((line) => line.textContent).join('|')";
    browser.until(window, &format!("{shown} === '{}'", lines.join("|"))).await;
}

#[tokio::test]
async fn page_of_the_chat_guide_talks() {
    let _alone = crate::ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("seed.jsonl"), SEED).unwrap();
    let pages = [("ann", "7"), ("bea", "8")].map(|(name, user)| {
        fs::create_dir(folder.path().join(name)).unwrap();
        let (code, token, err) = output_of(kith(folder.path(), &["token", "make", user]));
        assert_eq!(code, Some(0), "{err}");
        fs::write(folder.path().join(name).join("token"), token).unwrap();
        Page::serve(folder.path(), name)
    });
    let origins = format!("http.cors.origins={},{}", pages[0].url(), pages[1].url());
    let arguments = ["serve", "--ephemeral", "--seed", "seed.jsonl", "--config", "trial/kith.toml"];
    let set = ["--set", "ws.enabled=true", "--set", &origins];
    let node = Started::new(folder.path(), &[&arguments[..], &set].concat());
    let (_, page) = GUIDE.split_once("```html\n").unwrap();
    let page = page.split("```").next().unwrap().replace(NODE, &node.grpc());
    for name in ["ann", "bea"] {
        fs::write(folder.path().join(name).join("index.html"), &page).unwrap();
    }

    let mut browser = Browser::start().await;
    let ann = browser.open(&pages[0].url()).await;
    let bea = browser.open(&pages[1].url()).await;
    say(&mut browser, &ann, "Hello, Bea").await;
    see(&mut browser, &bea, &["7: Hello, Bea"]).await;
    say(&mut browser, &bea, "你好").await;
    see(&mut browser, &ann, &["7: Hello, Bea", "8: 你好"]).await;
    browser.load(&bea, &pages[1].url()).await;
    see(&mut browser, &bea, &["7: Hello, Bea", "8: 你好"]).await;
    say(&mut browser, &ann, "still there?").await;
    see(&mut browser, &bea, &["7: Hello, Bea", "8: 你好", "7: still there?"]).await;
    assert_eq!(browser.problems(), Vec::<serde_json::Value>::new());
}
