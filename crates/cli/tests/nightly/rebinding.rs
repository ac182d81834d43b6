//! A page whose name resolves to this machine.

use kith_server::{Node, config::Config};

use crate::browser::{Browser, Window};

const NAME: &str = "rebound.example";

/// Starts a node with everything that a page could use.
async fn start() -> (Node, tempfile::TempDir) {
    let data = tempfile::tempdir().unwrap();
    let mut config = Config { data_dir: data.path().join("data"), ..Config::default() };
    config.listen.set_port(0);
    config.operations.listen.set_port(0);
    config.drain_wait = std::time::Duration::ZERO;
    (config.ws.enabled, config.ws.trusted, config.ws.demo) = (true, true, true);
    (Box::pin(Node::start(config)).await.unwrap(), data)
}

/// Returns the node's answer to the call that a form on the page makes.
async fn called(browser: &mut Browser, page: &Window, form: &str) -> String {
    let script = format!(
        "fetch('/kith.user.v1.UserService/CreateUser', {{method: 'POST', headers: {{'content-type': '{form}'}}, \
         body: JSON.stringify({{user: {{userName: 'eve'}}}})}}).then(async (answer) => \
         answer.status + ' ' + await answer.text())"
    );
    browser.run(page, &script).await.as_str().unwrap().to_owned()
}

async fn shown(browser: &mut Browser, url: &str) -> String {
    let page = browser.open(url).await;
    browser.until(&page, &format!("document.readyState === 'complete' && location.href === '{url}'")).await;
    browser.run(&page, "document.body.innerText").await.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn page_of_a_rebound_name_reaches_nothing() {
    let (node, _data) = start().await;
    let (port, operations) = (node.addresses().grpc.port(), node.addresses().operations.unwrap().port());
    let rule = format!("--host-resolver-rules=MAP {NAME} 127.0.0.1");
    let mut browser = Browser::start_with(&[&rule]).await;
    let home = format!("http://{NAME}:{port}/");
    let page = browser.open(&home).await;
    browser.until(&page, &format!("document.readyState === 'complete' && location.href === '{home}'")).await;
    for form in ["application/json", "application/grpc-web+proto", "application/grpc-web-text", "text/plain"]
    {
        let answer = called(&mut browser, &page, form).await;
        assert!(answer.starts_with("403 ") && answer.contains("ORIGIN_REFUSED"), "{form}: {answer}");
    }
    let socket = "new Promise((done) => { const socket = new WebSocket('ws://' + location.host + '/ws'); \
                  socket.onopen = () => done('open'); socket.onclose = () => done('closed'); })";
    assert_eq!(browser.run(&page, socket).await, "closed");

    let refused = shown(&mut browser, &format!("http://{NAME}:{operations}/metrics")).await;
    assert!(!refused.contains("kith_serving") && refused.contains("localhost"), "{refused}");
    let metrics = shown(&mut browser, &format!("http://127.0.0.1:{operations}/metrics")).await;
    assert!(metrics.contains("kith_serving"), "{metrics}");
    node.stop(std::future::ready(())).await;
}
