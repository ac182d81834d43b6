use crate::tree::{text, tracked};

#[test]
fn every_call_and_every_service_of_the_contract_has_a_comment() {
    let mut calls = 0;
    for file in tracked(".proto") {
        let text = text(&file);
        let mut before = "";
        for line in text.lines().map(str::trim) {
            if line.starts_with("rpc ") || line.starts_with("service ") {
                assert!(before.starts_with("//"), "{file}: {line}");
                calls += 1;
            }
            before = line;
        }
    }
    assert!(calls > 20, "found only {calls}");
}
