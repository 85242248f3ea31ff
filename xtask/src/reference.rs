//! The reference data sets: which committed folders of `results/` the documents show. They are named in one place,
//! the list between the `reference` markers of `results/README.md`; the first one with a core grid is the headline.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::errors::usage;
use crate::splice::Block;

/// The document that names them.
const DOCUMENT: &str = "results/README.md";
const NAME: &str = "reference";
const BY: &str = "the data sets that documents show, most important first";
const NONE: &str = "No reference data set is committed yet.\n";

/// A data set: the folder of a sweep, or one file of benchmark lines.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    /// What it is called in tables.
    pub(crate) label: String,
    /// Where it is.
    pub(crate) path: PathBuf,
}

fn read(root: &Path) -> Result<String> {
    let path = root.join(DOCUMENT);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text),
        Err(error) => usage!("cannot read {DOCUMENT}: {error}"),
    }
}

/// The names in the list, in its order.
fn names(body: &str) -> Vec<&str> {
    body.lines()
        .filter_map(|line| line.trim().strip_prefix("- [")?.split(']').next())
        .collect()
}

/// All reference data sets, in the order of the list; a folder of folders stands for those in it.
///
/// # Errors
///
/// A usage error where the list is missing or names something that is no data set.
pub(crate) fn sets(root: &Path) -> Result<Vec<Place>> {
    let text = read(root)?;
    let mut sets = Vec::new();
    for name in names(Block::find(&text, DOCUMENT, NAME)?.body) {
        let path = root.join("results").join(name);
        if !path.exists() {
            usage!("{DOCUMENT} names the data set {name}, and there is no results/{name}");
        }
        sets.extend(expand(&path, name)?);
    }
    Ok(sets)
}

/// The data sets at `path`, called `label`: a file or a sweep's folder is one, a folder of such folders is several.
///
/// # Errors
///
/// A usage error where there is none.
pub(crate) fn expand(path: &Path, label: &str) -> Result<Vec<Place>> {
    let place = |path: PathBuf, label: String| Place { label, path };
    if path.is_file() || path.join("bench.txt").is_file() {
        return Ok(vec![place(path.to_path_buf(), label.to_owned())]);
    }
    let Ok(entries) = std::fs::read_dir(path) else {
        usage!("{label} is not there: name the folder of a sweep, or a file of its format");
    };
    let mut inner: Vec<Place> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("bench.txt").is_file())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let label = format!("{}/{name}", label.trim_end_matches('/'));
            Some(place(path.clone(), label))
        })
        .collect();
    if inner.is_empty() {
        usage!("{label} is no data set: neither it nor a folder in it has a bench.txt");
    }
    inner.sort_by(|a, b| a.label.cmp(&b.label));
    Ok(inner)
}

/// Puts `name` at the head of the list, and writes it.
///
/// # Errors
///
/// A usage error where the list is missing; an error where it cannot be written.
pub(crate) fn put_first(root: &Path, name: &str) -> Result<()> {
    let text = read(root)?;
    let block = Block::find(&text, DOCUMENT, NAME)?;
    let item = |name: &str| format!("- [{name}]({name})");
    let first = block
        .body
        .lines()
        .find(|line| names(line) == [name])
        .map_or_else(|| item(name), str::to_owned);
    // What else stands in the list stays; the sentence that says there is none does not.
    let rest = block
        .body
        .lines()
        .filter(|line| names(line) != [name] && !NONE.starts_with(line));
    let body: String = std::iter::once(first.as_str())
        .chain(rest)
        .map(|line| format!("{line}\n"))
        .collect();
    let new = block.with(BY, &body);
    if new != text {
        std::fs::write(root.join(DOCUMENT), new)
            .with_context(|| format!("cannot write {DOCUMENT}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with an empty list and these data sets, removed by the caller.
    fn root(name: &str, sets: &[&str]) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("xtask-reference-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("results")).unwrap();
        for set in sets {
            std::fs::create_dir_all(root.join("results").join(set)).unwrap();
            std::fs::write(root.join("results").join(set).join("bench.txt"), "").unwrap();
        }
        let list = format!("head\n<!-- BEGIN reference -->\n{NONE}<!-- END reference -->\ntail\n");
        std::fs::write(root.join(DOCUMENT), list).unwrap();
        root
    }

    #[test]
    fn the_list_is_the_one_place() {
        let root = root("list", &["a", "b/one", "b/two"]);
        assert_eq!(sets(&root).unwrap(), []);
        put_first(&root, "a").unwrap();
        put_first(&root, "b").unwrap();
        let labels = |root: &Path| -> Vec<String> {
            sets(root)
                .unwrap()
                .into_iter()
                .map(|place| place.label)
                .collect()
        };
        assert_eq!(labels(&root), ["b/one", "b/two", "a"]);
        put_first(&root, "a").unwrap();
        assert_eq!(labels(&root), ["a", "b/one", "b/two"]);
        let text = std::fs::read_to_string(root.join(DOCUMENT)).unwrap();
        assert!(
            text.starts_with("head\n<!-- BEGIN reference (") && text.ends_with("-->\ntail\n"),
            "{text}"
        );
        assert!(!text.contains("No reference"), "{text}");
        put_first(&root, "gone").unwrap();
        assert!(
            sets(&root)
                .unwrap_err()
                .to_string()
                .contains("no results/gone")
        );
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_is_no_data_set_is_told() {
        let root = root("none", &[]);
        let told = |path: &Path| expand(path, "x").unwrap_err().to_string();
        assert!(told(&root.join("nowhere")).contains("x is not there"));
        assert!(told(&root.join("results")).contains("x is no data set"));
        std::fs::remove_dir_all(root).unwrap();
    }
}
