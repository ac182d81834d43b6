//! Measures the resources that a process takes.

use std::fs;

use anyhow::{Context as _, Result};

/// Clock ticks a second in /proc; 100 on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

/// Seconds of processor time that the process has taken so far, in its own code and in the kernel.
///
/// # Errors
/// When there is no such process.
pub fn cpu_seconds(process: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The program's name, in parentheses, may hold anything; user and system time are the 12th and 13th field
    // behind it.
    let behind = stat.rsplit_once(')').context("the line has no name")?.1;
    let mut fields = behind.split_whitespace().skip(11).map(str::parse::<f64>);
    let mut next = || fields.next().context("the line is too short")?.context("the field is no number");
    Ok((next()? + next()?) / TICKS_A_SECOND)
}

/// Memory that it holds now (RSS), in MiB.
///
/// # Errors
/// When there is no such process.
pub fn resident_mib(process: u32) -> Result<f64> {
    mib_of(process, "VmRSS:")
}

/// The most memory that it has held since [`forget_peak`], in MiB.
///
/// # Errors
/// When there is no such process.
pub fn peak_mib(process: u32) -> Result<f64> {
    mib_of(process, "VmHWM:")
}

/// Resets the peak that [`peak_mib`] returns to the process's present memory (proc(5), `clear_refs`).
///
/// # Errors
/// When there is no such process, or it belongs to another user.
pub fn forget_peak(process: u32) -> Result<()> {
    fs::write(format!("/proc/{process}/clear_refs"), "5").context("the peak of memory cannot be forgotten")
}

fn mib_of(process: u32, name: &'static str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context(name)?;
    let kib = line.trim().trim_end_matches("kB").trim().parse::<f64>();
    Ok(kib.context(name)? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_taken_time_and_holds_memory() {
        let own = std::process::id();
        assert!(resident_mib(own).unwrap() > 1.0);
        forget_peak(own).unwrap();
        assert!(peak_mib(own).unwrap() > 1.0);
        let before = cpu_seconds(own).unwrap();
        let began = std::time::Instant::now();
        while cpu_seconds(own).unwrap() <= before {
            assert!(began.elapsed().as_secs() < 10, "no time was counted");
        }
    }
}
