//! A killed backup leaves nothing under its name.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::Stdio,
    time::{Duration, Instant},
};

use crate::backup::node::{backup, command, filled, restore};

#[tokio::test]
async fn killed_backup_leaves_no_file_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to) = (folder.path().join("data"), folder.path().join("backup.db"));
    filled(&data, 600).await;
    let part = folder.path().join("backup.db.part");
    for megabytes in [1, 8, 24] {
        let mut command = command(&data, &["backup", "--to", to.to_str().unwrap()]);
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while !part.metadata().is_ok_and(|file| file.len() > megabytes << 20) {
            assert!(running.try_wait().unwrap().is_none(), "it ended before it was killed");
            assert!(begun.elapsed() < Duration::from_secs(60), "the backup does not come forward");
            std::thread::yield_now();
        }
        running.kill().unwrap();
        assert_eq!(running.wait().unwrap().signal(), Some(9));
        assert!(!to.exists() && !folder.path().join("backup.db.manifest.json").exists());
    }
    let report = backup(&data, &to);
    assert_eq!(report["users"], 600);
    assert!(!part.exists());
    assert_eq!(restore(&to, &folder.path().join("restored"))["users"], 600);
}
