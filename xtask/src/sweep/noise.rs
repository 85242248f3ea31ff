//! How quiet the machine is: other load, and time the hypervisor took away. Reads counters, judges no sample.

use std::thread;
use std::time::Duration;

/// The kernel's processor-time counters, in ticks since the machine started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticks {
    /// Time in which some program ran.
    busy: u64,
    idle: u64,
    /// Time in which this machine wanted to run and its host did not let it.
    steal: u64,
    /// Of the busy time, what this program and the children it has buried used.
    own: u64,
}

/// What happened on the machine between two readings, as shares of all its processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    pub(crate) steal: f64,
    /// Load by programs other than the sweep.
    pub(crate) other: f64,
}

impl Ticks {
    /// The counters now; nothing where the kernel does not publish them.
    pub(crate) fn now() -> Option<Ticks> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let me = std::fs::read_to_string("/proc/self/stat").ok()?;
        Ticks::parse(&stat, &me)
    }

    fn parse(stat: &str, me: &str) -> Option<Ticks> {
        let all: Vec<u64> = stat
            .lines()
            .next()?
            .split_whitespace()
            .skip(1)
            .filter_map(|n| n.parse().ok())
            .collect();
        // user nice system idle iowait irq softirq steal; the guest columns after them are inside `user`.
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = all.as_slice() else {
            return None;
        };
        // The program's name may hold spaces, so count from behind its closing bracket: utime is the 12th there.
        let fields: Vec<&str> = me.rsplit_once(')')?.1.split_whitespace().collect();
        let own = (11..15)
            .filter_map(|at| fields.get(at)?.parse::<u64>().ok())
            .sum();
        Some(Ticks {
            busy: user + nice + system + irq + softirq,
            idle: idle + iowait,
            steal,
            own,
        })
    }

    /// What happened since `before`.
    pub(crate) fn since(self, before: Ticks) -> Shares {
        let busy = self.busy.saturating_sub(before.busy);
        let steal = self.steal.saturating_sub(before.steal);
        let idle = self.idle.saturating_sub(before.idle);
        let own = self.own.saturating_sub(before.own);
        let all = (busy + steal + idle).max(1) as f64;
        Shares {
            steal: steal as f64 / all,
            other: busy.saturating_sub(own) as f64 / all,
        }
    }

    /// Steal time since `before`, in ticks.
    pub(crate) fn steal_since(self, before: Ticks) -> u64 {
        self.steal.saturating_sub(before.steal)
    }
}

/// Watches the machine for a moment in which this program does nothing.
pub(crate) fn preflight() -> Option<Shares> {
    let before = Ticks::now()?;
    thread::sleep(Duration::from_millis(500));
    Some(Ticks::now()?.since(before))
}

impl Shares {
    /// A warning if figures taken now would suffer.
    pub(crate) fn warning(self, cores: usize) -> Option<String> {
        let mut parts = Vec::new();
        // A tenth of one core is already visible in a cell that uses all of them.
        if self.other * cores as f64 > 0.1 {
            parts.push(format!(
                "other programs use {:.0} % of the processors",
                self.other * 100.0
            ));
        }
        if self.steal > 0.01 {
            parts.push(format!(
                "the host takes {:.1} % of the time away",
                self.steal * 100.0
            ));
        }
        (!parts.is_empty()).then(|| format!("{}; figures will be noisier", parts.join(", and ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_told_apart() {
        let read = |busy: u64, idle: u64, steal: u64, own: u64| {
            let stat = format!("cpu  {busy} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3\n");
            let me = format!("7 (a ) b) S 1 1 1 0 -1 0 0 0 0 0 {own} 0 0 0 20 0 1 0\n");
            Ticks::parse(&stat, &me).unwrap()
        };
        let shares = read(160, 130, 10, 50).since(read(100, 100, 0, 10));
        assert_eq!(
            shares,
            Shares {
                steal: 0.1,
                other: 0.2
            }
        );
        assert!(shares.warning(2).unwrap().contains("20 %"));
        assert_eq!(Shares::default().warning(2), None);
    }
}
