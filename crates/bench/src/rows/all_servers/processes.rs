//! Measures the resources that server processes take together.

use anyhow::Result;
use kith_lab_servers::usage;

/// Processes whose time counts together.
#[derive(Clone, Debug)]
pub(in crate::rows) struct Processes(pub(in crate::rows) Vec<u32>);

impl Processes {
    /// Seconds of processor time that all processes have taken so far.
    pub(in crate::rows) fn cpu_seconds(&self) -> Result<f64> {
        self.0.iter().map(|process| usage::cpu_seconds(*process)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_processes_are_added() {
        let own = std::process::id();
        let began = std::time::Instant::now();
        while usage::cpu_seconds(own).unwrap() < 0.05 {
            assert!(began.elapsed().as_secs() < 10, "no time was counted");
        }
        let (one, three) = (usage::cpu_seconds(own).unwrap(), Processes(vec![own; 3]).cpu_seconds().unwrap());
        assert!(three >= 2.9 * one, "{one} of one, {three} of three");
        assert!(Processes(vec![u32::MAX]).cpu_seconds().is_err());
    }
}
