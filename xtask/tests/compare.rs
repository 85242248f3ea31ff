//! `cargo xtask compare` as a user runs it: files, output, exit codes. Spawns the built binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn data(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("crates/bench-compare/tests/data")
        .join(name)
        .display()
        .to_string()
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("compare")
        .args(args)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A scratch folder of one test, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn two_labelled_files() {
    let output = run(&[
        &format!("old={}", data("old.txt")),
        &format!("new={}", data("new.txt")),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        std::fs::read_to_string(data("golden/two.txt")).unwrap()
    );
    assert!(stderr(&output).contains("note: commit differs"));
}

#[test]
fn every_format_and_every_addition() {
    let (old, new) = (
        format!("old={}", data("old.txt")),
        format!("new={}", data("new.txt")),
    );
    for (args, want) in [
        (vec!["--format", "csv"], ",sec/op,CI,sec/op,CI,vs base,P\n"),
        (
            vec!["--format", "markdown"],
            "| sec/op | old | new | vs base |\n",
        ),
        (vec!["--format", "json"], "\"schema\": 1,"),
        (vec!["--bars", "--filter", "-/mix:r10"], "█"),
        (vec!["--base", "new"], "│      new      │"),
        (
            vec!["--alpha", "0.001", "--confidence", "0.9"],
            "~ (p=0.002 n=6)",
        ),
        (
            vec!["--row", "/mix,/gomaxprocs"],
            "¹ benchmarks vary in .fullname",
        ),
    ] {
        let output = run(&[&args[..], &[&old, &new]].concat());
        let shown = stdout(&output);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(shown.contains(want), "{args:?}\n{shown}");
    }
    let json = stdout(&run(&[
        "--format",
        "json",
        "--fail-above",
        "2%",
        &old,
        &new,
    ]));
    assert!(json.contains("\"regressions\": 2"), "{json}");
}

#[test]
fn one_file_by_design_and_ranked() {
    let new = data("new.txt");
    let output = run(&["--col", "/impl", "--base", "mutex", &new]);
    assert!(
        stdout(&output).contains("│    mutex     │"),
        "{}",
        stdout(&output)
    );
    for format in ["text", "csv", "markdown", "json"] {
        let output = run(&["--rank", "--format", format, &new]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("sharded"), "{format}");
    }
    let output = run(&["--rank", "--group", ".name", "--floor", "sharded", &new]);
    assert!(
        stdout(&output).contains("floor  sharded"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn the_gate_decides_the_exit_code() {
    let (old, new) = (data("old.txt"), data("new.txt"));
    let code = |args: &[&str]| run(args).status.code();
    assert_eq!(code(&["--fail-above", "2%", &old, &new]), Some(1));
    assert_eq!(code(&["--fail-above", "20", &old, &new]), Some(0));
    assert_eq!(code(&["--fail-above", "20", &old, &old]), Some(0));
    // The interval of the slower design begins below 8 %: no regression by that much, and no proof against it.
    assert_eq!(code(&["--fail-above", "8%", &old, &new]), Some(0));
    assert_eq!(
        code(&["--fail-above", "8%", "--strict", &old, &new]),
        Some(3)
    );
    // A noise floor above the difference silences the gate.
    let scratch = Scratch::new("noise");
    let noisy: String = (0..60)
        .map(|i| format!("BenchmarkN{}\t1\t{} ns/op\n", i % 6, 100 + (i / 6 % 2) * 80))
        .collect();
    let noisy = scratch.file("noisy.txt", &noisy);
    let output = run(&["--fail-above", "2%", "--noise", &noisy, &old, &new]);
    assert!(
        stderr(&output).contains("note: noise floor"),
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

#[test]
fn the_noise_check() {
    let old = data("old.txt");
    let output = run(&["--aa", &old]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("passed"), "{}", stdout(&output));
    let output = run(&["--aa", &old, &data("new.txt")]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("false alarms"));
}

#[test]
fn mistakes_are_one_line_and_exit_2() {
    let scratch = Scratch::new("mistakes");
    let old = data("old.txt");
    let empty = scratch.file("empty.txt", "");
    let other = scratch.file("other.txt", "BenchmarkOther 1 2 ns/op\n");
    let slow = scratch.file("slow.txt", "BenchmarkOther 1 2 ms/op\n");
    let elsewhere = scratch.file("elsewhere.txt", "cpu: another\nBenchmarkOther 1 2 ns/op\n");
    let here = scratch.file("here.txt", "cpu: this\nBenchmarkOther 1 2 ns/op\n");
    for args in [
        vec![empty.as_str()],
        vec!["/no/such/file"],
        vec![&old, &other],
        vec![&other, &slow],
        vec![&here, &elsewhere],
        vec!["--col", "/nothing", &old],
        vec!["--filter", "/impl", &old],
        vec!["--filter", "/impl:nobody", &old],
        vec!["--row", "@", &old],
        vec!["--alpha", "7", &old],
        vec!["--base", "nobody", &old],
        vec!["--fail-above", "5%", &old],
        vec!["--rank", "--group", "/nothing", &old],
        vec!["--aa", &other],
    ] {
        let output = run(&args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            stdout(&output)
        );
        let errors: Vec<String> = stderr(&output)
            .lines()
            .filter(|l| !l.starts_with("note:"))
            .map(str::to_owned)
            .collect();
        assert_eq!(errors.len(), 1, "{args:?}: {errors:?}");
        assert!(errors[0].starts_with("compare: "), "{errors:?}");
        assert!(stdout(&output).is_empty(), "{args:?}");
    }
    for args in [
        vec![],
        vec!["--format", "html", &old],
        vec!["--fail-above", "x", &old],
        vec!["--strict", &old],
    ] {
        assert_eq!(run(&args).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(run(&["--force", &here, &elsewhere]).status.code(), Some(0));
}

#[test]
fn malformed_lines_are_named_and_the_rest_is_used() {
    let scratch = Scratch::new("malformed");
    let file = scratch.file("x.txt", "Benchmarking is fun\nBenchmarkA 1 2 ns/op\n");
    let output = run(&[&format!("x={file}")]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).contains("x.txt:1: parsing iteration count: invalid syntax"),
        "{}",
        stderr(&output)
    );
    assert!(
        stdout(&output).contains("A   2.000n ± ∞ ¹"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn standard_input_and_the_same_file_twice() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["compare", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"BenchmarkA 1 2 ns/op\n")
        .unwrap();
    assert!(stdout(&child.wait_with_output().unwrap()).contains("2.000n"));
    let old = data("old.txt");
    let shown = stdout(&run(&["--filter", ".unit:ns/op /mix:r90", &old, &old]));
    assert!(
        shown.contains("old.txt#0") && shown.contains("old.txt#1"),
        "{shown}"
    );
}

/// The real tool's output on a real input, kept outside the repository; says `skipped` where it is absent.
#[test]
fn the_reference_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let dir = root.join("../shared/data/benchstat");
    let Ok(bench) = std::fs::read(dir.join("bench.txt")) else {
        eprintln!("skipped: {} is not there", dir.display());
        return;
    };
    let scratch = Scratch::new("reference");
    std::fs::create_dir(scratch.0.join("results")).unwrap();
    std::fs::write(scratch.0.join("results/bench.txt"), bench).unwrap();
    for (args, golden) in [
        (vec![], "summary.txt"),
        (vec!["--col", "/impl"], "by-impl.txt"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .current_dir(&scratch.0)
            .arg("compare")
            .args(args)
            .arg("results/bench.txt")
            .output()
            .unwrap();
        assert!(
            output.stdout == std::fs::read(dir.join(golden)).unwrap(),
            "{golden} differs"
        );
    }
}
