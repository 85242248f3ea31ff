//! What the operating system tells: facts about the machine, and what it did to the process meanwhile.
//!
//! Facts are stable within a run: they configure a results file, and must not tear its tables apart.

use std::fs;

/// The processor's name, or its architecture where the system does not tell.
#[must_use]
pub fn cpu_name() -> String {
    let from_proc = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let field = |name: &str| {
            text.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_owned())
            })
        };
        field("model name")
            .or_else(|| field("Hardware"))
            .or_else(|| field("cpu model"))
    });
    from_proc
        .or_else(sysctl_cpu_name)
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Where there is no `/proc`: what `sysctl` says.
fn sysctl_cpu_name() -> Option<String> {
    let output = std::process::Command::new("sysctl")
        .args(["-n", "machdep.cpu.brand_string"])
        .output()
        .ok()?;
    let name = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !name.is_empty()).then_some(name)
}

/// The cores that this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The kernel's release, or `unknown`.
#[must_use]
pub fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .ok()
        .or_else(|| {
            let output = std::process::Command::new("uname")
                .arg("-r")
                .output()
                .ok()?;
            String::from_utf8(output.stdout).ok()
        })
        .map_or_else(|| "unknown".to_owned(), |release| release.trim().to_owned())
}

/// What the process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all threads, in nanoseconds.
    pub cpu_ns: u64,
    /// Times that a thread gave up its core, to wait.
    pub voluntary_switches: u64,
    /// Times that a thread was taken off its core.
    pub involuntary_switches: u64,
    /// Ticks that the hypervisor gave to others, of all cores of the machine.
    pub steal_ticks: u64,
}

impl Usage {
    /// The present figures. Zero where the system does not tell.
    #[must_use]
    pub fn now() -> Self {
        let (cpu_ns, voluntary_switches, involuntary_switches) = process_usage();
        Self {
            cpu_ns,
            voluntary_switches,
            involuntary_switches,
            steal_ticks: steal_ticks(),
        }
    }

    /// What was used after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
            steal_ticks: self.steal_ticks.saturating_sub(earlier.steal_ticks),
        }
    }
}

/// Processor time and switches of all threads.
#[cfg(unix)]
fn process_usage() -> (u64, u64, u64) {
    // SAFETY: both structs are plain data for which zeroes are valid, and both calls only write into the struct that
    // they are given.
    let (time, usage) = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        (time, usage)
    };
    let cpu_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    (cpu_ns, usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}

/// Not told here.
#[cfg(not(unix))]
fn process_usage() -> (u64, u64, u64) {
    (0, 0, 0)
}

/// The most memory that the process ever held, in bytes, or 0 where the system does not tell.
#[must_use]
pub fn peak_resident() -> u64 {
    status_field("VmHWM:")
}

/// Makes [`peak_resident`] begin again at what the process holds now; false where the system cannot.
pub fn reset_peak_resident() -> bool {
    // Linux: 5 resets the high-water mark (proc_pid_clear_refs(5)).
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The memory that the process holds now, in bytes, or 0 where the system does not tell.
#[must_use]
pub fn resident() -> u64 {
    status_field("VmRSS:")
}

/// One field of `/proc/self/status`, given in kB there.
fn status_field(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = field.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// The eighth figure of the first line of `/proc/stat`.
fn steal_ticks() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    parse_steal(&text).unwrap_or(0)
}

/// See [`steal_ticks`].
fn parse_steal(text: &str) -> Option<u64> {
    text.lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .nth(7)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure() {
        assert_eq!(
            parse_steal("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0 0 0 0 0 0 0 0 0 0\n"),
            Some(8)
        );
        assert_eq!(parse_steal("intr 5"), None);
        assert_eq!(parse_steal(""), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_uses_its_processor_and_memory() {
        let before = Usage::now();
        let mut sum = 0_u64;
        while Usage::now().since(before).cpu_ns < 1_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(peak_resident() >= resident() && resident() > 0);
        assert!(!cpu_name().is_empty() && !kernel().is_empty() && cores() > 0);
    }
}
