use crate::tree::{text, tracked};

#[test]
fn every_call_and_service_has_a_comment() {
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

/// Go generators refuse a file without a package, and a package whose import path has no slash.
#[test]
fn every_file_of_the_contract_has_a_go_package() {
    let foreign = |file: &String| file.starts_with("proto/google/");
    for file in tracked(".proto").into_iter().filter(|file| !foreign(file)) {
        let folder = file.strip_prefix("proto/kith/").and_then(|path| path.rsplit_once('/')).unwrap().0;
        let line = format!("option go_package = \"kith/gen/go/{folder};{}\";", folder.replace('/', ""));
        assert!(text(&file).lines().any(|given| given == line), "{file}: wants {line}");
    }
}
