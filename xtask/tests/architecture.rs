//! The walls of the house: which crate may depend on which, how small the designs' dependency trees stay, and
//! whether ARCHITECTURE.md still describes the tree. Reads manifests and documents; builds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

fn metadata(full: bool) -> Metadata {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml"));
    if full {
        command.other_options([
            "--offline".to_owned(),
            "--filter-platform".to_owned(),
            host(),
        ]);
    } else {
        command.no_deps();
    }
    command.exec().unwrap()
}

/// The target triple this test was compiled for, near enough to choose the right platform's dependencies.
fn host() -> String {
    let version = std::process::Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .arg("-vV")
        .output();
    let text = String::from_utf8(version.unwrap().stdout).unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap()
        .to_owned()
}

/// Allowed arrows between crates of this workspace: who, to whom, and to whom in tests only. ARCHITECTURE.md
/// gives the reasons; whoever adds a line here adds one there.
const DESIGNS: [&str; 6] = [
    "cache-actor",
    "cache-cow",
    "cache-ctrie",
    "cache-locked",
    "cache-persistent-trie",
    "cache-sharded",
];
const OTHERS: [(&str, &[&str], &[&str]); 7] = [
    ("bench-compare", &[], &[]),
    ("cache-api", &[], &[]),
    ("cache-conformance", &["cache-api"], &[]),
    ("cache-reclaim", &[], &[]),
    ("cache-table", &["cache-api"], &["cache-conformance"]),
    ("harness", &["cache-api", "cache-conformance"], &[]),
    ("xtask", &["bench-compare"], &[]),
];

#[test]
fn arrows_are_the_allowed_ones() {
    let mut allowed: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for design in DESIGNS {
        let normal = BTreeSet::from(["cache-api", "cache-reclaim", "cache-table"]);
        allowed.insert(design, (normal, BTreeSet::from(["cache-conformance"])));
    }
    for (name, normal, dev) in OTHERS {
        allowed.insert(
            name,
            (
                normal.iter().copied().collect(),
                dev.iter().copied().collect(),
            ),
        );
    }
    // The harness names every design, and what designs share where a peer is wrapped the same way.
    let harness = allowed.get_mut("harness").unwrap();
    harness.0.extend(
        DESIGNS
            .iter()
            .copied()
            .chain(["cache-table", "cache-reclaim"]),
    );

    let metadata = metadata(false);
    let members: BTreeSet<String> = metadata
        .packages
        .iter()
        .map(|package| package.name.to_string())
        .collect();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some((normal, dev)) = allowed.get(name) else {
            panic!(
                "{name} is new: state its arrows in xtask/tests/architecture.rs and ARCHITECTURE.md"
            );
        };
        for dependency in &package.dependencies {
            let to = dependency.name.as_str();
            if !members.contains(to) {
                continue;
            }
            let allowed = normal.contains(to)
                || dependency.kind == DependencyKind::Development && dev.contains(to);
            assert!(
                allowed,
                "{name} must not depend on {to} ({})",
                dependency.kind
            );
        }
    }
}

#[test]
fn designs_are_small_to_depend_on() {
    let metadata = metadata(true);
    let nodes = &metadata.resolve.as_ref().unwrap().nodes;
    let name = |id: &PackageId| metadata[id].name.to_string();
    let test_tools = [
        "harness",
        "xtask",
        "bench-compare",
        "cache-conformance",
        "proptest",
        "criterion",
        "shuttle",
        "loom",
        "clap",
    ];
    for design in DESIGNS {
        let start = metadata
            .packages
            .iter()
            .find(|package| package.name.as_str() == design)
            .unwrap();
        let (mut tree, mut next) = (BTreeSet::new(), vec![&start.id]);
        while let Some(id) = next.pop() {
            if !tree.insert(id) {
                continue;
            }
            let node = nodes.iter().find(|node| node.id == *id).unwrap();
            for dependency in &node.deps {
                if dependency
                    .dep_kinds
                    .iter()
                    .any(|kind| kind.kind != DependencyKind::Development)
                {
                    next.push(&dependency.pkg);
                }
            }
        }
        let tree: BTreeSet<String> = tree.into_iter().map(name).collect();
        assert!(
            tree.len() <= 14,
            "{design} brings {} crates: {tree:?}",
            tree.len()
        );
        for tool in test_tools {
            assert!(!tree.contains(tool), "{design} depends on {tool}");
        }
    }
}

#[test]
fn the_architecture_document_names_the_crates_there_are() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(
        text.lines().count() <= 200,
        "ARCHITECTURE.md is a map: {} lines",
        text.lines().count()
    );
    let metadata = metadata(false);
    let members: BTreeSet<&str> = metadata
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let word =
        |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '/' || c == '.');
    let words: BTreeSet<&str> = text
        .split(word)
        .map(|word| word.trim_matches(['/', '.', '-']))
        .collect();
    for member in &members {
        let named = words
            .iter()
            .any(|word| word.split('/').any(|part| part == *member));
        assert!(named, "ARCHITECTURE.md does not name {member}");
    }
    for word in words {
        let crate_name = word
            .strip_prefix("crates/")
            .and_then(|rest| rest.split('/').next())
            .unwrap_or(word);
        if word.starts_with("crates/")
            || crate_name.starts_with("cache-") && !crate_name.contains('/')
        {
            assert!(
                members.contains(crate_name),
                "ARCHITECTURE.md names {crate_name}, which is no crate here"
            );
        }
        // Files it points to are there as well.
        if word.contains('/') && (word.ends_with(".rs") || word.ends_with(".md")) {
            assert!(
                root().join(word).is_file(),
                "ARCHITECTURE.md names {word}, which is no file here"
            );
        }
    }
}

#[test]
fn a_folder_is_called_like_its_crate() {
    for package in &metadata(false).packages {
        let folder = package.manifest_path.parent().unwrap().file_name().unwrap();
        assert_eq!(folder, package.name.as_str());
        let text = fs::read_to_string(&package.manifest_path).unwrap();
        for key in ["version", "edition", "rust-version", "license"] {
            assert!(
                text.contains(&format!("{key}.workspace = true")),
                "{folder} states its own {key}"
            );
        }
        assert!(
            text.contains("[lints]\nworkspace = true"),
            "{folder} does not inherit the workspace's lints"
        );
    }
}
