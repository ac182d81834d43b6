use std::{fs, path::PathBuf};

use tempfile::TempDir;
use tokio::time::Instant;

use super::*;
use crate::config::IssuerConfig;

const ONE: &str = "correct-horse-battery-staple-one-key";
const TWO: &str = "correct-horse-battery-staple-two-key";

struct ReloadFixture {
    folder: TempDir,
    reload: CallersReload,
    health: Reporter,
}

impl ReloadFixture {
    /// Starts with a file of keys.
    async fn new(keys: &str) -> Self {
        Self::of(keys, |config, file| config.api_key_file = Some(file)).await
    }

    /// Starts with a callers file.
    async fn of_callers(text: &str) -> Self {
        Self::of(text, |config, file| config.auth.callers_file = Some(file)).await
    }

    async fn of(text: &str, configure: impl FnOnce(&mut Config, PathBuf)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kith.key");
        fs::write(&file, text).unwrap();
        let mut config = Config::default();
        configure(&mut config, file);
        Self { folder, reload: CallersReload::begin(&config).await.unwrap(), health: Reporter::new() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("kith.key")
    }

    fn write(&self, keys: &str) {
        fs::write(self.file(), keys).unwrap();
    }

    fn valid(&self) -> [bool; 2] {
        [ONE, TWO].map(|key| self.reload.callers.find(key.as_bytes()).is_some())
    }

    async fn read_again(&self) -> ReloadOutcome {
        self.reload.read_again(&self.health).await
    }

    fn remarks(&self) -> Vec<&'static str> {
        self.health.remarks().iter().map(|remark| remark.reason).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn new_keys_need_no_restart_and_end_streams() {
    let stage = ReloadFixture::new(ONE).await;
    let one = stage.reload.callers.find(ONE.as_bytes()).unwrap();
    assert_eq!(stage.read_again().await, ReloadOutcome::Unchanged);
    stage.write(&format!("{ONE}\n{TWO}\n"));
    assert_eq!(stage.read_again().await, ReloadOutcome::Applied);
    assert_eq!((stage.valid(), one.ended.is_cancelled()), ([true, true], false));
    stage.write(TWO);
    assert_eq!(stage.read_again().await, ReloadOutcome::Applied);
    assert_eq!((stage.valid(), one.ended.is_cancelled()), ([false, true], true));
}

/// An Ed25519 public key: the key in RFC 8037, or a key that differs in one letter.
fn jwks(letter: char) -> String {
    let x = format!("{letter}1qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    format!(r#"{{"keys": [{{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "{x}"}}]}}"#)
}

#[tokio::test(start_paused = true)]
async fn issuer_keys_are_read_as_caller_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    fs::write(&file, jwks('1')).unwrap();
    let toml = "issuer = 'one'\naudience = ['kith']\njwks_file = 'jwks.json'";
    let mut config = Config::default();
    config.auth.issuers.push(IssuerConfig { jwks_file: Some(file.clone()), ..toml::from_str(toml).unwrap() });
    let (reload, health) = (CallersReload::begin(&config).await.unwrap(), Reporter::new());
    assert!(!reload.callers.is_open(), "an issuer closes the node");
    assert_eq!(reload.read_again(&health).await, ReloadOutcome::Unchanged);
    fs::write(&file, jwks('2')).unwrap();
    assert_eq!(reload.read_again(&health).await, ReloadOutcome::Applied);
    for wrong in ["", "{}", r#"{"keys": [{"kty": "oct", "kid": "a", "k": "c2VjcmV0"}]}"#] {
        fs::write(&file, wrong).unwrap();
        let ReloadOutcome::Refused(why) = reload.read_again(&health).await else {
            panic!("{wrong} is taken")
        };
        assert!(why.starts_with("auth.issuers: jwks_file: ") && !why.contains("c2VjcmV0"), "{why}");
    }
    assert_eq!((reload.tokens.issuers(), health.remarks().len()), (1, 1), "those of before are valid");
    fs::write(&file, "{}").unwrap();
    assert!(CallersReload::begin(&config).await.is_err(), "a node that starts has none of before");
}

#[tokio::test(start_paused = true)]
async fn broken_file_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let [keys, callers, issuer] =
        ["kith.key", "callers.toml", "jwks.json"].map(|name| folder.path().join(name));
    let write = |key: &str, caller: &str, letter: &str| {
        fs::write(&keys, key).unwrap();
        fs::write(&callers, caller).unwrap();
        fs::write(&issuer, letter).unwrap();
    };
    let (three, four) = ("correct-horse-battery-staple-three-key", "correct-horse-battery-staple-four-key");
    write(ONE, &toml("chat", TWO, ""), &jwks('1'));
    let mut config = Config::default();
    (config.api_key_file, config.auth.callers_file) = (Some(keys.clone()), Some(callers.clone()));
    let toml_of_issuer = "issuer = 'one'\naudience = ['kith']\njwks_file = 'jwks.json'";
    let issuer_config = toml::from_str(toml_of_issuer).unwrap();
    config.auth.issuers.push(IssuerConfig { jwks_file: Some(issuer.clone()), ..issuer_config });
    let (reload, health) = (CallersReload::begin(&config).await.unwrap(), Reporter::new());
    let valid = || [ONE, TWO, three, four].map(|key| reload.callers.find(key.as_bytes()).is_some());
    assert_eq!(valid(), [true, true, false, false]);

    write(three, "broken", "{}");
    let ReloadOutcome::Refused(why) = reload.read_again(&health).await else { panic!("two are broken") };
    assert!(why.contains("callers.toml") && why.contains("jwks.json"), "{why}");
    assert_eq!(valid(), [false, true, true, false], "a key that is removed is refused");
    assert_eq!((reload.tokens.issuers(), health.remarks().len()), (1, 1));

    write(three, &toml("chat", four, ""), "{}");
    assert!(matches!(reload.read_again(&health).await, ReloadOutcome::Refused(_)));
    assert_eq!(valid(), [false, false, true, true]);

    write(ONE, &toml("chat", TWO, ""), &jwks('1'));
    assert_eq!(
        reload.read_again(&health).await,
        ReloadOutcome::Applied,
        "the first content is another one now"
    );
    assert_eq!((valid(), health.remarks().len()), ([true, true, false, false], 0));
    assert_eq!(reload.read_again(&health).await, ReloadOutcome::Unchanged);

    fs::remove_file(&issuer).unwrap();
    fs::write(&keys, three).unwrap();
    assert!(matches!(reload.read_again(&health).await, ReloadOutcome::Refused(_)));
    assert_eq!((valid(), reload.tokens.issuers()), ([false, true, true, false], 1), "nor does an absent one");
}

#[tokio::test(start_paused = true)]
async fn odd_issuer_key_is_left_out_and_remarked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    fs::write(&file, jwks('1')).unwrap();
    let toml = "issuer = 'one'\naudience = ['kith']\njwks_file = 'jwks.json'";
    let mut config = Config::default();
    config.auth.issuers.push(IssuerConfig { jwks_file: Some(file.clone()), ..toml::from_str(toml).unwrap() });
    let (reload, health) = (CallersReload::begin(&config).await.unwrap(), Reporter::new());
    fs::write(&file, jwks('2').replace("[", r#"[{"kty": "oct", "kid": "s", "k": "c2VjcmV0"}, "#)).unwrap();
    assert_eq!(reload.read_again(&health).await, ReloadOutcome::Applied, "the rotation goes on");
    let remarks = health.remarks();
    let [remark] = &remarks[..] else { panic!("{remarks:?}") };
    assert_eq!(remark.reason, ODD_KEYS);
    assert!(remark.message.contains("jwks.json: key 1 is a shared secret"), "{}", remark.message);
    assert!(!remark.message.contains("c2VjcmV0"));
    let started = CallersReload::begin(&config).await.unwrap();
    assert_eq!(started.read_again(&health).await, ReloadOutcome::Unchanged);
    assert_eq!(health.remarks().len(), 1);
    fs::write(&file, jwks('2')).unwrap();
    reload.read_again(&health).await;
    assert_eq!(health.remarks(), []);
}

#[tokio::test(start_paused = true)]
async fn the_files_are_read_in_their_period() {
    let stage = ReloadFixture::new(ONE).await;
    stage.write(TWO);
    let (until, periods) = (Instant::now() + Duration::from_secs(11), AuthConfig::default());
    tokio::select! {
        () = stage.reload.run(&periods, &stage.health) => panic!("it goes on"),
        () = tokio::time::sleep_until(until) => {}
    }
    assert_eq!(stage.valid(), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn unusable_file_changes_nothing_and_is_visible() {
    let stage = ReloadFixture::new(ONE).await;
    for keys in ["", "REPLACE_ME", &ONE[..20], "\u{0}"] {
        stage.write(keys);
        let ReloadOutcome::Refused(why) = stage.read_again().await else { panic!("{keys} is taken") };
        assert!(why.starts_with("api_key_file: ") && !why.contains("correct"), "{why}");
        assert_eq!((stage.valid(), stage.remarks()), ([true, false], vec![REASON]));
    }
    fs::remove_file(stage.file()).unwrap();
    assert!(matches!(stage.read_again().await, ReloadOutcome::Refused(_)));
    fs::create_dir(stage.file()).unwrap();
    assert!(matches!(stage.read_again().await, ReloadOutcome::Refused(_)));
    let since = stage.health.remarks()[0].since;
    assert!(matches!(stage.read_again().await, ReloadOutcome::Refused(_)));
    assert_eq!(stage.health.remarks()[0].since, since, "it is as old as the first refusal");
    fs::remove_dir(stage.file()).unwrap();
    stage.write(TWO);
    assert_eq!(stage.read_again().await, ReloadOutcome::Applied);
    assert_eq!((stage.valid(), stage.remarks()), ([false, true], vec![]));
}

fn toml(name: &str, key: &str, expires: &str) -> String {
    let digest = crate::auth::Digest::of(key.as_bytes()).to_hex();
    format!(
        "[[caller]]\nname = \"{name}\"\nscopes = [\"watcher\"]\nkeys = [{{ sha256 = \"{digest}\"{expires} }}]\n"
    )
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn wrong_caller_files_change_nothing_at_runtime() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    type DamageFile<'a> = &'a dyn Fn(&PathBuf) -> std::io::Result<()>;
    let good = toml("chat", ONE, "");
    let stage = ReloadFixture::of_callers(&good).await;
    let file = stage.file();
    let fifo = |file: &PathBuf| std::process::Command::new("mkfifo").arg(file).status().map(drop);
    let writable = |file: &PathBuf| {
        fs::write(file, &good)?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o666))
    };
    let twice = format!("{good}{}", toml("chat", TWO, ""));
    let wrong: [(&str, DamageFile<'_>); 9] = [
        ("cut within an entry", &|file| fs::write(file, &good[..good.len() - 9])),
        ("emptied", &|file| fs::write(file, "")),
        ("absent", &|_| Ok(())),
        ("a folder", &|file| fs::create_dir(file)),
        ("a FIFO", &fifo),
        ("a link to what never ends", &|file| symlink("/dev/zero", file)),
        ("too large", &|file| fs::write(file, vec![b'#'; (4 << 20) + 1])),
        ("writable by others", &writable),
        ("a name twice", &|file| fs::write(file, &twice)),
    ];
    for (what, make) in wrong {
        if fs::remove_file(&file).is_err() {
            fs::remove_dir(&file).ok();
        }
        make(&file).unwrap();
        let reread = stage.read_again().await;
        assert!(matches!(reread, ReloadOutcome::Refused(_)), "{what}: {reread:?}");
        assert_eq!((stage.valid(), stage.remarks()), ([true, false], vec![REASON]), "{what}");
    }
    fs::remove_file(&file).unwrap();
    fs::write(&file, toml("chat", TWO, "")).unwrap();
    assert_eq!(stage.read_again().await, ReloadOutcome::Applied);
    assert_eq!((stage.valid(), stage.remarks()), ([false, true], vec![]));
}

#[tokio::test(start_paused = true)]
async fn key_configured_after_its_expiry_is_refused() {
    let past = format!("{}{}", toml("chat", ONE, ", expires = 2020-01-01"), toml("jobs", TWO, ""));
    let stage = ReloadFixture::of_callers(&past).await;
    assert_eq!(stage.valid(), [false, true]);
    stage.write(&past.replace("2020-01-01", "2999-01-01"));
    assert_eq!(stage.read_again().await, ReloadOutcome::Applied);
    assert_eq!(stage.valid(), [true, true]);
}

#[tokio::test(start_paused = true)]
async fn remark_ends_when_the_old_file_is_back() {
    let stage = ReloadFixture::new(ONE).await;
    stage.write("");
    stage.read_again().await;
    stage.write(ONE);
    assert_eq!(stage.read_again().await, ReloadOutcome::Unchanged);
    assert_eq!(stage.remarks(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn half_written_file_is_taken_once_whole() {
    let stage = ReloadFixture::new(&format!("{ONE}\n{TWO}\n")).await;
    // Truncated, as an editor that writes in place leaves it for a moment. The rest is valid by itself.
    stage.write(&format!("{ONE}\n"));
    let write = async {
        sleep(STABLE / 2).await;
        stage.write(&format!("{ONE}\n{TWO}\n\n"));
    };
    let (reloaded, ()) = tokio::join!(stage.read_again(), write);
    assert_eq!(reloaded, ReloadOutcome::Applied);
    assert_eq!(stage.valid(), [true, true], "no key was removed by half a file");
}

#[tokio::test(start_paused = true)]
async fn constantly_changing_file_is_not_applied() {
    let stage = ReloadFixture::new(ONE).await;
    let write = async {
        for at in 0.. {
            stage.write(&format!("{TWO}{}", "\n".repeat(at)));
            sleep(STABLE / 2).await;
        }
    };
    let reloaded = tokio::select! {
        biased;
        () = write => unreachable!("it goes on"),
        reloaded = stage.read_again() => reloaded,
    };
    assert!(matches!(reloaded, ReloadOutcome::Refused(_)), "{reloaded:?}");
    assert_eq!(stage.valid(), [true, false]);
}
