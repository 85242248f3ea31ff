//! `cargo xtask cpuinfo`: the machine as the kernel describes it, and the cores a sweep pins its threads to.
//!
//! Everything is read from files (`/sys`, `/proc`), so a test can hand it a made-up machine. What the
//! kernel does not tell stays empty; nothing is guessed, and nothing is timed to find out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::errors::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// How a verb prints what it found.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let machine = Machine::read(Path::new("/"));
    match args.format {
        Format::Text => say!("{}", machine.to_text().trim_end()),
        Format::Json => say!("{}", serde_json::to_string_pretty(&machine)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a core is for, on machines that have two sorts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Class {
    Performance,
    Efficiency,
}

/// One logical processor that this process may use.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Cpu {
    /// The number the kernel schedules by.
    pub(crate) id: usize,
    /// The logical processors on the same physical core, itself included.
    pub(crate) siblings: Vec<usize>,
    pub(crate) package: Option<usize>,
    /// Empty where the kernel does not tell, or all cores are alike.
    pub(crate) class: Option<Class>,
    pub(crate) max_mhz: Option<u64>,
    pub(crate) governor: Option<String>,
}

/// One cache, as the first processor that shares it sees it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Cache {
    pub(crate) level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub(crate) kind: String,
    pub(crate) bytes: u64,
    /// How many of them the usable processors have.
    pub(crate) count: usize,
}

/// A machine, and the choice a sweep makes on it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Machine {
    pub(crate) model: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) memory_bytes: Option<u64>,
    /// Logical processors this process may use.
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) physical_cores: usize,
    pub(crate) caches: Vec<Cache>,
    /// Processors' worth of time that the control group grants; empty without a limit.
    pub(crate) cgroup_quota: Option<f64>,
    /// Where threads go, in this order: one per physical core first, performance cores first.
    pub(crate) pin: Vec<usize>,
}

impl Machine {
    /// Reads the machine whose `/sys` and `/proc` lie under `root`.
    pub(crate) fn read(root: &Path) -> Machine {
        let file = |path: &str| {
            let text = std::fs::read_to_string(root.join(path)).ok()?;
            Some(text.trim_end_matches(['\n', '\0']).to_owned())
        };
        let info = file("proc/cpuinfo").unwrap_or_default();
        let model = ["model name", "Hardware", "cpu model"]
            .iter()
            .find_map(|key| field(&info, key));
        let memory = file("proc/meminfo").and_then(|text| {
            let kib = field(&text, "MemTotal")?;
            kib.split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
                .map(|kib| kib * 1024)
        });
        let ids = usable(&file);
        let classes = classes(&ids, &file);
        let cpus: Vec<Cpu> = ids
            .iter()
            .map(|&id| {
                let dir = format!("sys/devices/system/cpu/cpu{id}");
                let siblings = ["core_cpus_list", "thread_siblings_list"]
                    .iter()
                    .find_map(|name| file(&format!("{dir}/topology/{name}")))
                    .map_or_else(|| vec![id], |list| parse_list(&list));
                Cpu {
                    id,
                    siblings,
                    package: number(file(&format!("{dir}/topology/physical_package_id")))
                        .map(|n| n as usize),
                    class: classes.get(&id).copied(),
                    max_mhz: number(file(&format!("{dir}/cpufreq/cpuinfo_max_freq")))
                        .map(|khz| khz / 1000),
                    governor: file(&format!("{dir}/cpufreq/scaling_governor")),
                }
            })
            .collect();
        let mut cores: Vec<&Vec<usize>> = cpus.iter().map(|cpu| &cpu.siblings).collect();
        cores.sort();
        cores.dedup();
        Machine {
            model,
            kernel: file("proc/sys/kernel/osrelease"),
            memory_bytes: memory,
            physical_cores: cores.len(),
            caches: caches(&ids, &file),
            cgroup_quota: quota(&file),
            pin: pin_order(&cpus),
            cpus,
        }
    }

    /// The description for people.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let unknown = "unknown (the system does not say)";
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "cpu        {}",
            self.model.as_deref().unwrap_or(unknown)
        );
        let _ = writeln!(
            text,
            "kernel     {}",
            self.kernel.as_deref().unwrap_or(unknown)
        );
        let memory = self.memory_bytes.map_or(unknown.to_owned(), size);
        let _ = writeln!(text, "memory     {memory}");
        let _ = writeln!(
            text,
            "cores      {} physical, {} logical usable",
            self.physical_cores,
            self.cpus.len()
        );
        let count = |class| {
            self.cpus
                .iter()
                .filter(|cpu| cpu.class == Some(class))
                .count()
        };
        match (count(Class::Performance), count(Class::Efficiency)) {
            (0, 0) => text.push_str("classes    all cores alike, as far as the kernel tells\n"),
            (fast, slow) => {
                let _ = writeln!(
                    text,
                    "classes    {fast} performance, {slow} efficiency (logical)"
                );
            }
        }
        for cache in &self.caches {
            let Cache {
                level,
                kind,
                bytes,
                count,
            } = cache;
            let _ = writeln!(
                text,
                "cache      L{level} {:<11} {count} x {}",
                kind.to_lowercase(),
                size(*bytes)
            );
        }
        match self.cgroup_quota {
            Some(cpus) => {
                let _ = writeln!(
                    text,
                    "quota      {cpus:.2} processors' worth of time (control group)"
                );
            }
            None => text.push_str("quota      none\n"),
        }
        let mut governors: Vec<&str> = self
            .cpus
            .iter()
            .filter_map(|cpu| cpu.governor.as_deref())
            .collect();
        governors.sort_unstable();
        governors.dedup();
        let governors = if governors.is_empty() {
            "not visible".to_owned()
        } else {
            governors.join(", ")
        };
        let _ = writeln!(text, "governor   {governors}");
        let _ = writeln!(text, "pin set    {}", join(&self.pin));
        for cpu in &self.cpus {
            let class = match cpu.class {
                Some(Class::Performance) => "  performance",
                Some(Class::Efficiency) => "  efficiency",
                None => "",
            };
            let mhz = cpu
                .max_mhz
                .map_or(String::new(), |mhz| format!("  max {mhz} MHz"));
            let package = cpu
                .package
                .map_or(String::new(), |package| format!("  package {package}"));
            let siblings = join(&cpu.siblings);
            let _ = writeln!(
                text,
                "  cpu {:<4} on the core of {siblings}{package}{class}{mhz}",
                cpu.id
            );
        }
        text
    }

    /// What makes figures hard to trust on this machine, before anything is measured.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(quota) = self.cgroup_quota
            && quota < self.physical_cores as f64
        {
            let cores = self.physical_cores;
            warnings.push(format!(
                "the control group grants {quota:.2} of {cores} processors: expect throttling"
            ));
        }
        if let Some(cpu) = self
            .cpus
            .iter()
            .find(|cpu| cpu.governor.as_deref() == Some("powersave"))
        {
            // The driver of recent Intel processors calls its ordinary mode `powersave`; so this is a hint only.
            warnings.push(format!(
                "the frequency governor of cpu {} is powersave: clocks may vary",
                cpu.id
            ));
        }
        warnings
    }
}

/// Numbers with commas between them, as `--pin` takes them.
pub(crate) fn join(ids: &[usize]) -> String {
    ids.iter()
        .map(usize::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

/// One per physical core before any second thread of a core; within that, performance cores first.
fn pin_order(cpus: &[Cpu]) -> Vec<usize> {
    let mut order: Vec<(usize, Option<Class>, usize)> = cpus
        .iter()
        .map(|cpu| {
            // Siblings that this process may not use take no turn.
            let usable = |id: &&usize| cpus.iter().any(|other| other.id == **id);
            let turn = cpu
                .siblings
                .iter()
                .filter(usable)
                .position(|&id| id == cpu.id)
                .unwrap_or(0);
            (turn, cpu.class, cpu.id)
        })
        .collect();
    order.sort();
    order.into_iter().map(|(_, _, id)| id).collect()
}

/// The processors this process may run on.
fn usable(file: &impl Fn(&str) -> Option<String>) -> Vec<usize> {
    let allowed = file("proc/self/status")
        .and_then(|text| field(&text, "Cpus_allowed_list"))
        .map(|list| parse_list(&list));
    let online = file("sys/devices/system/cpu/online").map(|list| parse_list(&list));
    match (allowed, online) {
        (Some(allowed), Some(online)) => allowed
            .into_iter()
            .filter(|id| online.contains(id))
            .collect(),
        (Some(ids), None) | (None, Some(ids)) => ids,
        // Not Linux: the standard library knows how many there are, and nobody says which.
        (None, None) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// Performance or efficiency, where the kernel tells and there are two sorts.
fn classes(ids: &[usize], file: &impl Fn(&str) -> Option<String>) -> BTreeMap<usize, Class> {
    // Hybrid processors by Intel have one performance-counter device per sort of core.
    let listed = |path: &str| file(path).map(|list| parse_list(&list)).unwrap_or_default();
    let (fast, slow) = (
        listed("sys/devices/cpu_core/cpus"),
        listed("sys/devices/cpu_atom/cpus"),
    );
    if !fast.is_empty() && !slow.is_empty() {
        let class = |id: &usize| {
            let class = if fast.contains(id) {
                Some(Class::Performance)
            } else {
                None
            };
            class.or_else(|| slow.contains(id).then_some(Class::Efficiency))
        };
        return ids
            .iter()
            .filter_map(|id| Some((*id, class(id)?)))
            .collect();
    }
    // Others publish a relative capacity, 1024 for the biggest core. Slight differences are binning, not kinds.
    let capacity: Vec<(usize, u64)> = ids
        .iter()
        .filter_map(|&id| {
            Some((
                id,
                number(file(&format!(
                    "sys/devices/system/cpu/cpu{id}/cpu_capacity"
                )))?,
            ))
        })
        .collect();
    let most = capacity
        .iter()
        .map(|&(_, capacity)| capacity)
        .max()
        .unwrap_or(0);
    let small = |capacity: u64| capacity * 10 < most * 9;
    if capacity.iter().any(|&(_, capacity)| small(capacity)) {
        let class = |capacity| {
            if small(capacity) {
                Class::Efficiency
            } else {
                Class::Performance
            }
        };
        return capacity
            .into_iter()
            .map(|(id, capacity)| (id, class(capacity)))
            .collect();
    }
    BTreeMap::new()
}

/// The caches of the usable processors, each shared one counted once.
fn caches(ids: &[usize], file: &impl Fn(&str) -> Option<String>) -> Vec<Cache> {
    let mut found: BTreeMap<(u32, String, u64), Vec<String>> = BTreeMap::new();
    for id in ids {
        for index in 0..8 {
            let part = |name: &str| {
                file(&format!(
                    "sys/devices/system/cpu/cpu{id}/cache/index{index}/{name}"
                ))
            };
            let (Some(level), Some(kind), Some(bytes)) = (
                number(part("level")),
                part("type"),
                part("size").and_then(|text| parse_size(&text)),
            ) else {
                continue;
            };
            let shared = part("shared_cpu_list").unwrap_or_else(|| id.to_string());
            let sharers = found.entry((level as u32, kind, bytes)).or_default();
            if !sharers.contains(&shared) {
                sharers.push(shared);
            }
        }
    }
    let cache = |((level, kind, bytes), sharers): (_, Vec<String>)| Cache {
        level,
        kind,
        bytes,
        count: sharers.len(),
    };
    found.into_iter().map(cache).collect()
}

/// The tightest processor limit of the control groups this process is in.
fn quota(file: &impl Fn(&str) -> Option<String>) -> Option<f64> {
    let groups = file("proc/self/cgroup")?;
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let path = path.trim_matches('/');
        // Inside a container the file system shows the group itself at the top, outside at its path; and a
        // limit set on any group above binds as well.
        let mut folders = vec![String::new()];
        for part in path.split('/').filter(|part| !part.is_empty()) {
            folders.push(format!(
                "{}{part}/",
                folders.last().map_or("", String::as_str)
            ));
        }
        for folder in folders {
            if controllers.is_empty() {
                if let Some(text) = file(&format!("sys/fs/cgroup/{folder}cpu.max")) {
                    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
                    if let (Some(Ok(quota)), Some(Ok(period))) = (numbers.next(), numbers.next()) {
                        limits.push(quota / period);
                    }
                }
            } else if controllers.split(',').any(|name| name == "cpu") {
                for mount in ["cpu", "cpu,cpuacct"] {
                    let part = |name: &str| {
                        file(&format!("sys/fs/cgroup/{mount}/{folder}cpu.cfs_{name}_us"))
                    };
                    if let (Some(quota), Some(period)) =
                        (number(part("quota")), number(part("period")))
                    {
                        limits.push(quota as f64 / period as f64);
                    }
                }
            }
        }
    }
    limits
        .into_iter()
        .filter(|limit| limit.is_finite() && *limit > 0.0)
        .reduce(f64::min)
}

/// `key : value` from a file of such lines.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// A whole number that is not negative (`-1` means "no limit" in such files).
fn number(text: Option<String>) -> Option<u64> {
    text?.trim().parse().ok()
}

/// `0-3,8` as numbers.
fn parse_list(text: &str) -> Vec<usize> {
    let mut ids = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>())
        {
            ids.extend(first..=last);
        }
    }
    ids
}

/// `8192K` as bytes.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok().map(|number| number * factor)
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..0x10_0000 => (bytes as f64 / 1024.0, "KiB"),
        0x10_0000..0x4000_0000 => (bytes as f64 / f64::from(1 << 20), "MiB"),
        _ => (bytes as f64 / f64::from(1 << 30), "GiB"),
    };
    if value.fract() == 0.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine as a folder of files.
    struct Fake(std::path::PathBuf);

    impl Fake {
        fn new(name: &str, files: &[(&str, &str)]) -> Fake {
            let root =
                std::env::temp_dir().join(format!("xtask-cpuinfo-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Fake(root)
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn hybrid_machine_with_hyperthreads() {
        // Two performance cores with two threads each (0,1 and 2,3) and two efficiency cores (4, 5).
        let mut files = vec![
            ("sys/devices/system/cpu/online", "0-5\n"),
            ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-5\n"),
            ("sys/devices/cpu_core/cpus", "0-3\n"),
            ("sys/devices/cpu_atom/cpus", "4-5\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Example 9000\n",
            ),
            ("proc/meminfo", "MemTotal:       16777216 kB\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"),
            (
                "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
                "0-1\n",
            ),
            ("sys/devices/system/cpu/cpu1/cache/index0/level", "1\n"),
            ("sys/devices/system/cpu/cpu1/cache/index0/type", "Data\n"),
            ("sys/devices/system/cpu/cpu1/cache/index0/size", "48K\n"),
            (
                "sys/devices/system/cpu/cpu1/cache/index0/shared_cpu_list",
                "0-1\n",
            ),
            ("proc/self/cgroup", "0::/user/app\n"),
            ("sys/fs/cgroup/user/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/user/app/cpu.max", "max 100000\n"),
        ];
        let siblings = ["0-1", "0-1", "2-3", "2-3", "4", "5"];
        let paths: Vec<String> = (0..6)
            .map(|id| format!("sys/devices/system/cpu/cpu{id}/topology/core_cpus_list"))
            .collect();
        files.extend(paths.iter().map(String::as_str).zip(siblings));
        let fake = Fake::new("hybrid", &files);
        let machine = Machine::read(&fake.0);
        assert_eq!(machine.pin, [0, 2, 4, 5, 1, 3]);
        assert_eq!(machine.physical_cores, 4);
        assert_eq!(machine.cpus[4].class, Some(Class::Efficiency));
        assert_eq!(machine.model.as_deref(), Some("Example 9000"));
        assert_eq!(machine.memory_bytes, Some(16 << 30));
        assert_eq!(
            machine.caches,
            [Cache {
                level: 1,
                kind: "Data".into(),
                bytes: 48 << 10,
                count: 1
            }]
        );
        assert_eq!(machine.cgroup_quota, Some(1.5));
        assert_eq!(machine.warnings().len(), 1);
        assert!(machine.to_text().contains("4 performance, 2 efficiency"));
        let back: Machine =
            serde_json::from_str(&serde_json::to_string(&machine).unwrap()).unwrap();
        assert_eq!(back, machine);
    }

    #[test]
    fn only_allowed_processors_count() {
        let fake = Fake::new(
            "allowed",
            &[
                ("sys/devices/system/cpu/online", "0-7\n"),
                ("proc/self/status", "Cpus_allowed_list:\t3,5\n"),
                (
                    "sys/devices/system/cpu/cpu3/topology/core_cpus_list",
                    "2-3\n",
                ),
                (
                    "sys/devices/system/cpu/cpu5/topology/core_cpus_list",
                    "4-5\n",
                ),
                ("sys/devices/system/cpu/cpu3/cpu_capacity", "400\n"),
                ("sys/devices/system/cpu/cpu5/cpu_capacity", "1024\n"),
                ("proc/self/cgroup", "4:cpu,cpuacct:/box\n"),
                ("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n"),
                ("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n"),
            ],
        );
        let machine = Machine::read(&fake.0);
        assert_eq!(machine.pin, [5, 3], "the bigger core comes first");
        assert_eq!(machine.physical_cores, 2);
        assert_eq!(machine.cgroup_quota, None, "-1 is no limit");
    }

    #[test]
    fn a_system_that_tells_nothing_still_has_processors() {
        let machine = Machine::read(Path::new("/nonexistent"));
        assert!(!machine.pin.is_empty());
        assert!(machine.to_text().contains("unknown"));
    }
}
