//! `cargo xtask sweep` against a stand-in for the harness: figures that arrive, cells that fail, processes that die
//! or hang, interruptions, and command lines that make no sense. Nothing here depends on how fast anything is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A folder of its own for a test, removed at its end.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("xtask-sweep-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Temp(path)
    }

    fn out(&self) -> PathBuf {
        self.0.join("out")
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn xtask(args: &[&str], faults: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .env("CACHE_HARNESS", env!("CARGO_BIN_EXE_fake-harness"))
        .env("FAKE_FAULTS", faults)
        .args(args);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn sweep(out: &Path, more: &[&str], faults: &str) -> Output {
    let mut args = vec!["sweep", "--threads", "1,2", "--out", out.to_str().unwrap()];
    args.extend(more);
    xtask(&args, faults).output().unwrap()
}

fn resume(out: &Path) -> Output {
    xtask(&["sweep", "--resume", "--out", out.to_str().unwrap()], "")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn check_code(output: &Output, code: i32) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        output.status.code(),
        Some(code),
        "stdout:\n{out}\nstderr:\n{err}"
    );
}

/// Every (cell, round) that has a sample. A second sample of the same is a mistake.
fn samples(out: &Path) -> BTreeSet<(String, String)> {
    let bench = fs::read_to_string(out.join("bench.txt")).unwrap();
    assert!(bench.ends_with('\n'));
    let mut round = String::new();
    let mut samples = BTreeSet::new();
    for line in bench.lines() {
        if let Some(begin) = line.strip_prefix("# begin ") {
            round = begin
                .split("round=")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .to_owned();
        } else if line.starts_with("Benchmark") {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert!(words.len() >= 4 && words[3] == "ns/op", "{line}");
            assert!(
                samples.insert((words[0].to_owned(), round.clone())),
                "twice: {line}"
            );
        }
    }
    samples
}

fn failed(out: &Path) -> Vec<String> {
    let bench = fs::read_to_string(out.join("bench.txt")).unwrap();
    bench
        .lines()
        .filter(|line| line.starts_with("# failed "))
        .map(str::to_owned)
        .collect()
}

/// Cells of the stand-in: three designs and the floor with 12 cells each in phase A, cow with 4 and 8 in B and C.
const CELLS: usize = 4 * 12 + 4 + 8;

#[test]
fn measures_every_cell_in_every_round() {
    let temp = Temp::new();
    let output = sweep(&temp.out(), &[], "");
    check_code(&output, 0);
    assert_eq!(samples(&temp.out()).len(), 6 * CELLS);
    let bench = fs::read_to_string(temp.out().join("bench.txt")).unwrap();
    for line in [
        "cpu: Example CPU",
        "keys: 50000",
        "Unit ns/op better=lower",
        "commit: ",
    ] {
        assert!(bench.contains(line), "{line} is missing");
    }
    let table = text(&output.stdout);
    for part in [
        "takes ",
        "mutex",
        "(noop)",
        "cow is fastest in",
        "summary.txt",
        "by-impl.txt",
    ] {
        assert!(table.contains(part), "{part} is missing in\n{table}");
    }
    for name in [
        "plan.json",
        "machine.txt",
        "machine.json",
        "summary.txt",
        "by-impl.txt",
        "table.txt",
    ] {
        assert!(
            fs::metadata(temp.out().join(name)).unwrap().len() > 0,
            "{name}"
        );
    }
}

#[test]
fn rounds_are_interleaved_in_an_order_of_their_own() {
    let temp = Temp::new();
    check_code(
        &sweep(&temp.out(), &["--count", "3", "--phases", "A"], ""),
        0,
    );
    let bench = fs::read_to_string(temp.out().join("bench.txt")).unwrap();
    let begins: Vec<(&str, &str)> = bench
        .lines()
        .filter_map(|line| line.strip_prefix("# begin design="))
        .map(|line| {
            (
                line.split(' ').next().unwrap(),
                line.split("round=")
                    .nth(1)
                    .unwrap()
                    .split(' ')
                    .next()
                    .unwrap(),
            )
        })
        .collect();
    let rounds: Vec<Vec<&str>> = begins
        .chunks(4)
        .map(|round| round.iter().map(|begin| begin.0).collect())
        .collect();
    assert!(
        begins
            .chunks(4)
            .zip(["1", "2", "3"])
            .all(|(round, n)| round.iter().all(|begin| begin.1 == n))
    );
    for round in &rounds {
        assert_eq!(
            round.iter().collect::<BTreeSet<_>>().len(),
            4,
            "each design once a round"
        );
    }
    assert!(
        rounds.iter().any(|round| *round != rounds[0]),
        "one order for all rounds"
    );
}

#[test]
fn flags_choose_designs_phases_and_experiments() {
    let temp = Temp::new();
    let out = |name: &str| temp.0.join(name);
    let names = |out: &Path| -> BTreeSet<String> {
        let name = |cell: String| {
            cell.split("impl=")
                .nth(1)
                .unwrap()
                .split('/')
                .next()
                .unwrap()
                .to_owned()
        };
        samples(out)
            .into_iter()
            .map(|(cell, _)| name(cell))
            .collect()
    };
    let set = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>()
    };
    check_code(
        &sweep(
            &out("designs"),
            &["--designs", "sharded,mutex", "--count", "1"],
            "",
        ),
        0,
    );
    assert_eq!(
        names(&out("designs")),
        set(&["mutex", "sharded", "noop"]),
        "the floor is always there"
    );
    check_code(
        &sweep(&out("peers"), &["--no-peers", "--count", "1"], ""),
        0,
    );
    assert_eq!(
        names(&out("peers")),
        set(&["mutex", "sharded", "noop", "cow"])
    );
    check_code(
        &sweep(&out("phase"), &["--phases", "b", "--count", "1"], ""),
        0,
    );
    assert_eq!(names(&out("phase")), set(&["noop", "cow"]));
    check_code(
        &sweep(&out("only"), &["--only", "sequential", "--count", "1"], ""),
        0,
    );
    assert!(
        samples(&out("only"))
            .iter()
            .all(|(cell, _)| cell.starts_with("BenchmarkSequential/"))
    );
    let output = sweep(&out("list"), &["--list"], "");
    check_code(&output, 0);
    assert!(!out("list").exists(), "--list writes nothing");
    assert!(
        text(&output.stdout).contains("phase D (not yet measured)"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn an_experiment_with_two_allocators_is_measured_under_both() {
    let temp = Temp::new();
    let output = sweep(&temp.out(), &["--only", "zeroing"], "");
    check_code(&output, 0);
    let all = samples(&temp.out());
    for merge in ["extend", "zeroed"] {
        for allocator in ["mimalloc", "system"] {
            let cell = format!("BenchmarkZeroing/impl={merge}/where=alone/allocator={allocator}");
            let rounds = all.iter().filter(|(name, _)| *name == cell).count();
            assert_eq!(rounds, 6, "{cell}");
        }
    }
    let bench = fs::read_to_string(temp.out().join("bench.txt")).unwrap();
    let facts = bench.lines().filter(|line| line.starts_with("allocator: "));
    assert_eq!(
        facts.collect::<Vec<_>>(),
        ["allocator: mimalloc, and the one that a cell names"]
    );
    assert!(bench.contains("Unit copy-ns better=lower\n"));
    let shown = text(&output.stdout);
    assert!(
        shown.contains("alone, system, 1 thread") && shown.contains("alone, mimalloc, 1 thread"),
        "{shown}"
    );
    // Half of it again: each process gets the allocator of its cells.
    let half: String = bench
        .lines()
        .take(bench.lines().count() / 2)
        .map(|line| line.to_owned() + "\n")
        .collect();
    fs::write(temp.out().join("bench.txt"), half).unwrap();
    check_code(&resume(&temp.out()), 0);
    assert_eq!(samples(&temp.out()), all);
    // The names compared are not those of designs, and still get a second name.
    let again = temp.0.join("again");
    check_code(
        &sweep(&again, &["--only", "zeroing", "--aa", "--count", "1"], ""),
        0,
    );
    let names = samples(&again);
    assert_eq!(names.len(), 8);
    assert!(
        names
            .iter()
            .any(|(name, _)| name.contains("impl=zeroed.again/where=alone/allocator=system"))
    );
}

#[test]
fn latencies_are_shown_as_a_table_and_a_plot() {
    let temp = Temp::new();
    let output = sweep(&temp.out(), &["--only", "latency"], "");
    check_code(&output, 0);
    let shown = text(&output.stdout);
    let start = shown.find("zipf, r10, 2 threads").expect("a section");
    let section: Vec<&str> = shown[start..].lines().take(7).collect();
    let title: Vec<&str> = section[1].split_whitespace().take(6).collect();
    assert_eq!(title, ["p50", "p90", "p99", "p99.9", "max", "timer"]);
    let row = section
        .iter()
        .find(|line| line.starts_with("sharded "))
        .expect("a row");
    assert!(
        row.contains(" 50.0 ") && row.contains("1.00µs") && row.contains("3.00ms"),
        "{row}"
    );
    assert!(row.contains("o====") && row.ends_with('|'), "{row}");
    let bench = fs::read_to_string(temp.out().join("bench.txt")).unwrap();
    assert!(bench.contains("Unit p99.9-ns better=lower\n") && bench.contains("Unit timer-ns"));
}

#[test]
fn a_quick_sweep_that_would_be_long_takes_shorter_samples() {
    let temp = Temp::new();
    let facts = |name: &str, args: &[&str]| {
        let out = temp.0.join(name);
        check_code(
            &sweep(&out, args, "costly:mutex,costly:cow,costly:sharded"),
            0,
        );
        fs::read_to_string(out.join("bench.txt")).unwrap()
    };
    let fitted = facts("fitted", &[]);
    let benchtime = fitted.lines().find_map(|line| {
        let time = line.strip_prefix("benchtime: ")?.strip_suffix("ms")?;
        time.parse::<u32>().ok()
    });
    assert!(
        benchtime.is_some_and(|ms| (5..25).contains(&ms)),
        "{benchtime:?}"
    );
    assert!(facts("asked", &["--benchtime", "25ms"]).contains("benchtime: 25ms\n"));
    assert!(facts("one", &["--designs", "mutex"]).contains("benchtime: 25ms\n"));
}

#[test]
fn a_design_against_itself() {
    let temp = Temp::new();
    let output = sweep(
        &temp.out(),
        &["--aa", "--phases", "A", "--designs", "mutex"],
        "",
    );
    check_code(&output, 0);
    assert!(
        samples(&temp.out())
            .iter()
            .any(|(cell, _)| cell.contains("impl=mutex.again/"))
    );
    assert!(
        text(&output.stdout).contains("A/A: 0 of 24 cells differ"),
        "{}",
        text(&output.stdout)
    );
    // The line's partial twin on the harness's side must be found again.
    let all = samples(&temp.out());
    let bench = fs::read_to_string(temp.out().join("bench.txt")).unwrap();
    let half: String = bench
        .lines()
        .take(bench.lines().count() / 2)
        .map(|line| line.to_owned() + "\n")
        .collect();
    fs::write(temp.out().join("bench.txt"), half).unwrap();
    check_code(&resume(&temp.out()), 0);
    assert_eq!(samples(&temp.out()), all);
}

#[test]
fn a_wrong_answer_fails_its_cell_alone() {
    let temp = Temp::new();
    let output = sweep(&temp.out(), &[], "wrong:mutex:zipf/mix=r90");
    check_code(&output, 1);
    // Two cells, with one and two threads.
    assert_eq!(samples(&temp.out()).len(), 6 * (CELLS - 2));
    assert_eq!(failed(&temp.out()).len(), 6 * 2);
    let out = text(&output.stdout);
    assert!(
        out.contains("2 cells failed") && out.contains("wrong answer: 3 hits, 4 expected"),
        "{out}"
    );
}

#[test]
fn a_process_that_dies_costs_one_cell() {
    for (kind, reason) in [
        ("die", "panicked: no way to unwind"),
        ("tear", "ended with code 3"),
        ("nan", "ended without"),
    ] {
        let temp = Temp::new();
        check_code(
            &sweep(&temp.out(), &[], &format!("{kind}:sharded:uniform/mix=r90")),
            1,
        );
        assert_eq!(samples(&temp.out()).len(), 6 * (CELLS - 2), "{kind}");
        let failed = failed(&temp.out());
        assert_eq!(failed.len(), 6 * 2, "{kind}");
        assert!(failed.iter().all(
            |line| line.contains("impl=sharded/dist=uniform/mix=r90") && line.contains(reason)
        ));
    }
}

#[test]
fn a_process_that_dies_at_once_costs_its_design() {
    let temp = Temp::new();
    check_code(&sweep(&temp.out(), &[], "die:dashmap"), 1);
    assert_eq!(samples(&temp.out()).len(), 6 * (CELLS - 12));
    assert_eq!(failed(&temp.out()).len(), 6 * 12);
}

#[test]
fn a_process_that_hangs_is_killed() {
    let temp = Temp::new();
    let output = sweep(
        &temp.out(),
        &["--timeout", "1"],
        "hang:dashmap:zipf/mix=r50-2",
    );
    check_code(&output, 1);
    assert_eq!(samples(&temp.out()).len(), 6 * (CELLS - 1));
    assert!(failed(&temp.out())[0].contains("hung: no end after 1 s"));
}

#[test]
fn a_failure_in_one_round_is_mended_by_resuming() {
    let temp = Temp::new();
    check_code(&sweep(&temp.out(), &[], "wrong:cow@3"), 1);
    assert_eq!(samples(&temp.out()).len(), 6 * CELLS - 12);
    check_code(&resume(&temp.out()), 0);
    assert_eq!(samples(&temp.out()).len(), 6 * CELLS);
    // And there is nothing left to do now.
    check_code(&resume(&temp.out()), 0);
    assert_eq!(samples(&temp.out()).len(), 6 * CELLS);
}

#[test]
fn lines_nobody_knows_are_no_samples() {
    let temp = Temp::new();
    check_code(&sweep(&temp.out(), &[], "garbage:mutex"), 0);
    assert_eq!(samples(&temp.out()).len(), 6 * CELLS);
}

/// A sweep that takes long enough to be disturbed.
fn slow(out: &Path) -> Child {
    let args = [
        "sweep",
        "--threads",
        "1,2",
        "--count",
        "2",
        "--out",
        out.to_str().unwrap(),
    ];
    let child = xtask(&args, "slow:mutex,slow:sharded,slow:dashmap")
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let begun_well = |text: String| text.matches("\nBenchmark").count() > 9;
    while !fs::read_to_string(out.join("bench.txt")).is_ok_and(begun_well) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no samples arrive"
        );
        thread::sleep(Duration::from_millis(10));
    }
    child
}

#[cfg(unix)]
#[test]
fn an_interrupted_sweep_is_finished_by_resuming() {
    let temp = Temp::new();
    let whole = temp.0.join("whole");
    check_code(&sweep(&whole, &["--count", "2"], ""), 0);

    // Ctrl-C: the sweep says how to go on, and leaves whole lines.
    let child = slow(&temp.out());
    check_code(
        &Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .output()
            .unwrap(),
        0,
    );
    let output = child.wait_with_output().unwrap();
    check_code(&output, 130);
    assert!(
        text(&output.stderr).contains("--resume --out"),
        "{}",
        text(&output.stderr)
    );
    let some = samples(&temp.out());
    assert!(!some.is_empty() && some.len() < 2 * CELLS);
    assert_eq!(
        failed(&temp.out()),
        Vec::<String>::new(),
        "an interruption is no failure"
    );
    check_code(&resume(&temp.out()), 0);
    assert_eq!(samples(&temp.out()), samples(&whole));

    // The power goes: no farewell, and a last line without its end.
    let out = temp.0.join("killed");
    let mut child = slow(&out);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut bench = fs::read(out.join("bench.txt")).unwrap();
    bench.extend(b"BenchmarkCache/impl=mutex/dist=uniform/mix=r100\t1000\t15.");
    fs::write(out.join("bench.txt"), bench).unwrap();
    check_code(&resume(&out), 0);
    assert_eq!(samples(&out), samples(&whole));
}

#[test]
fn a_command_line_that_makes_no_sense() {
    let temp = Temp::new();
    let file = temp.0.join("file");
    fs::write(&file, "mine").unwrap();
    let below_file = file.join("out");
    let cases: &[(&[&str], &str)] = &[
        (
            &["--designs", "mutex,nosuch"],
            "unknown design 'nosuch'; there are noop, mutex",
        ),
        (&["--designs", "cow", "--phases", "A"], "belongs to A"),
        (
            &["--designs", "cow,mutex", "--phases", "A"],
            "'cow' has no cells in A",
        ),
        (&["--phases", "D"], "phase D is not yet measured"),
        (&["--phases", "X"], "unknown phase 'X'"),
        (
            &["--only", "nosuch"],
            "unknown experiment 'nosuch'; there are: sequential",
        ),
        (&["--threads", "0"], "--threads 0"),
        (&["--threads", "two"], "--threads"),
        (&["--threads", "1,"], "--threads"),
        (&["--keys", "0"], "--keys"),
        (&["--keys", "-5"], "'-5'"),
        (&["--keys", "many"], "--keys"),
        (&["--keys", "99999999999999999999999"], "--keys"),
        (
            &["--keys", "1000", "--key-length", "2"],
            "--keys 1000 does not fit keys of 2 digits",
        ),
        (&["--keys", "10000000000000001"], "does not fit"),
        (&["--keys", "1000000000000000"], "GiB"),
        (&["--count", "0"], "--count"),
        (&["--benchtime", "fast"], "--benchtime fast"),
        (&["--benchtime", "0ms"], "--benchtime 0ms"),
        (&["--allocator", "arena"], "arena"),
        (&["--base", "nosuch"], "--base nosuch"),
        (&["--pin", "0,0"], "--pin 0,0"),
        (&["--pin", "9999"], "--pin 9999"),
        (&["--profile", "slow"], "slow"),
        (&["--nosuch"], "--nosuch"),
        (&["--resume", "--keys", "5"], "cannot be used with"),
        (&["--resume"], "no sweep in it"),
    ];
    let out = temp.out();
    for (args, message) in cases {
        let output = xtask(
            &[&["sweep", "--out", out.to_str().unwrap()], *args].concat(),
            "",
        )
        .output()
        .unwrap();
        let err = text(&output.stderr);
        check_code(&output, 2);
        assert!(err.contains(message), "{args:?}: {err}");
        assert_eq!(err.trim_end().lines().count(), 1, "one line: {err}");
        assert!(!out.exists(), "{args:?} left a folder behind");
    }
    for path in [&file, &below_file] {
        let output = sweep(path, &[], "");
        check_code(&output, 2);
        assert_eq!(text(&output.stderr).trim_end().lines().count(), 1);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn nothing_is_ever_overwritten() {
    let temp = Temp::new();
    let notes = temp.0.join("notes.txt");
    fs::write(&notes, "mine").unwrap();
    let output = sweep(&temp.0, &[], "");
    check_code(&output, 2);
    assert!(text(&output.stderr).contains("is not empty"));
    // Not even by resuming what is no sweep.
    check_code(&resume(&temp.0), 2);
    assert_eq!(fs::read_dir(&temp.0).unwrap().count(), 1);
    // Nor may samples of another build join the ones that are there.
    check_code(&sweep(&temp.out(), &["--count", "1"], ""), 0);
    let before = fs::read(temp.out().join("bench.txt")).unwrap();
    let other = temp.0.join("other-build");
    fs::copy(env!("CARGO_BIN_EXE_fake-harness"), &other).unwrap();
    let mut bytes = fs::read(&other).unwrap();
    bytes.push(0);
    fs::write(&other, bytes).unwrap();
    let mut command = xtask(
        &["sweep", "--resume", "--out", temp.out().to_str().unwrap()],
        "",
    );
    let output = command.env("CACHE_HARNESS", &other).output().unwrap();
    check_code(&output, 2);
    assert!(text(&output.stderr).contains("another build"));
    assert_eq!(fs::read(temp.out().join("bench.txt")).unwrap(), before);
}

#[test]
fn a_report_says_the_same_again() {
    let temp = Temp::new();
    check_code(&sweep(&temp.out(), &[], ""), 0);
    let table = fs::read_to_string(temp.out().join("table.txt")).unwrap();
    fs::remove_file(temp.out().join("table.txt")).unwrap();
    let output = xtask(&["report", temp.out().to_str().unwrap()], "")
        .output()
        .unwrap();
    check_code(&output, 0);
    assert_eq!(
        fs::read_to_string(temp.out().join("table.txt")).unwrap(),
        table
    );
    check_code(&xtask(&["report", "/nonexistent"], "").output().unwrap(), 2);
}

#[test]
fn verbs_without_a_sweep() {
    let run = |args: &[&str]| xtask(args, "").output().unwrap();
    let output = run(&["cpuinfo"]);
    check_code(&output, 0);
    assert!(text(&output.stdout).contains("pin set"));
    let output = run(&["cpuinfo", "--format", "json"]);
    check_code(&output, 0);
    let machine: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!machine["pin"].as_array().unwrap().is_empty());
    check_code(&run(&["list"]), 0);
    check_code(&run(&["list", "--format", "json"]), 0);
    check_code(&run(&["--help"]), 0);
    for wrong in [&[][..], &["nosuch"], &["cpuinfo", "--format", "xml"]] {
        let output = run(wrong);
        check_code(&output, 2);
        assert_eq!(text(&output.stdout), "");
    }
    let mut command = xtask(&["list"], "");
    let output = command
        .env("CACHE_HARNESS", "/nonexistent")
        .output()
        .unwrap();
    check_code(&output, 2);
}

#[test]
fn the_published_table_is_written_line_by_line() {
    let temp = Temp::new();
    let output = sweep(
        &temp.out(),
        &["--only", "study-locks", "--count", "3"],
        "tear:mutex:50@2",
    );
    check_code(&output, 1);
    let csv = fs::read_to_string(temp.out().join("study-locks.csv")).unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let keys: Vec<String> = lines.iter().map(|line| line[..4].join(",")).collect();
    assert_eq!(
        keys,
        [
            "mutex,1,100,2",
            "mutex,1,50,2",
            "mutex,64,100,2",
            "mutex,64,50,2"
        ]
    );
    // The stand-in's figures: tens by place, tenths by round, ones by the length of the name. One cell died in
    // round 2 and was then given up, so its median is that of round 1.
    let times: Vec<&str> = lines.iter().map(|line| line[4]).collect();
    assert_eq!(times, ["15.2", "25.1", "17.2", "27.2"]);
    assert!(text(&output.stdout).contains("study-locks.csv"));
    let resumed = resume(&temp.out());
    check_code(&resumed, 0);
    let bench = fs::read_to_string(temp.out().join("bench.txt")).unwrap();
    assert_eq!(bench.matches("# csv mutex,").count(), 4 * 3 + 1);
    // A sweep of anything else has no such file.
    let other = Temp::new();
    check_code(
        &sweep(&other.out(), &["--only", "sequential", "--count", "2"], ""),
        0,
    );
    assert!(!other.out().join("study-locks.csv").exists());
}
