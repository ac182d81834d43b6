//! Formats numbers and addresses in a few characters.

/// The longest address that is shown whole; a longer address loses its middle.
const ADDRESS_MAX: usize = 32;

/// Formats a rate or a count: 0, 1.5, 999, 12.3k, 4.5M.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value >= 9_950_000.0 => format!("{:.0}M", value / 1e6),
        value if value >= 999_500.0 => format!("{:.1}M", value / 1e6),
        value if value >= 99_950.0 => format!("{:.0}k", value / 1e3),
        value if value >= 9_999.5 => format!("{:.1}k", value / 1e3),
        value if value >= 9.95 || value == 0.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

/// Formats a count: 7, 9999, 12.3k.
#[expect(clippy::cast_precision_loss, reason = "a number for people")]
pub(crate) fn count(value: i64) -> String {
    if value < 10_000 { value.to_string() } else { number(value as f64) }
}

/// Formats bytes: 512B, 1.5KiB, 64MiB.
#[expect(clippy::cast_precision_loss, reason = "a number for people")]
pub(crate) fn bytes(value: i64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value as f64;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 9.95);
    format!("{value:.digits$}{}", units[unit])
}

/// Formats a time in milliseconds: 45us, 1.25ms, 12.3ms, 2.50s.
pub(crate) fn time(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 0.9995 => format!("{:.0}us", ms * 1_000.0),
        Some(ms) if ms < 9.995 => format!("{ms:.2}ms"),
        Some(ms) if ms < 99.95 => format!("{ms:.1}ms"),
        Some(ms) if ms < 999.5 => format!("{ms:.0}ms"),
        Some(ms) => format!("{:.2}s", ms / 1_000.0),
    }
}

/// Formats a share out of 1, in percent without the sign.
pub(crate) fn percent(share: Option<f64>) -> String {
    match share.map(|share| share * 100.0) {
        None => "-".to_owned(),
        // A share below 100 % must not be shown as 100 %.
        Some(percent) if percent < 100.0 => format!("{:.1}", (percent * 10.0).floor() / 10.0),
        Some(_) => "100".to_owned(),
    }
}

/// Formats a time in seconds, by its two largest units: 3d4h, 5m6s.
pub(crate) fn long(seconds: u64) -> String {
    let units =
        [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let first = units.iter().position(|(amount, _)| *amount > 0).unwrap_or(units.len() - 1);
    let shown = units[first..].iter().take(2).filter(|(amount, _)| *amount > 0);
    let text: String = shown.map(|(amount, unit)| format!("{amount}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Formats a count that may be absent.
pub(crate) fn some(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), count)
}

/// Returns an address without its scheme. A long address keeps both ends: nodes in one cluster have the same
/// domain and port, or the same network.
pub(crate) fn address(addr: &str) -> String {
    let addr = addr.split_once("://").map_or(addr, |(_, rest)| rest).trim_end_matches('/');
    let letters: Vec<char> = addr.chars().collect();
    if letters.len() <= ADDRESS_MAX {
        return addr.to_owned();
    }
    let half = (ADDRESS_MAX - 1) / 2;
    let (begin, end) = (&letters[..ADDRESS_MAX - 1 - half], &letters[letters.len() - half..]);
    begin.iter().chain(&['…']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_few_characters() {
        let shown =
            [0.0, 0.25, 1.5, 9.96, 999.4, 9_999.0, 12_345.0, 99_960.0, 999_700.0, 45_000_000.0].map(number);
        assert_eq!(shown, ["0", "0.2", "1.5", "10", "999", "9999", "12.3k", "100k", "1.0M", "45M"]);
        assert_eq!([7, 9_999, 12_345].map(count), ["7", "9999", "12.3k"]);
        let shown = [512, 1_536, 64 << 20, 3 << 40].map(bytes);
        assert_eq!(shown, ["512B", "1.5KiB", "64MiB", "3.0TiB"]);
        let shown = [0, 59, 3_600, 93_784, 365 * 86_400].map(long);
        assert_eq!(shown, ["0s", "59s", "1h", "1d2h", "365d"]);
        let shown = [None, Some(0.045), Some(0.9996), Some(12.34), Some(2_500.0)].map(time);
        assert_eq!(shown, ["-", "45us", "1.00ms", "12.3ms", "2.50s"]);
        assert_eq!([None, Some(1.0), Some(0.99999), Some(0.5)].map(percent), ["-", "100", "99.9", "50.0"]);
    }

    #[test]
    fn long_address_keeps_both_ends() {
        assert_eq!(address("http://10.0.0.1:7600/"), "10.0.0.1:7600");
        assert_eq!(
            address("https://kith-0.kith.default.svc.cluster.local:7600"),
            "kith-0.kith.defa…ster.local:7600"
        );
    }
}
