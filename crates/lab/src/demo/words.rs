use std::time::Duration;

/// A time in everyday units, no more exact than it needs to be.
pub(super) fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..0.000_95 => format!("{:.2} ms", seconds * 1e3),
        ..0.009_5 => format!("{:.1} ms", seconds * 1e3),
        ..0.95 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

/// A count with spaces between the thousands.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_exact_as_they_are_long() {
        let shown =
            [650, 4_200, 42_000, 949_000, 950_000, 12_340_000].map(Duration::from_micros).map(seconds);
        assert_eq!(shown, ["0.65 ms", "4.2 ms", "42 ms", "949 ms", "0.9 s", "12.3 s"]);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([7, 999, 1_000, 1_234_567].map(count), ["7", "999", "1 000", "1 234 567"]);
    }
}
