//! House rules that the compiler cannot state, as tests over the text of the workspace. Changes no file.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

/// Text files of the workspace, as path from its root and content. Build output and measured data are left out.
fn files() -> Vec<(String, String)> {
    fn walk(dir: &Path, root: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .replace('\\', "/");
            if path.is_dir() {
                let data = name.starts_with("results/")
                    || name.ends_with("/tests/data")
                    || name.ends_with("-regressions");
                if name != "target" && name != ".git" && !name.ends_with("/target") && !data {
                    walk(&path, root, found);
                }
            } else if let Ok(text) = fs::read_to_string(&path)
                && name != "Cargo.lock"
                && name != ".git"
            {
                found.push((name, text));
            }
        }
    }
    let (root, mut found) = (root(), Vec::new());
    walk(&root, &root, &mut found);
    assert!(found.len() > 20, "the workspace was not found");
    found
}

fn rust_files() -> Vec<(String, String)> {
    files()
        .into_iter()
        .filter(|(name, _)| name.ends_with(".rs"))
        .collect()
}

/// Fails with all offenders at once.
fn report(rule: &str, offenders: Vec<String>) {
    assert!(
        offenders.is_empty(),
        "{rule}:\n  {}",
        offenders.join("\n  ")
    );
}

/// `name:line` of every line that breaks a rule.
fn lines(files: Vec<(String, String)>, breaks: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in files {
        let at = text.lines().enumerate().filter(|(_, line)| breaks(line));
        found.extend(at.map(|(at, line)| format!("{name}:{}: {}", at + 1, line.trim())));
    }
    found
}

#[test]
fn every_source_file_says_what_it_is() {
    let silent = rust_files()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"));
    report(
        "a file opens with `//!`: what it is, and what it never does",
        silent.map(|(name, _)| name).collect(),
    );
}

#[test]
fn no_test_is_ignored_without_a_reason() {
    let bare = concat!("#[igno", "re]");
    report(
        "state why: #[ignore = \"reason\"]",
        lines(rust_files(), |line| line.trim() == bare),
    );
}

#[test]
fn lines_are_at_most_140_wide() {
    // A row of a table in a comment cannot be broken.
    let row = |line: &str| {
        ["/// |", "//! |"]
            .iter()
            .any(|start| line.trim_start().starts_with(start))
    };
    let wide = |line: &str| line.chars().count() > 140 && !row(line);
    report(
        "lines of code are at most 140 wide",
        lines(rust_files(), wide),
    );
}

#[test]
fn no_blanks_at_the_end_of_lines() {
    let ends = |line: &str| line.ends_with([' ', '\t']);
    report("no trailing blanks", lines(files(), ends));
    let unended = files()
        .into_iter()
        .filter(|(_, text)| !text.is_empty() && !text.ends_with('\n'));
    report(
        "a file ends with a line end",
        unended.map(|(name, _)| name).collect(),
    );
}

#[test]
fn no_path_of_one_machine() {
    // In pieces, so that this file does not break its own rule.
    let paths = [
        concat!("/wor", "k/"),
        concat!("/roo", "t/"),
        concat!("/hom", "e/"),
        concat!("C:\\Use", "rs"),
    ];
    report(
        "no path of somebody's machine",
        lines(files(), |line| paths.iter().any(|path| line.contains(path))),
    );
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for (name, text) in files()
        .into_iter()
        .filter(|(name, _)| name.ends_with(".md"))
    {
        let folder = root().join(&name).parent().unwrap().to_path_buf();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let path = link.split('#').next().unwrap();
            let foreign = link.contains("://") || link.starts_with("mailto:") || path.is_empty();
            if !foreign && !folder.join(path).exists() {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    report("a link in a document leads to a file", broken);
}

/// The commands README.md tells people to run: the `cargo` lines of its `console` blocks.
fn readme_commands() -> Vec<String> {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let blocks = text
        .split("```console\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let lines = blocks
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("$ "));
    lines
        .map(|line| line.split(" #").next().unwrap().trim().to_owned())
        .collect()
}

#[test]
fn readme_commands_are_those_that_ci_runs() {
    let commands = readme_commands();
    assert!(
        commands
            .first()
            .is_some_and(|first| first == "cargo xtask sweep --profile quick"),
        "{commands:?}"
    );
    assert!(
        commands
            .get(1)
            .is_some_and(|second| second == "cargo test --workspace"),
        "{commands:?}"
    );
    let script = fs::read_to_string(root().join(".ci/run")).unwrap();
    let run: Vec<&str> = script
        .lines()
        .filter_map(|line| line.trim().strip_prefix("readme '")?.split('\'').next())
        .collect();
    for command in &commands {
        assert!(
            run.contains(&command.as_str()),
            ".ci/run has no line: readme '{command}'"
        );
    }
    for command in run {
        assert!(
            commands.iter().any(|known| known == command),
            "README.md does not say: {command}"
        );
    }
}

#[test]
fn each_design_has_its_card() {
    let crates = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let tools = [
        "bench-compare",
        "cache-api",
        "cache-conformance",
        "cache-reclaim",
        "cache-table",
    ];
    let is_design = |path: &PathBuf| {
        !tools.iter().any(|tool| path.ends_with(tool)) && path.join("Cargo.toml").is_file()
    };
    let cardless = crates.filter(|path| is_design(path) && !path.join("README.md").is_file());
    let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    report("a design has a README.md", cardless.map(name).collect());
}
