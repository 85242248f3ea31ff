//! The program as `xtask` meets it: exit codes, one-line errors, the lines of a run. Figures are not looked at.

use std::process::{Command, Output};

fn harness(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_harness"))
        .args(arguments)
        .env_remove("HARNESS_ALLOCATOR")
        .env("HARNESS_TEST_DESIGNS", "1")
        .output()
        .expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// A small run of one phase.
fn run(design: &str, phase: &str, more: &[&str]) -> Output {
    let mut arguments = vec![
        "run",
        "--design",
        design,
        "--phase",
        phase,
        "--keys",
        "500",
        "--threads",
        "1,2",
    ];
    arguments.extend(more);
    harness(&arguments)
}

/// The cells of result lines, and those of failed lines.
fn cells(text: &str) -> (Vec<&str>, Vec<&str>) {
    let measured = text
        .lines()
        .filter_map(|line| line.strip_prefix("Benchmark")?.split('\t').next());
    let failed = text
        .lines()
        .filter_map(|line| line.strip_prefix("# failed ")?.split(' ').next());
    (measured.collect(), failed.collect())
}

#[test]
fn usage_errors_are_one_line_and_exit_2() {
    let run = ["run", "--design", "mutex", "--phase", "A"];
    let with = |more: &[&'static str]| [&run[..], more].concat();
    let cases: &[(Vec<&str>, &str)] = &[
        (
            vec!["run", "--design", "shraded", "--phase", "A"],
            "did you mean `sharded`?",
        ),
        (
            vec!["run", "--design", "mutex", "--phase", "F"],
            "known: A, B, C, D, E",
        ),
        (
            vec!["run", "--design", "mutex", "--phase", "B"],
            "takes no part in B",
        ),
        (
            vec!["run", "--design", "naive", "--phase", "A"],
            "belongs to one thread",
        ),
        (
            vec!["run", "--design", "mutex", "--experiment", "sequentail"],
            "did you mean `sequential`?",
        ),
        (vec!["run", "--design", "mutex"], "--phase"),
        (with(&["--threads", "0"]), "0 threads"),
        (with(&["--threads", "1,x"]), "`x` is not a whole number"),
        (with(&["--keys", "0"]), "at least 1 key"),
        (with(&["--keys", "-1"]), "--keys"),
        (
            with(&["--keys", "1000000", "--key-length", "5"]),
            "allows 100000 keys",
        ),
        (with(&["--value-size", "0"]), "--value-size 0"),
        (with(&["--benchtime", "soon"]), "`200ms`"),
        (with(&["--benchtime", "0x"]), "`5000x`"),
        (with(&["--pin", "123456"]), "--pin 123456"),
        (with(&["--allocator", "jemalloc"]), "`mimalloc` or `system`"),
        (with(&["--cells-from", "no such file"]), "no such file"),
        (vec!["measure"], "measure"),
        (vec![], "--help"),
    ];
    for (arguments, expected) in cases {
        let output = harness(arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_run_prints_a_line_for_each_planned_cell() {
    let plan = stdout(&run("sharded", "A", &["--plan"]));
    let planned: Vec<&str> = plan
        .lines()
        .map(|line| line.split(' ').next().expect("a name"))
        .collect();
    assert_eq!(planned.len(), 16);
    let output = run(
        "sharded",
        "A",
        &["--benchtime", "2ms", "--round", "3", "--seed", "9"],
    );
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert_eq!(cells(&text).0, planned);
    assert!(
        text.starts_with("# begin design=sharded phase=A round=3 seed=9 pid="),
        "{text}"
    );
    assert_eq!(text.lines().last(), Some("# end design=sharded round=3"));
    assert_eq!(text.matches("# sample {\"cell\":").count(), 16);
    for line in text.lines().filter(|line| line.starts_with("Benchmark")) {
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields.len(), 5, "{line}");
        assert!(fields[1].parse::<u64>().is_ok_and(|ops| ops > 0), "{line}");
        assert!(
            fields[2].ends_with(" ns/op") && fields[3] == "0 B/op" && fields[4] == "0 allocs/op",
            "{line}"
        );
    }
}

#[test]
fn cells_can_be_skipped_and_chosen() {
    let first = "Cache/impl=mutex/dist=uniform/mix=r100";
    let text = stdout(&run("mutex", "A", &["--plan", "--skip", first]));
    assert_eq!(text.lines().count(), 15);
    assert!(
        !text
            .lines()
            .any(|line| line.starts_with(&format!("{first} ")))
    );
    let chosen = std::env::temp_dir().join(format!("harness-cells-{}", std::process::id()));
    std::fs::write(&chosen, format!("# a comment\n{first} 311\n\n")).expect("a temporary file");
    let text = stdout(&run(
        "mutex",
        "A",
        &[
            "--benchtime",
            "100x",
            "--cells-from",
            chosen.to_str().expect("UTF-8"),
        ],
    ));
    std::fs::remove_file(&chosen).expect("it is there");
    assert_eq!(cells(&text).0, [first]);
}

#[test]
fn a_panicking_design_fails_its_cells_and_no_others() {
    let output = run("faulty-panics", "A", &["--benchtime", "8000x"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let (measured, failed) = cells(&text);
    assert_eq!(measured.len() + failed.len(), 16);
    assert!(
        measured
            .iter()
            .all(|cell| cell.contains("r100") || cell.contains("r90")),
        "{text}"
    );
    assert!(
        failed
            .iter()
            .filter(|cell| cell.contains("r10") && !cell.contains("r100"))
            .count()
            == 4,
        "{text}"
    );
    assert!(
        text.contains(" round=1: panic: faulty on purpose: a panic in write 999\n"),
        "{text}"
    );
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_wrong_answer_fails_its_cell() {
    // Each key is written once or twice, so that a lost write shows.
    let more = ["--benchtime", "20000x", "--keys", "100000"];
    let mut arguments = vec!["run", "--design", "faulty-wrong", "--phase", "A"];
    arguments.extend(more);
    let output = harness(&arguments);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let (measured, failed) = cells(&text);
    assert_eq!(
        (measured.len() + failed.len(), measured.len() >= 2),
        (8, true),
        "{text}"
    );
    assert!(
        failed.contains(&"Cache/impl=faulty-wrong/dist=uniform/mix=r10"),
        "{text}"
    );
    assert!(text.contains("lost a write"), "{text}");
}

#[test]
fn phase_c_holds_twenty_writes_in_every_sample() {
    let text = stdout(&run("cow", "C", &["--benchtime", "1x"]));
    let writes: Vec<u64> = text
        .lines()
        .filter_map(|line| {
            line.split("\"writes\":")
                .nth(1)?
                .split(',')
                .next()?
                .parse()
                .ok()
        })
        .collect();
    assert_eq!(writes.len(), 12, "{text}");
    assert!(
        writes.iter().all(|&writes| (20..30).contains(&writes)),
        "{writes:?}"
    );
}

/// A small run of an experiment.
fn experiment(design: &str, name: &str, more: &[&str]) -> Output {
    let mut arguments = vec![
        "run",
        "--design",
        design,
        "--experiment",
        name,
        "--keys",
        "800",
    ];
    arguments.extend(more);
    harness(&arguments)
}

#[test]
fn the_table_of_lock_designs_has_its_published_line_beside_each_sample() {
    let output = experiment("sharded-rw", "study-locks", &[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert_eq!(cells(&text).0.len(), 16, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let mut seen = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some(csv) = line.strip_prefix("# csv ") else {
            continue;
        };
        seen += 1;
        assert!(lines[at - 1].starts_with("# sample {"), "{text}");
        let fields: Vec<&str> = csv.split(',').collect();
        let sample: Vec<&str> = lines[at + 1].split('\t').collect();
        let name = sample[0]
            .strip_prefix("BenchmarkStudyLocks/impl=sharded-rw/reads=")
            .expect("the cell of the line");
        let (reads, threads) = name.split_once('-').unwrap_or((name, "1"));
        assert_eq!(fields[..4], ["rwlock", "64", reads, threads], "{text}");
        let ns: f64 = sample[2]
            .trim_end_matches(" ns/op")
            .parse()
            .expect("a number");
        assert_eq!(fields[4], format!("{ns:.1}"), "{text}");
        // Eight operations per key, split evenly.
        assert_eq!(sample[1], "6400", "{text}");
    }
    assert_eq!(seen, 16, "{text}");
}

#[test]
fn shard_counts_are_measured_where_there_are_shards() {
    let output = experiment(
        "sharded",
        "shard-count",
        &["--benchtime", "50x", "--threads", "1,2"],
    );
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert_eq!(cells(&text).0.len(), 48, "{text}");
    let output = experiment("mutex", "shard-count", &["--plan"]);
    assert_eq!(
        (output.status.code(), stdout(&output)),
        (Some(0), String::new())
    );
    let output = experiment("hamt", "study-locks", &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn both_allocators_serve_and_are_told() {
    for allocator in ["mimalloc", "system"] {
        let text = stdout(&harness(&[
            "facts",
            "--allocator",
            allocator,
            "--commit",
            "abc",
        ]));
        assert!(
            text.contains(&format!("allocator: {allocator}\n")) && text.contains("commit: abc\n"),
            "{text}"
        );
        // The format of file configuration: a lower-case key, a colon, a blank.
        for line in text.lines() {
            let (key, value) = line.split_once(": ").expect("a colon");
            assert!(
                key.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{line}"
            );
            assert!(!value.is_empty(), "{line}");
        }
        let output = run(
            "cow",
            "B",
            &["--benchtime", "100x", "--allocator", allocator],
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}

#[test]
fn the_list_is_for_people_and_programs() {
    let text = stdout(&harness(&["list"]));
    assert!(
        text.contains("sharded") && text.contains("value size"),
        "{text}"
    );
    let json: serde_json::Value =
        serde_json::from_slice(&harness(&["list", "--format", "json"]).stdout).expect("JSON");
    let phases = json["phases"].as_array().expect("a table");
    assert_eq!(phases.len(), 5);
    let designs = json["designs"].as_array().expect("a table");
    assert!(
        designs
            .iter()
            .any(|design| design["name"] == "mutex" && design["phases"][0] == "A")
    );
    assert!(
        designs
            .iter()
            .all(|design| design["crate"].is_string() && design["kind"].is_string())
    );
}

/// The bound is far above the loop's few nanoseconds: it catches an accident in the loop, on any machine.
#[test]
fn the_loop_alone_is_a_small_part_of_any_operation() {
    let cell = "Cache/impl=noop/dist=uniform/mix=r50";
    let ratio = |_| -> f64 {
        let ns = |design: &str| -> f64 {
            let text = stdout(&run(design, "A", &["--benchtime", "10ms"]));
            let wanted = format!("Benchmark{}\t", cell.replace("noop", design));
            let line = text
                .lines()
                .find(|line| line.starts_with(&wanted))
                .expect("the cell");
            line.split('\t')
                .nth(2)
                .and_then(|field| field.split(' ').next()?.parse().ok())
                .expect("a number")
        };
        ns("noop") / ns("mutex")
    };
    // Unoptimised builds and a busy machine blur it: the best of three.
    let best = (0..3).map(ratio).fold(f64::INFINITY, f64::min);
    assert!(best < 0.5, "the floor is {best} of a mutex");
}
