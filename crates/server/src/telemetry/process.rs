//! The process's figures, under the names that Prometheus knows, from `/proc`. Other systems have none.

use std::{fs, sync::OnceLock};

use kith_service::metric::{
    PROCESS_CPU_SECONDS, PROCESS_MAX_FDS, PROCESS_OPEN_FDS, PROCESS_RESIDENT_BYTES, PROCESS_START_SECONDS,
    PROCESS_THREADS, PROCESS_VIRTUAL_BYTES,
};

/// The time unit in `/proc` is the same on every machine.
const TICKS_PER_SECOND: u64 = 100;

/// Holds the values that `/proc/self/stat` reports.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    /// Time in user mode and in the kernel.
    cpu_seconds: u64,
    threads: u64,
    /// Seconds after the machine's start.
    started_seconds: u64,
    virtual_bytes: u64,
}

/// Sets the process's metrics. Reads a few files that the kernel makes up.
#[expect(clippy::cast_precision_loss, reason = "figures far below 2^52")]
pub(crate) fn export() {
    let set = |name: &'static str, value: Option<u64>| {
        if let Some(value) = value {
            metrics::gauge!(name).set(value as f64);
        }
    };
    if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().and_then(|text| parse_stat(&text)) {
        metrics::counter!(PROCESS_CPU_SECONDS.name).absolute(stat.cpu_seconds);
        set(PROCESS_THREADS.name, Some(stat.threads));
        set(PROCESS_VIRTUAL_BYTES.name, Some(stat.virtual_bytes));
        set(PROCESS_START_SECONDS.name, booted().map(|booted| booted + stat.started_seconds));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    set(PROCESS_RESIDENT_BYTES.name, number_after(&status, "VmRSS:").map(|kib| kib * 1024));
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    set(PROCESS_MAX_FDS.name, number_after(&limits, "Max open files"));
    // The count excludes the handle that reads the folder.
    let open = fs::read_dir("/proc/self/fd").ok().map(|files| (files.count() as u64).saturating_sub(1));
    set(PROCESS_OPEN_FDS.name, open);
}

/// The program's name is in parentheses and may hold anything.
fn parse_stat(text: &str) -> Option<ProcessStat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // Fields are counted from the third field in proc(5), the state.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessStat {
        cpu_seconds: (field(14)? + field(15)?) / TICKS_PER_SECOND,
        threads: field(20)?,
        started_seconds: field(22)? / TICKS_PER_SECOND,
        virtual_bytes: field(23)?,
    })
}

/// When the machine started, in seconds since 1970.
fn booted() -> Option<u64> {
    static BOOTED: OnceLock<Option<u64>> = OnceLock::new();
    *BOOTED.get_or_init(|| number_after(&fs::read_to_string("/proc/stat").ok()?, "btime "))
}

/// The first number on the line that begins so.
fn number_after(text: &str, beginning: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(beginning))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_after_any_name() {
        let rest =
            "S 1 1 1 0 -1 4194560 1 0 0 0 250 151 0 0 20 0 17 0 4200 104857600 300 18446744073709551615";
        let expected =
            ProcessStat { cpu_seconds: 4, threads: 17, started_seconds: 42, virtual_bytes: 100 << 20 };
        assert_eq!(parse_stat(&format!("7 (a) b (c)) {rest}")), Some(expected));
        assert_eq!(parse_stat("7 (kith) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn numbers_are_found_by_their_line() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024     4096   files\n";
        assert_eq!(number_after(limits, "Max open files"), Some(1024));
        assert_eq!(number_after("VmRSS:\t  2048 kB\n", "VmRSS:"), Some(2048));
        assert_eq!(number_after("", "btime "), None);
    }
}
