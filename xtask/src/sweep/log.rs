//! `bench.txt`: appended to line by line while a sweep runs, read back when it is resumed or rendered.
//! Nothing here rewrites a line; the one thing ever cut off is a last line without its end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::errors::usage;

/// A cell in one round.
pub(crate) type Slot = (String, u32);

/// The figures of one cell in one round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) round: u32,
    pub(crate) ns_per_op: f64,
    /// The line as it stands in the file, with all its units, and the comment before it that belongs to it.
    pub(crate) line: String,
}

impl Sample {
    /// The line of figures that belongs to it, where the cell stands in a published table.
    pub(crate) fn csv(&self) -> Option<&str> {
        self.line.lines().find_map(|line| line.strip_prefix(CSV))
    }
}

/// What opens a line of figures, which stands between a sample's side data and the sample.
const CSV: &str = "# csv ";

/// What a `bench.txt` holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Per cell, in order of first appearance, one sample per round.
    pub(crate) samples: BTreeMap<String, Vec<Sample>>,
    /// Cells in order of first appearance.
    pub(crate) cells: Vec<String>,
    /// Configuration and units: whatever is neither a sample nor a comment.
    pub(crate) head: String,
    /// Why a cell has no sample in a round. A later sample of the same round takes its failure away.
    pub(crate) failed: BTreeMap<Slot, String>,
    done: BTreeSet<Slot>,
}

impl Contents {
    /// Reads whole lines; what it does not know it passes over.
    pub(crate) fn parse(text: &str) -> Contents {
        let mut contents = Contents::default();
        let mut round = 0;
        let mut failed = HashMap::new();
        let mut side_data = None;
        let mut csv = None;
        for line in text.lines() {
            if line.starts_with("# sample ") {
                side_data = Some(line);
                // What belonged to a sample that never came.
                csv = None;
            } else if line.starts_with(CSV) {
                csv = Some(line);
            } else if !line.starts_with(['#', 'B']) && !line.is_empty() {
                contents.head.push_str(line);
                contents.head.push('\n');
            }
            if let Some(line) = Line::parse(line) {
                match line {
                    Line::Begin { round: begun } => round = begun,
                    Line::Failed {
                        cell,
                        round,
                        reason,
                    } => {
                        failed.insert((cell.to_owned(), round), reason.to_owned());
                    }
                    Line::Sample { cell, mut sample } => {
                        for comment in [csv.take(), side_data.take()].into_iter().flatten() {
                            sample.line.insert(0, '\n');
                            sample.line.insert_str(0, comment);
                        }
                        // A sample counts once for its round; the first was there before any resumption.
                        if contents.done.insert((cell.to_owned(), round)) {
                            let samples =
                                contents.samples.entry(cell.to_owned()).or_insert_with(|| {
                                    contents.cells.push(cell.to_owned());
                                    Vec::new()
                                });
                            samples.push(Sample { round, ..sample });
                        }
                    }
                }
            }
        }
        contents.failed = failed
            .into_iter()
            .filter(|(slot, _)| !contents.done.contains(slot))
            .collect();
        contents
    }

    /// Whether a cell has its sample of a round.
    pub(crate) fn has(&self, cell: &str, round: u32) -> bool {
        // A tuple of owned parts is what the set holds; lookups are few and far from any clock.
        self.done.contains(&(cell.to_owned(), round))
    }
}

/// A line that means something to a sweep.
#[derive(Debug, PartialEq)]
pub(crate) enum Line<'a> {
    Begin {
        round: u32,
    },
    Sample {
        cell: &'a str,
        sample: Sample,
    },
    Failed {
        cell: &'a str,
        round: u32,
        reason: &'a str,
    },
}

impl Line<'_> {
    /// The meaning of a line, or nothing for all the others.
    pub(crate) fn parse(line: &str) -> Option<Line<'_>> {
        if let Some(rest) = line.strip_prefix("# begin ") {
            let round = rest
                .split_whitespace()
                .find_map(|word| word.strip_prefix("round="))?;
            return Some(Line::Begin {
                round: round.parse().ok()?,
            });
        }
        if let Some(rest) = line.strip_prefix("# failed ") {
            let (cell, rest) = rest.split_once(" round=")?;
            let (round, reason) = rest.split_once(':')?;
            return Some(Line::Failed {
                cell,
                round: round.trim().parse().ok()?,
                reason: reason.trim(),
            });
        }
        let mut words = line.strip_prefix("Benchmark")?.split_whitespace();
        let cell = words.next()?;
        let iterations: u64 = words.next()?.parse().ok()?;
        let mut sample = Sample {
            round: 0,
            ns_per_op: f64::NAN,
            line: line.to_owned(),
        };
        while let Some(value) = words.next() {
            let value: f64 = value.parse().ok()?;
            if words.next()? == "ns/op" {
                sample.ns_per_op = value;
            }
        }
        let sound = iterations > 0 && sample.ns_per_op.is_finite() && sample.ns_per_op >= 0.0;
        sound.then_some(Line::Sample { cell, sample })
    }
}

/// The file of a sweep that is under way, held by one program at a time.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
}

impl Log {
    /// Opens the file for appending, after cutting off a last line that was never finished.
    pub(crate) fn open(path: &Path) -> Result<(Log, Contents)> {
        let name = path.display();
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("cannot write {name}"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                usage!("another sweep is writing {name}; wait for it to end")
            }
            // A file system without locks is no reason not to measure.
            Err(TryLockError::Error(_)) => {}
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .with_context(|| format!("cannot read {name}"))?;
        let whole = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64)
                .with_context(|| format!("cannot repair {name}"))?;
            file.seek(SeekFrom::End(0))?;
        }
        let contents = Contents::parse(&String::from_utf8_lossy(&bytes[..whole]));
        Ok((Log { file }, contents))
    }

    /// Appends one line in a single write, so that it is there whatever happens to this program next.
    pub(crate) fn line(&mut self, line: &str) -> Result<()> {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        self.file
            .write_all(&bytes)
            .context("cannot write bench.txt")
    }

    /// Waits until what was written has reached the disk.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.file.sync_data().context("cannot write bench.txt")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "os: linux\nUnit ns/op better=lower\n\
        # begin design=a phase=A round=1 seed=3 pid=7\n\
        # sample {\"cell\":\"Cache/impl=a/mix=r90\",\"round\":1}\n\
        BenchmarkCache/impl=a/mix=r90\t1000\t12.3456 ns/op\t0 B/op\t0 allocs/op\n\
        # failed Cache/impl=a/mix=r50 round=1: wrong answer: 3 hits, 4 expected\n\
        # end design=a round=1\n\
        # begin design=a phase=A round=2 seed=3 pid=8\n\
        BenchmarkCache/impl=a/mix=r90\t1000\t12.5 ns/op\t1 B/op\t2 allocs/op\n";

    #[test]
    fn samples_belong_to_the_round_that_began_last() {
        let contents = Contents::parse(TEXT);
        assert!(contents.has("Cache/impl=a/mix=r90", 1) && contents.has("Cache/impl=a/mix=r90", 2));
        assert!(!contents.has("Cache/impl=a/mix=r50", 1));
        let samples = &contents.samples["Cache/impl=a/mix=r90"];
        assert_eq!((samples[0].round, samples[0].ns_per_op), (1, 12.3456));
        assert!(
            samples[0].line.starts_with("# sample {"),
            "the comment belongs to it"
        );
        assert!(
            samples[1].line.ends_with("2 allocs/op"),
            "all units are kept"
        );
        assert_eq!(contents.head, "os: linux\nUnit ns/op better=lower\n");
        let reason = &contents.failed[&("Cache/impl=a/mix=r50".to_owned(), 1)];
        assert_eq!(reason, "wrong answer: 3 hits, 4 expected");
    }

    #[test]
    fn a_sample_takes_its_failure_away() {
        let again = "# begin design=a round=1\nBenchmarkCache/impl=a/mix=r50\t10\t5.0 ns/op\n";
        assert!(Contents::parse(&format!("{TEXT}{again}")).failed.is_empty());
    }

    #[test]
    fn a_line_of_figures_belongs_to_the_next_sample() {
        let text = "# begin round=1\n# sample {}\n# csv mutex,1,50,1,12.3\nBenchmarkT/impl=a\t10\t12.3 ns/op\n\
                    # sample {}\n# csv mutex,1,50,2,9.0\n# sample {}\nBenchmarkT/impl=b\t10\t12.3 ns/op\n";
        let contents = Contents::parse(text);
        let csv = |cell: &str| contents.samples[cell][0].csv().map(str::to_owned);
        assert_eq!(csv("T/impl=a").as_deref(), Some("mutex,1,50,1,12.3"));
        assert_eq!(csv("T/impl=b"), None, "its own sample was never finished");
    }

    #[test]
    fn lines_that_are_no_samples() {
        for line in [
            "BenchmarkX",
            "BenchmarkX\t0\t5 ns/op",
            "BenchmarkX 5 NaN ns/op",
            "BenchmarkX 5 1.0",
            "Bench",
            "",
        ] {
            assert_eq!(Line::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("xtask-log-{}.txt", std::process::id()));
        std::fs::write(
            &path,
            format!("{TEXT}BenchmarkCache/impl=a/mix=r10\t1000\t12"),
        )
        .unwrap();
        let (mut log, contents) = Log::open(&path).unwrap();
        assert!(!contents.has("Cache/impl=a/mix=r10", 2));
        assert!(Log::open(&path).is_err(), "one writer at a time");
        log.line("# more").unwrap();
        log.sync().unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            format!("{TEXT}# more\n")
        );
        std::fs::remove_file(&path).unwrap();
    }
}
