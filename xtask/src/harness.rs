//! Builds the measuring binary, finds it, and asks it what it knows. Never links it, never times it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::errors::usage;

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn workspace_root() -> PathBuf {
    // Cargo sets the variable for `cargo run`; the value compiled in serves a binary that is started by hand.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .filter(|dir| dir.ends_with("xtask"))
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// Names a harness that is already built; `cargo xtask` then builds nothing.
pub(crate) const OVERRIDE: &str = "CACHE_HARNESS";

/// The measuring binary, ready to be spawned.
#[derive(Clone, Debug)]
pub(crate) struct Harness {
    path: PathBuf,
    commit: String,
}

/// What `harness list --format json` says, as far as a sweep needs it.
#[derive(Debug, Deserialize)]
pub(crate) struct Inventory {
    pub(crate) designs: Vec<Design>,
    pub(crate) phases: Vec<Phase>,
    #[serde(default)]
    pub(crate) experiments: Vec<Experiment>,
}

/// One row of the registry.
#[derive(Debug, Deserialize)]
pub(crate) struct Design {
    pub(crate) name: String,
    /// `design`, `peer` or `floor`.
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) phases: Vec<String>,
}

/// One phase of the sweep.
#[derive(Debug, Deserialize)]
pub(crate) struct Phase {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) what: String,
    #[serde(default = "yes")]
    pub(crate) measured: bool,
}

/// One named experiment beside the phases.
#[derive(Debug, Deserialize)]
pub(crate) struct Experiment {
    pub(crate) name: String,
}

fn yes() -> bool {
    true
}

impl Harness {
    /// Builds the harness in the release profile, showing cargo's own output, and returns where it is.
    pub(crate) fn build() -> Result<Harness> {
        let root = workspace_root();
        let commit = commit(&root);
        if let Some(path) = std::env::var_os(OVERRIDE).map(PathBuf::from) {
            if !path.is_file() {
                usage!("{OVERRIDE} names {}, which is not a file", path.display());
            }
            return Ok(Harness { path, commit });
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut child = Command::new(&cargo)
            .current_dir(&root)
            .args([
                "build",
                "--release",
                "--package",
                "harness",
                "--bin",
                "harness",
            ])
            // The messages name the executable, wherever the target folder may be; diagnostics stay readable.
            .args(["--message-format", "json-render-diagnostics"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", cargo.to_string_lossy()))?;
        let mut path = None;
        for line in BufReader::new(child.stdout.take().context("cargo has no output")?).lines() {
            let message: serde_json::Value = serde_json::from_str(&line?).unwrap_or_default();
            if message["target"]["name"] == "harness"
                && let Some(executable) = message["executable"].as_str()
            {
                path = Some(PathBuf::from(executable));
            }
        }
        if !child.wait()?.success() {
            bail!("the harness does not build; cargo says why above");
        }
        Ok(Harness {
            path: path.context("cargo built the harness but did not say where")?,
            commit,
        })
    }

    /// A command for the binary, with the facts only the workspace knows in its environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .stdin(Stdio::null())
            .env("HARNESS_COMMIT", &self.commit)
            .env("RUST_BACKTRACE", "0");
        command
    }

    /// The commit the workspace is at, with `-dirty` when files differ from it; `unknown` without git.
    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    /// What can be measured.
    pub(crate) fn inventory(&self) -> Result<Inventory> {
        let text = self.ask(&["list", "--format", "json"])?;
        serde_json::from_str(&text).context("`harness list` prints something unexpected")
    }

    /// The `key: value` lines that describe machine, toolchain and build.
    pub(crate) fn facts(&self, allocator: &str) -> Result<Vec<(String, String)>> {
        let text = self.ask(&["facts", "--allocator", allocator])?;
        let pairs = text.lines().filter_map(|line| line.split_once(": "));
        Ok(pairs
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
            .collect())
    }

    /// Runs a verb that measures nothing, and returns what it prints.
    pub(crate) fn ask(&self, args: &[&str]) -> Result<String> {
        let output = self
            .command()
            .args(args)
            .output()
            .with_context(|| format!("cannot start the harness {}", self.path.display()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        let line = complaint
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("it says nothing");
        let line = line.trim().trim_start_matches("error: ");
        // What the harness takes for a mistake on its command line was one on ours.
        if output.status.code() == Some(2) {
            usage!("{line}");
        }
        bail!(
            "`harness {}` failed ({}): {line}",
            args.join(" "),
            output.status
        )
    }

    /// A number that changes when the binary does, so that one folder never mixes two builds.
    pub(crate) fn fingerprint(&self) -> Result<String> {
        let bytes = std::fs::read(&self.path)
            .with_context(|| format!("cannot read {}", self.path.display()))?;
        // FNV-1a over words: this tells builds apart, it defends against nobody.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ bytes.len() as u64;
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = (hash ^ u64::from_le_bytes(word))
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23);
        }
        Ok(format!("{hash:016x}"))
    }
}

fn commit(root: &Path) -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .current_dir(root)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) =
        git(&["rev-parse", "--short=12", "HEAD"]).filter(|commit| !commit.is_empty())
    else {
        return "unknown".to_owned();
    };
    // Results and documents are no part of what is measured.
    let source = [
        "status",
        "--porcelain",
        "--",
        "*.rs",
        "*.toml",
        "Cargo.lock",
    ];
    match git(&source) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}-dirty"),
    }
}
