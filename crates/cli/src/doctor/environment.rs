//! Checks environment variables with effects that are hard to see.

use super::Finding;

/// The variables that name a proxy; programs read them in either case.
const PROXIES: [&str; 3] = ["http_proxy", "all_proxy", "grpc_proxy"];

/// Checks each variable's name and value. Values are not repeated: they may be secrets.
pub(super) fn findings(environment: &[(String, String)]) -> Vec<Finding> {
    let ours = environment.iter().filter(|(name, _)| name.starts_with("KITH_"));
    let blanks = ours.filter_map(|(name, value)| surrounding_blanks(name, value));
    blanks.chain(proxy(environment)).collect()
}

/// Reports blanks around a value, which a file with variables keeps. (Quotes are refused when the
/// configuration is read.)
fn surrounding_blanks(name: &str, value: &str) -> Option<Finding> {
    let finding = || format!("the value of {name} begins or ends with a blank, which is part of it");
    (value.trim() != value).then(|| Finding::new(finding(), export_line(name)))
}

/// Returns the line that sets a variable, without quotes.
pub(super) fn export_line(name: &str) -> String {
    format!("export {name}=VALUE  # as it is, also where a file sets it (.env, compose)")
}

/// Reports a proxy: curl sends even 127.0.0.1 through a proxy unless it is configured not to.
fn proxy(environment: &[(String, String)]) -> Option<Finding> {
    let of = |wanted: &str| {
        environment.iter().find(|(name, value)| name.eq_ignore_ascii_case(wanted) && !value.is_empty())
    };
    let (name, _) = PROXIES.iter().find_map(|name| of(name))?;
    let spared = of("no_proxy").is_some_and(|(_, value)| {
        value.split(',').map(str::trim).any(|host| host == "*" || host.starts_with("127."))
    });
    (!spared).then(|| {
        Finding::new(
            format!("{name} is set: curl and others send calls to 127.0.0.1 through it and not to the node"),
            "export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pairs: &[(&str, &str)]) -> Vec<String> {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        findings(&pairs).into_iter().map(|finding| format!("{} {}", finding.finding, finding.run)).collect()
    }

    #[test]
    fn blanks_around_values_are_found_not_repeated() {
        let found = found(&[("KITH_A", "sesame\n"), ("KITH_B", " sesame"), ("OTHER", " sesame")]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("KITH_A") && found[1].contains("KITH_B"), "{found:?}");
        assert!(found.iter().all(|text| !text.contains("sesame")), "{found:?}");
    }

    #[test]
    fn proxy_is_found_unless_loopback_is_spared() {
        assert!(found(&[("HTTP_PROXY", "http://p:1")])[0].contains("NO_PROXY=127.0.0.1"));
        assert!(found(&[("http_proxy", "http://p:1"), ("no_proxy", "example.org")]).len() == 1);
        assert!(found(&[("http_proxy", "http://p:1"), ("NO_PROXY", "a, 127.0.0.0/8")]).is_empty());
        assert!(found(&[("http_proxy", ""), ("https_proxy", "http://p:1")]).is_empty());
    }
}
