//! Machine and build as configuration lines: only what stays the same for a whole sweep.

use std::fs;
use std::process::Command;

/// The environment variable with the workspace's commit, which only the caller knows.
pub const COMMIT: &str = "HARNESS_COMMIT";

/// The configuration lines, in order.
#[must_use]
pub fn facts() -> Vec<(&'static str, String)> {
    vec![
        ("goos", std::env::consts::OS.to_owned()),
        ("goarch", std::env::consts::ARCH.to_owned()),
        ("pkg", "harness".to_owned()),
        ("cpu", cpu()),
        ("cores", cores().to_string()),
        ("kernel", kernel()),
        ("rustc", env!("HARNESS_RUSTC").to_owned()),
        ("target-features", env!("HARNESS_TARGET_FEATURES").to_owned()),
        ("harness", env!("CARGO_PKG_VERSION").to_owned()),
        (
            "commit",
            std::env::var(COMMIT).unwrap_or_else(|_| "unknown".to_owned()),
        ),
        ("build", env!("HARNESS_PROFILE").to_owned()),
        ("allocator", crate::alloc::backend().to_owned()),
        ("hasher", format!("xxh3 one-shot seed={:#x}", crate::family::hasher().seed())),
    ]
}

/// How many processors this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| matches!(key.trim(), "model name" | "Model" | "Processor"))
        .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| {
            model.trim().to_owned()
        })
}

fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let release = release.or_else(|| {
        let output = Command::new("uname").arg("-r").output().ok()?;
        String::from_utf8(output.stdout).ok()
    });
    release.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// Clock ticks that the hypervisor gave to others since the machine started, over all processors; 0 where unknown.
#[must_use]
pub fn steal_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    // "cpu user nice system idle iowait irq softirq steal …"
    first
        .split_whitespace()
        .nth(8)
        .and_then(|ticks| ticks.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_one_line_with_a_lower_case_key() {
        for (key, value) in facts() {
            assert!(key.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{key}");
            assert!(!value.is_empty() && !value.contains('\n'), "{key}: {value:?}");
        }
    }
}
