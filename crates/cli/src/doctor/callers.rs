//! Checks callers: keys that are readable by too many users, expire soon, or are not accepted.

use std::time::{Duration, SystemTime};

use kith_server::{
    auth::{CallerId, CallerKey, Rights, trial_issuer::TRIAL_ISSUER},
    config::{Config, IssuerConfig},
    node::caller_sources::CallerSources,
};

use super::Finding;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long before its end a key is reported.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// The command for a finding about an issuer's keys.
const JWKS: &str = "kith config | grep jwks_  # the public keys of the issuer have to be there";
/// The prefix of an error about an issuer's address.
const ADDRESS: &str = "auth.issuers: jwks_url";
/// How old a key may be.
const OLD: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Finds nothing if no caller is configured and only this machine reaches the port.
pub(super) async fn findings(config: &Config) -> Vec<Finding> {
    if config.insecure_callers {
        let finding = "everybody who reaches the port may do everything (insecure_callers)";
        let run = "kith keys generate --file kith.key  # then api_key_file in place of insecure_callers";
        return vec![Finding::new(finding, run)];
    }
    let sources = CallerSources::of(config);
    if sources.is_none() {
        return Vec::new();
    }
    let mut found: Vec<_> = plaintext(config).into_iter().collect();
    sources.fetch().await;
    match sources.find() {
        Ok(callers) => {
            let warnings = callers.warnings.iter();
            found.extend(warnings.map(|warning| Finding::new(warning.to_string(), warning.run())));
            found.extend(callers.odd_keys.iter().map(|why| Finding::new(why.clone(), JWKS)));
            found.extend(callers.set.iter().filter_map(|key| check_key(key, config, SystemTime::now())));
            found.extend(no_service(config));
            found.extend(config.auth.issuers.iter().filter_map(long_lived));
            found.extend(config.auth.issuers.iter().filter_map(for_trials));
        }
        Err(why) if why.starts_with(ADDRESS) => {
            let finding = format!("{why}, so that a node which starts takes no token of this issuer");
            found.push(Finding::new(finding, JWKS));
        }
        Err(why) => found.push(Finding::new(format!("{why}, so that no node starts"), "kith keys --help")),
    }
    found
}

/// Reports that only users can call: no service creates users, and no operator can ask for anything.
fn no_service(config: &Config) -> Option<Finding> {
    (!config.has_keys()).then(|| {
        let finding = "only users with tokens can call (auth.issuers): no caller with a key is configured";
        Finding::new(finding, "kith keys generate --file kith.key  # then api_key_file")
    })
}

/// Reports a token's long lifetime: a token cannot be revoked by itself, and is accepted until it ends.
fn long_lived(issuer: &IssuerConfig) -> Option<Finding> {
    (issuer.lifetime_max > DAY).then(|| {
        let finding = format!(
            "tokens of {} may be valid for {}, and no single one can be revoked",
            issuer.issuer,
            humantime::format_duration(issuer.lifetime_max)
        );
        Finding::new(finding, "kith config | grep lifetime_max  # set 24h or less in auth.issuers")
    })
}

/// Reports an issuer whose signing key is in a folder for trials.
fn for_trials(issuer: &IssuerConfig) -> Option<Finding> {
    (issuer.issuer == TRIAL_ISSUER).then(|| {
        let finding = "tokens of kith token make are taken, which are for trials: who has their signing key can be every user";
        Finding::new(finding, "kith config | grep -A3 auth.issuers  # remove this issuer")
    })
}

fn plaintext(config: &Config) -> Option<Finding> {
    (config.is_reached_by_others() && config.tls.cert_file.is_none()).then(|| {
        let tokens = if config.auth.issuers.is_empty() { "" } else { " and tokens" };
        let finding = format!("keys{tokens} are sent to {} in plaintext (insecure_listen)", config.listen);
        Finding::new(finding, "kith config | grep -A3 '^.tls'  # set tls.cert_file and tls.key_file")
    })
}

fn check_key(key: &CallerKey, config: &Config, now: SystemTime) -> Option<Finding> {
    let (name, id) = (&key.name, key.digest.key_id());
    let file = config.auth.callers_file.as_ref().map_or_else(String::new, |file| file.display().to_string());
    let replaced = format!(
        "kith keys create {name} --scopes ... --file {file}  # then: kith keys revoke {id} --file {file}"
    );
    let found = |finding: String| Some(Finding::new(finding, replaced.clone()));
    match key.expires {
        Some(end) if end <= now => return found(format!("the key {id} of {name} has expired")),
        Some(end) if end < now + SOON => {
            let left = end.duration_since(now).unwrap_or_default().as_secs() / DAY.as_secs();
            return found(format!("the key {id} of {name} expires in {left} days"));
        }
        Some(_) | None => {}
    }
    if key.made.is_some_and(|made| now.duration_since(made).is_ok_and(|age| age > OLD)) {
        return found(format!("the key {id} of {name} is older than a year"));
    }
    if key.rights == Rights::ALL && name != CallerId::DEFAULT_NAME {
        return found(format!("the caller {name} may do everything (all)"));
    }
    None
}

#[cfg(test)]
mod tests {
    use kith_server::auth::{Digest, Scope};

    use super::*;

    fn finding(change: impl FnOnce(&mut CallerKey)) -> Option<String> {
        let mut key = CallerKey {
            name: "chat".to_owned(),
            rights: Rights::of(&[Scope::UserRead]),
            digest: Digest::of(b"sesame"),
            made: None,
            expires: None,
        };
        change(&mut key);
        let now = SystemTime::UNIX_EPOCH + 1000 * DAY;
        check_key(&key, &Config::default(), now)
            .map(|one| one.finding.replace(&key.digest.key_id().to_string(), "ID"))
    }

    #[test]
    fn keys_that_end_are_old_or_may_do_all_are_found() {
        let day = |day| Some(SystemTime::UNIX_EPOCH + day * DAY);
        assert_eq!(finding(|_| {}), None);
        assert_eq!(finding(|key| key.expires = day(1000)).unwrap(), "the key ID of chat has expired");
        assert_eq!(finding(|key| key.expires = day(1013)).unwrap(), "the key ID of chat expires in 13 days");
        assert_eq!(finding(|key| key.expires = day(1014)), None);
        assert_eq!(finding(|key| key.made = day(634)).unwrap(), "the key ID of chat is older than a year");
        assert_eq!(finding(|key| key.made = day(635)), None);
        assert_eq!(
            finding(|key| key.rights = Rights::ALL).unwrap(),
            "the caller chat may do everything (all)"
        );
        let default = |key: &mut CallerKey| (key.rights, key.name) = (Rights::ALL, "default".to_owned());
        assert_eq!(finding(default), None);
    }

    #[tokio::test]
    async fn issuers_without_caller_or_with_long_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jwks.json");
        let key = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        std::fs::write(&file, key).unwrap();
        let issuer = serde_json::json!({"issuer": "one", "audience": ["kith"], "jwks_file": file});
        let mut config = Config::default();
        config.auth.issuers.push(serde_json::from_value(issuer).unwrap());
        let text = async |config: &Config| {
            findings(config).await.into_iter().map(|one| one.finding).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(
            text(&config).await,
            "only users with tokens can call (auth.issuers): no caller with a key is configured"
        );
        config.auth.issuers[0].lifetime_max = 30 * DAY;
        let long = text(&config).await;
        assert!(long.contains("tokens of one may be valid for 30days"), "{long}");
        config.auth.issuers[0].issuer = TRIAL_ISSUER.to_owned();
        assert!(text(&config).await.contains("kith token make are taken"));
        std::fs::write(&file, "{}").unwrap();
        assert!(text(&config).await.starts_with("auth.issuers: jwks_file: "));
    }

    #[tokio::test]
    async fn address_of_an_issuer_that_fails_is_found() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("https://127.0.0.1:{port}/keys");
        let issuer = serde_json::json!({"issuer": "one", "audience": ["kith"], "jwks_url": url});
        let mut config = Config::default();
        config.auth.issuers.push(serde_json::from_value(issuer).unwrap());
        let [found] = &findings(&config).await[..] else { panic!("one finding") };
        let expected = format!("{ADDRESS}: {url} cannot be connected to, so that a node which starts");
        assert!(found.finding.starts_with(&expected), "{}", found.finding);
    }

    #[tokio::test]
    async fn insecure_callers_and_unfit_files_are_found() {
        assert_eq!(findings(&Config::default()).await, []);
        let insecure = Config { insecure_callers: true, ..Config::default() };
        assert!(findings(&insecure).await[0].finding.contains("insecure_callers"));
        let absent = Config {
            listen: "0.0.0.0:7600".parse().unwrap(),
            api_key_file: Some("absent.key".into()),
            ..Config::default()
        };
        let found = findings(&absent).await;
        assert!(found[0].finding.contains("in plaintext"), "{found:?}");
        assert!(found[1].finding.starts_with("api_key_file: there is no file absent.key"), "{found:?}");
    }
}
