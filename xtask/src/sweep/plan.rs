//! What a sweep is going to measure: flags checked, defaults filled in, cells asked of the harness, and the
//! whole of it kept in `plan.json` so that an interrupted sweep can be finished. Runs nothing that is timed.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::cpuinfo::{Machine, join};
use crate::errors::usage;
use crate::harness::{Harness, Inventory};
use crate::sweep::Args;

/// How long a sweep may take, and how much it can show.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Profile {
    /// Under three minutes on two cores: 50,000 keys, 6 rounds.
    Quick,
    /// The figures to decide by: 1,000,000 keys, 8 rounds, some 40 minutes on two cores.
    Standard,
    /// The figures to publish: 1,000,000 keys, 20 rounds, a second per sample.
    Publication,
}

/// Time per sample of the quick profile, unless its cells are so many that they would not fit.
const QUICK_SAMPLE_MS: u64 = 25;

/// What the quick profile may take by the harness's estimate. The estimate knows nothing of busy neighbours: the same
/// sweep has taken 1.5 times as long here.
const QUICK_BUDGET_MS: f64 = 95_000.0;

/// What `--allocator` can be; a cell that compares them is measured under each.
pub(crate) const ALLOCATORS: [&str; 2] = ["mimalloc", "system"];

/// The version of `plan.json` this program writes and reads.
const VERSION: u32 = 1;

/// The definition of a sweep: everything that decides which samples there will be.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Plan {
    pub(crate) version: u32,
    pub(crate) profile: Profile,
    /// Orders the designs within each round and feeds the workloads.
    pub(crate) seed: u64,
    /// Rounds, that is samples per cell.
    pub(crate) count: u32,
    pub(crate) keys: u64,
    pub(crate) key_length: u32,
    pub(crate) value_size: u32,
    pub(crate) threads: Vec<usize>,
    /// Time per sample of the core grid and of experiments.
    pub(crate) benchtime: String,
    /// Time per sample of phases D and E, which have many cells on small maps.
    pub(crate) small_benchtime: String,
    pub(crate) allocator: String,
    /// The design that others are compared with.
    pub(crate) base: String,
    /// Core numbers in the order threads take them; empty: not pinned.
    pub(crate) pin: Vec<usize>,
    /// Seconds a child may take before it counts as hung; empty: from its estimate.
    pub(crate) timeout_s: Option<u64>,
    /// Whether each design runs a second time under the name `NAME.again`.
    pub(crate) aa: bool,
    /// Tells builds of the harness apart.
    pub(crate) harness: String,
    /// The `key: value` lines at the head of `bench.txt`.
    pub(crate) facts: Vec<(String, String)>,
    /// Names that measure the empty loop: shown with every report, ranked never.
    pub(crate) floors: Vec<String>,
    pub(crate) units: Vec<Unit>,
}

/// What one child process measures: one design in one phase or experiment.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Unit {
    pub(crate) design: String,
    /// The second name of a design that is compared with itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) alias: Option<String>,
    /// The allocator of its process, where its cells ask for another one than the sweep's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allocator: Option<String>,
    pub(crate) part: Part,
    pub(crate) cells: Vec<Cell>,
}

/// A phase of the sweep, or an experiment beside it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    Phase(String),
    Experiment(String),
}

/// One row of the results, and what the harness thinks a sample of it costs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) ms: f64,
}

impl Part {
    /// The flag and value that select it on the harness's command line.
    pub(crate) fn flag(&self) -> [&str; 2] {
        match self {
            Part::Phase(name) => ["--phase", name],
            Part::Experiment(name) => ["--experiment", name],
        }
    }

    /// Its name alone.
    pub(crate) fn name(&self) -> &str {
        self.flag()[1]
    }
}

impl Unit {
    /// The name its rows carry.
    pub(crate) fn label(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.design)
    }

    /// A cell name as the harness knows it.
    pub(crate) fn native(&self, cell: &str) -> String {
        match self.alias {
            Some(_) => cell.replacen(AGAIN_PART, "/", 1),
            None => cell.to_owned(),
        }
    }

    /// A line of the harness with this unit's own name in it.
    pub(crate) fn labelled(&self, line: &str) -> String {
        match self.alias {
            Some(_) => again_name(line),
            None => line.to_owned(),
        }
    }
}

/// What the second name of a design ends with, and how that looks in a cell's name.
const AGAIN: &str = ".again";
const AGAIN_PART: &str = ".again/";

/// A line with the second name of what it is about. That is not always the unit's design: an experiment may compare
/// other things than designs.
fn again_name(line: &str) -> String {
    let Some((before, rest)) = line.split_once("/impl=") else {
        return line.to_owned();
    };
    match rest.split_once('/') {
        Some((name, after)) => format!("{before}/impl={name}{AGAIN_PART}{after}"),
        None => line.to_owned(),
    }
}

impl Plan {
    /// What flags, profile and machine say by themselves. Needs no harness, so mistakes show before it is built.
    pub(crate) fn draft(args: &Args, machine: &Machine) -> Result<Plan> {
        let profile = args.profile.unwrap_or(Profile::Quick);
        let (keys, count, benchtime, small) = match profile {
            Profile::Quick => (50_000, 6, format!("{QUICK_SAMPLE_MS}ms"), "5ms"),
            Profile::Standard => (1_000_000, 8, "100ms".to_owned(), "20ms"),
            Profile::Publication => (1_000_000, 20, "1s".to_owned(), "200ms"),
        };
        let plan = Plan {
            version: VERSION,
            profile,
            seed: args.seed.unwrap_or(1),
            count: args.count.unwrap_or(count),
            keys: args.keys.unwrap_or(keys),
            key_length: args.key_length.unwrap_or(16),
            value_size: args.value_size.unwrap_or(64),
            threads: unique(
                args.threads
                    .clone()
                    .unwrap_or_else(|| default_threads(profile, machine)),
            ),
            small_benchtime: args.benchtime.clone().unwrap_or(small.to_owned()),
            benchtime: args.benchtime.clone().unwrap_or(benchtime),
            allocator: args
                .allocator
                .clone()
                .unwrap_or_else(|| "mimalloc".to_owned()),
            base: String::new(),
            pin: pin_set(args.pin.as_deref(), machine)?,
            timeout_s: args.timeout,
            aa: args.aa,
            harness: String::new(),
            facts: Vec::new(),
            floors: Vec::new(),
            units: Vec::new(),
        };
        plan.check(machine)?;
        Ok(plan)
    }

    /// Refuses what cannot be measured, before anything is written.
    fn check(&self, machine: &Machine) -> Result<()> {
        if self.count == 0 {
            usage!("--count must be at least 1");
        }
        if self.threads.is_empty() {
            usage!("--threads needs at least one number");
        }
        if self.threads.contains(&0) {
            usage!("--threads 0 measures nothing; name counts of 1 or more, as in --threads 1,2");
        }
        if let Some(most) = self.threads.iter().find(|&&threads| threads > 4096) {
            usage!("--threads {most} is more than the 4096 this program goes to");
        }
        if self.keys == 0 {
            usage!("--keys must be at least 1");
        }
        if self.key_length == 0 || self.key_length > 4096 {
            usage!(
                "--key-length must lie between 1 and 4096, not {}",
                self.key_length
            );
        }
        // Keys are decimal numbers padded to the key length, so that length limits how many there can be.
        if let Some(limit) = 10_u64.checked_pow(self.key_length)
            && self.keys > limit
        {
            let Plan {
                keys, key_length, ..
            } = self;
            usage!(
                "--keys {keys} does not fit keys of {key_length} digits, which number {limit}; raise --key-length"
            );
        }
        // Header and bytes of the key, the entry, and the slack of a table that has just grown.
        let need = u128::from(self.keys) * (u128::from(self.key_length) + 16 + 2 * 40);
        if let Some(memory) = machine.memory_bytes
            && need > u128::from(memory)
        {
            let gib = |bytes: u128| bytes as f64 / f64::from(1 << 30);
            let keys = self.keys;
            usage!(
                "--keys {keys} needs about {:.1} GiB, this machine has {:.1}",
                gib(need),
                gib(memory.into())
            );
        }
        check_benchtime(&self.benchtime)
    }

    /// Completes a draft with what the harness offers: facts, designs, and the cells of each.
    pub(crate) fn fill(
        mut self,
        args: &Args,
        harness: &Harness,
        inventory: &Inventory,
    ) -> Result<Plan> {
        self.harness = harness.fingerprint()?;
        let floors = inventory
            .designs
            .iter()
            .filter(|design| design.kind == "floor");
        self.floors = floors.map(|design| design.name.clone()).collect();
        let known: Vec<&str> = inventory
            .designs
            .iter()
            .map(|design| design.name.as_str())
            .collect();
        if let Some(names) = &args.designs {
            for name in names {
                if !known.contains(&name.as_str()) {
                    usage!("unknown design '{name}'; there are {}", known.join(", "));
                }
            }
        }
        let parts = parts(args, inventory)?;
        self.units = self.plan_units(args, harness, inventory, &parts)?;
        if self.profile == Profile::Quick && args.benchtime.is_none() {
            // Quick is a promise. More designs, or slower ones, get shorter samples; a flag has the last word.
            let mut ms = QUICK_SAMPLE_MS;
            while self.round_ms() * f64::from(self.count) > QUICK_BUDGET_MS && ms > 5 {
                ms = (ms * 7 / 10).max(5);
                self.benchtime = format!("{ms}ms");
                self.units = self.plan_units(args, harness, inventory, &parts)?;
            }
        }
        self.facts = self.head_facts(harness)?;
        let measured: BTreeSet<&str> = self.units.iter().map(Unit::label).collect();
        if let Some(names) = &args.designs
            && let Some(name) = names.iter().find(|name| !measured.contains(name.as_str()))
        {
            let parts: Vec<&str> = parts.iter().map(Part::name).collect();
            usage!("design '{name}' has no cells in {}", parts.join(", "));
        }
        self.base = match &args.base {
            Some(base) if measured.contains(base.as_str()) => base.clone(),
            Some(base) => usage!("--base {base} is not among the designs measured here"),
            None if measured.contains("mutex") => "mutex".to_owned(),
            None => {
                let first = self
                    .units
                    .iter()
                    .find(|unit| !self.floors.contains(&unit.design))
                    .or(self.units.first());
                first
                    .map(|unit| unit.label().to_owned())
                    .context("there is nothing to measure")?
            }
        };
        Ok(self)
    }

    /// One unit for each chosen design in each phase or experiment it has cells in.
    fn plan_units(
        &self,
        args: &Args,
        harness: &Harness,
        inventory: &Inventory,
        parts: &[Part],
    ) -> Result<Vec<Unit>> {
        let mut units = Vec::new();
        let mut planned = BTreeSet::new();
        for part in parts {
            let mut any = false;
            for design in &inventory.designs {
                let floor = self.floors.contains(&design.name);
                let wanted = match &args.designs {
                    // The floor says what part of a figure is the loop itself, so it is in every sweep.
                    Some(names) => names.contains(&design.name) || floor,
                    None => !(args.no_peers && design.kind == "peer"),
                };
                // Which designs an experiment compares, the harness decides: it plans no cell for the others.
                let belongs = match part {
                    Part::Phase(phase) => design.phases.contains(phase),
                    Part::Experiment(_) => true,
                };
                if !wanted || !belongs {
                    continue;
                }
                // The sweep's allocator first: only cells that insist on another one are left for that.
                let other = ALLOCATORS.iter().filter(|name| **name != self.allocator);
                let other = other
                    .filter(|_| matches!(part, Part::Experiment(_)))
                    .map(|name| Some((*name).to_owned()));
                for allocator in std::iter::once(None).chain(other) {
                    let mut unit = Unit {
                        design: design.name.clone(),
                        alias: None,
                        allocator,
                        part: part.clone(),
                        cells: Vec::new(),
                    };
                    unit.cells = self.ask_cells(harness, &unit)?;
                    // A row has one sample a round, whatever the number of phases that would measure it.
                    unit.cells.retain(|cell| planned.insert(cell.name.clone()));
                    if unit.cells.is_empty() {
                        continue;
                    }
                    any |= !floor
                        || args
                            .designs
                            .as_ref()
                            .is_some_and(|names| names.contains(&design.name));
                    let again = self.aa.then(|| {
                        let mut again = unit.clone();
                        again.alias = Some(format!("{}{AGAIN}", unit.design));
                        for cell in &mut again.cells {
                            cell.name = again_name(&cell.name);
                        }
                        again
                    });
                    units.push(unit);
                    units.extend(again);
                }
            }
            if !any && parts.len() == 1 {
                usage!("none of the chosen designs belongs to {}", part.name());
            }
        }
        Ok(units)
    }

    /// The lines at the head of `bench.txt`: what the harness knows, and the settings of the sweep.
    fn head_facts(&self, harness: &Harness) -> Result<Vec<(String, String)>> {
        let mut facts = harness.facts(&self.allocator)?;
        if self.units.iter().any(|unit| unit.allocator.is_some()) {
            // One line for the whole file: a second allocator must not tear its tables apart.
            for (_, value) in facts.iter_mut().filter(|(key, _)| key == "allocator") {
                value.push_str(", and the one that a cell names");
            }
        }
        if !facts.iter().any(|(key, _)| key == "commit") {
            facts.push(("commit".to_owned(), harness.commit().to_owned()));
        }
        let pin = if self.pin.is_empty() {
            "none".to_owned()
        } else {
            join(&self.pin)
        };
        for (key, value) in [
            ("keys", self.keys.to_string()),
            ("key-length", self.key_length.to_string()),
            ("value-size", self.value_size.to_string()),
            ("benchtime", self.benchtime.clone()),
            ("benchtime-small", self.small_benchtime.clone()),
            ("pin", pin),
            (
                "sweep",
                self.profile
                    .to_possible_value()
                    .map_or(String::new(), |v| v.get_name().to_owned()),
            ),
        ] {
            if !facts.iter().any(|(known, _)| known == key) {
                facts.push((key.to_owned(), value));
            }
        }

        Ok(facts)
    }

    /// The cells of one unit, as the harness plans them.
    fn ask_cells(&self, harness: &Harness, unit: &Unit) -> Result<Vec<Cell>> {
        let mut args = self.run_args(unit, 1);
        args.push("--plan".to_owned());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let text = harness.ask(&args)?;
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|line| {
                let mut words = line.split_whitespace();
                let name = words.next().unwrap_or_default().to_owned();
                let ms = words
                    .next()
                    .and_then(|word| word.trim_end_matches("ms").parse().ok())
                    .unwrap_or(0.0);
                Ok(Cell { name, ms })
            })
            .collect()
    }

    /// The harness's command line for one unit in one round.
    pub(crate) fn run_args(&self, unit: &Unit, round: u32) -> Vec<String> {
        let pin = if self.pin.is_empty() {
            "none".to_owned()
        } else {
            join(&self.pin)
        };
        let [part, name] = unit.part.flag();
        // All designs see the same streams of operations in a round, and other ones in the next.
        let seed = mix(self.seed.wrapping_add(u64::from(round)));
        let threads = join(&self.threads);
        let small = matches!(&unit.part, Part::Phase(phase) if phase == "D" || phase == "E");
        let benchtime = if small {
            &self.small_benchtime
        } else {
            &self.benchtime
        };
        let mut args = [
            "run",
            "--design",
            &unit.design,
            part,
            name,
            "--round",
            &round.to_string(),
            "--seed",
            &seed.to_string(),
            "--keys",
            &self.keys.to_string(),
            "--key-length",
            &self.key_length.to_string(),
            "--value-size",
            &self.value_size.to_string(),
            "--threads",
            &threads,
            "--benchtime",
            benchtime,
            "--pin",
            &pin,
            "--allocator",
            unit.allocator.as_deref().unwrap_or(&self.allocator),
        ]
        .map(str::to_owned)
        .to_vec();
        if self.profile == Profile::Quick {
            args.push("--brief".to_owned());
        }
        args
    }

    /// The units of one round in the order they run: shuffled, and the same whenever it is asked.
    pub(crate) fn order(&self, round: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.units.len()).collect();
        let mut state = mix(self.seed ^ (u64::from(round) << 32));
        for last in (1..order.len()).rev() {
            state = mix(state);
            // The modulo's bias is of no matter for a few dozen units.
            order.swap(last, (state % (last as u64 + 1)) as usize);
        }
        order
    }

    /// Cells of one round.
    pub(crate) fn cells(&self) -> usize {
        self.units.iter().map(|unit| unit.cells.len()).sum()
    }

    /// Samples of the whole sweep.
    pub(crate) fn samples(&self) -> usize {
        self.cells() * self.count as usize
    }

    /// The value of a line at the head of `bench.txt`.
    pub(crate) fn fact(&self, key: &str) -> Option<&str> {
        self.facts
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.as_str())
    }

    /// Estimated milliseconds of one round, with what it takes to start and end each child.
    pub(crate) fn round_ms(&self) -> f64 {
        self.units.iter().map(Unit::ms).sum()
    }

    /// Writes it so that a reader finds all of it or nothing.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        let draft = path.with_extension("json.new");
        std::fs::write(&draft, text)
            .with_context(|| format!("cannot write {}", draft.display()))?;
        std::fs::rename(&draft, path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the definition of a sweep that was begun earlier.
    pub(crate) fn load(path: &Path) -> Result<Plan> {
        let Ok(text) = std::fs::read_to_string(path) else {
            usage!(
                "{} is not there or not readable: no sweep was begun in that folder",
                path.display()
            );
        };
        match serde_json::from_str::<Plan>(&text) {
            Ok(plan) if plan.version == VERSION => Ok(plan),
            Ok(plan) => usage!(
                "{} has version {}, this program reads {VERSION}",
                path.display(),
                plan.version
            ),
            Err(error) => usage!("{} is damaged: {error}", path.display()),
        }
    }
}

impl Unit {
    /// Estimated milliseconds of one child.
    pub(crate) fn ms(&self) -> f64 {
        self.cells.iter().map(|cell| cell.ms).sum::<f64>() + 20.0
    }
}

/// The phases or the experiment that the flags ask for.
fn parts(args: &Args, inventory: &Inventory) -> Result<Vec<Part>> {
    if let Some(name) = &args.only {
        let known: Vec<&str> = inventory
            .experiments
            .iter()
            .map(|experiment| experiment.name.as_str())
            .collect();
        if !known.contains(&name.as_str()) {
            let known = if known.is_empty() {
                "none yet".to_owned()
            } else {
                known.join(", ")
            };
            usage!("unknown experiment '{name}'; there are: {known}");
        }
        return Ok(vec![Part::Experiment(name.clone())]);
    }
    let mut parts = Vec::new();
    match &args.phases {
        None => {
            let measured = inventory.phases.iter().filter(|phase| phase.measured);
            parts.extend(measured.map(|phase| Part::Phase(phase.name.clone())));
        }
        Some(names) => {
            for name in unique(names.clone()) {
                let name = name.to_uppercase();
                match inventory.phases.iter().find(|phase| phase.name == name) {
                    Some(phase) if phase.measured => parts.push(Part::Phase(name)),
                    Some(phase) => usage!("phase {name} is not yet measured ({})", phase.what),
                    None => {
                        let known: Vec<&str> = inventory
                            .phases
                            .iter()
                            .map(|phase| phase.name.as_str())
                            .collect();
                        usage!("unknown phase '{name}'; there are {}", known.join(", "));
                    }
                }
            }
        }
    }
    Ok(parts)
}

/// One thread, then doubling up to all physical cores; the quick profile only the two ends.
fn default_threads(profile: Profile, machine: &Machine) -> Vec<usize> {
    let cores = machine.physical_cores.max(1);
    if profile == Profile::Quick {
        return unique(vec![1, cores]);
    }
    let doubling = std::iter::successors(Some(1), |threads| Some(threads * 2))
        .take_while(|&threads| threads < cores);
    unique(doubling.chain([cores]).collect())
}

fn unique<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

fn pin_set(flag: Option<&str>, machine: &Machine) -> Result<Vec<usize>> {
    let list = match flag {
        None | Some("auto") => return Ok(machine.pin.clone()),
        Some("none") => return Ok(Vec::new()),
        Some(list) => list,
    };
    let mut pin = Vec::new();
    for word in list.split(',') {
        match word.trim().parse::<usize>() {
            Ok(id) if !machine.pin.contains(&id) => {
                usage!(
                    "--pin {list}: this process may not use cpu {id}; it may use {}",
                    join(&machine.pin)
                );
            }
            Ok(id) if pin.contains(&id) => usage!("--pin {list} names cpu {id} twice"),
            Ok(id) => pin.push(id),
            Err(_) => usage!("--pin {list}: expected auto, none, or core numbers such as 0,1"),
        }
    }
    Ok(pin)
}

/// `200ms`, `1.5s`, `5000x`: a time or a number of operations, not zero.
fn check_benchtime(text: &str) -> Result<()> {
    let units = ["ms", "us", "s", "x"];
    let unit = units.into_iter().find(|unit| text.ends_with(unit));
    let number = unit.map(|unit| &text[..text.len() - unit.len()]);
    let valid = match (number, unit) {
        (Some(number), Some("x")) => number.parse::<u64>().is_ok_and(|count| count > 0),
        (Some(number), Some(_)) => {
            number
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
                && number
                    .parse::<f64>()
                    .is_ok_and(|time| time > 0.0 && time.is_finite())
        }
        _ => false,
    };
    if !valid {
        usage!(
            "--benchtime {text}: expected a time such as 200ms or 1s, or a count of operations such as 5000x"
        );
    }
    Ok(())
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): neighbouring seeds give unrelated orders.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchtime_is_a_time_or_a_count() {
        for good in ["200ms", "1s", "1.5s", "10us", "5000x"] {
            assert!(check_benchtime(good).is_ok(), "{good}");
        }
        for bad in [
            "", "0ms", "-1s", "ms", "x", "1.5x", "0x", "200", "1h", "infs", "nans", "1e3s",
        ] {
            assert!(check_benchtime(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn threads_double_up_to_the_cores() {
        let machine = |physical_cores| Machine {
            physical_cores,
            ..Machine::default()
        };
        assert_eq!(default_threads(Profile::Standard, &machine(1)), [1]);
        assert_eq!(default_threads(Profile::Standard, &machine(2)), [1, 2]);
        assert_eq!(
            default_threads(Profile::Standard, &machine(6)),
            [1, 2, 4, 6]
        );
        assert_eq!(default_threads(Profile::Quick, &machine(16)), [1, 16]);
    }

    #[test]
    fn an_alias_touches_the_design_part_alone() {
        let part = Part::Phase("A".to_owned());
        let unit = Unit {
            design: "rw".into(),
            alias: Some("rw.again".into()),
            allocator: None,
            part,
            cells: Vec::new(),
        };
        let native = "Cache/impl=rw/dist=rw/mix=r90-2";
        let labelled = unit.labelled(native);
        assert_eq!(labelled, "Cache/impl=rw.again/dist=rw/mix=r90-2");
        assert_eq!(unit.native(&labelled), native);
    }
}
