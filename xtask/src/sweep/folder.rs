//! The folder a sweep writes into: claimed so that nothing is ever overwritten, found again to be finished.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::errors::usage;
use crate::harness::workspace_root;

/// A folder for the results of one sweep.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Made by this program, and so taken away again when the sweep never begins.
    fresh: bool,
}

impl Folder {
    /// A new folder, or an empty one that the user names.
    pub(crate) fn claim(out: Option<&Path>) -> Result<Folder> {
        let Some(path) = out else {
            return Folder::numbered(&local());
        };
        let shown = path.display();
        match fs::read_dir(path) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    usage!(
                        "--out {shown} is not empty; name a new folder, or add --resume to finish a sweep in it"
                    );
                }
                let folder = Folder {
                    path: path.to_owned(),
                    fresh: false,
                };
                folder.probe()?;
                Ok(folder)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if let Err(error) = fs::create_dir_all(path) {
                    usage!("--out {shown} cannot be made: {error}");
                }
                Ok(Folder {
                    path: path.to_owned(),
                    fresh: true,
                })
            }
            Err(error) => usage!("--out {shown} cannot be used as a folder: {error}"),
        }
    }

    /// A folder in which a sweep was begun: the one named, or the newest of the local ones.
    pub(crate) fn begun(out: Option<&Path>) -> Result<Folder> {
        if let Some(path) = out {
            if !path.is_dir() {
                usage!(
                    "--out {} is no folder, so there is no sweep in it to resume",
                    path.display()
                );
            }
            return Ok(Folder {
                path: path.to_owned(),
                fresh: false,
            });
        }
        let Some(path) = newest()? else {
            usage!("there is no sweep in {} to resume", local().display())
        };
        Ok(Folder { path, fresh: false })
    }

    /// `DATE-N` with the first N that is free.
    fn numbered(parent: &Path) -> Result<Folder> {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let date = today();
        for number in 1.. {
            let path = parent.join(format!("{date}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Folder { path, fresh: true }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot make {}", path.display()));
                }
            }
        }
        unreachable!("a folder name is free before the numbers run out")
    }

    /// Whether files can be made in it.
    fn probe(&self) -> Result<()> {
        let path = self.file(".probe");
        match fs::write(&path, "").and_then(|()| fs::remove_file(&path)) {
            Ok(()) => Ok(()),
            Err(error) => usage!(
                "--out {} cannot be written to: {error}",
                self.path.display()
            ),
        }
    }

    /// The sweep begins: from here on the folder stays.
    pub(crate) fn keep(mut self) -> Folder {
        self.fresh = false;
        self
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Adds text to one of its files.
    pub(crate) fn append(&self, name: &str, text: &str) -> Result<()> {
        let path = self.file(name);
        let file = OpenOptions::new().append(true).create(true).open(&path);
        file.and_then(|mut file| writeln!(file, "{}", text.trim_end()))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.fresh {
            // Only ever an empty folder: `remove_dir` refuses others.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Where sweeps go that are nobody's reference.
fn local() -> PathBuf {
    workspace_root().join("results").join("local")
}

/// The local folder whose sweep was begun last.
pub(crate) fn newest() -> Result<Option<PathBuf>> {
    let Ok(entries) = fs::read_dir(local()) else {
        return Ok(None);
    };
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    for entry in entries {
        let path = entry.context("cannot read results/local")?.path();
        let Ok(begun) = fs::metadata(path.join("plan.json")).and_then(|meta| meta.modified())
        else {
            continue;
        };
        if newest.as_ref().is_none_or(|(time, _)| *time < begun) {
            newest = Some((begun, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// Today in UTC, as `2024-05-17`.
fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a day counted from 1970-01-01.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(59), (1970, 3, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_453), (2025, 12, 31));
    }

    #[test]
    fn a_claimed_folder_is_given_back() {
        let path = std::env::temp_dir().join(format!("xtask-folder-{}", std::process::id()));
        drop(Folder::claim(Some(&path)).unwrap());
        assert!(!path.exists());
        let folder = Folder::claim(Some(&path)).unwrap().keep();
        folder.append("a.txt", "x").unwrap();
        drop(folder);
        assert!(
            Folder::claim(Some(&path))
                .unwrap_err()
                .to_string()
                .contains("not empty")
        );
        fs::remove_dir_all(&path).unwrap();
    }
}
