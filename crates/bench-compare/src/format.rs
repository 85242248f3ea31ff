//! The benchmark text format: from lines to records and back. Reads bytes that the caller has loaded; opens nothing.
//!
//! A line is one of: a benchmark (`BenchmarkName  iterations  value unit ...`), unit metadata (`Unit ns/op
//! better=lower`), configuration (`key: value`, in force until the end of its input), a comment of our own sweeps
//! (`# sample {json}`, `# failed CELL round=R: reason`, `# begin ... round=R`), or noise, which is skipped.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::number::{parse_float, parse_integer, shortest};
use crate::unit::{UnitTable, tidy};

/// One value of a benchmark line.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The value in the tidied unit.
    pub value: f64,
    /// The tidied unit, such as `sec/op`.
    pub unit: String,
    /// The value as written.
    pub written_value: f64,
    /// The unit as written, such as `ns/op`.
    pub written_unit: String,
}

impl Measurement {
    /// A value as it would stand on a benchmark line.
    pub fn new(value: f64, unit: &str) -> Measurement {
        let (tidied, tidied_unit) = tidy(value, unit);
        Measurement {
            value: tidied,
            unit: tidied_unit,
            written_value: value,
            written_unit: unit.to_owned(),
        }
    }
}

/// One benchmark line with everything that was in force when it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Index of its input in [`Corpus::sources`].
    pub source: usize,
    /// Line number in its input, from 1.
    pub line: usize,
    /// The name without `Benchmark`.
    pub name: String,
    /// The number of iterations.
    pub iterations: i64,
    /// The values, at least one.
    pub measurements: Vec<Measurement>,
    /// The configuration in force, in order of first appearance.
    pub config: Arc<Vec<(String, String)>>,
    /// The round of the sweep in which it was measured, where the input tells.
    pub round: Option<u64>,
}

impl Record {
    /// The value of a configuration key.
    pub fn config(&self, key: &str) -> Option<&str> {
        self.config
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }
}

/// A sample that a sweep tried and could not take. It is reported, never a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Index of its input in [`Corpus::sources`].
    pub source: usize,
    /// Line number in its input, from 1.
    pub line: usize,
    /// The name of the cell, without `Benchmark`.
    pub cell: String,
    /// The round in which it failed.
    pub round: Option<u64>,
    /// Why.
    pub reason: String,
    /// The configuration in force.
    pub config: Arc<Vec<(String, String)>>,
}

/// A line that could not be understood; reading went on without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The input's path.
    pub path: String,
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// One input that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What `.file` is for its records.
    pub label: String,
    /// The path, for messages.
    pub path: String,
    /// How many benchmark lines it gave.
    pub records: usize,
}

/// Everything read from a set of inputs.
///
/// ```
/// let mut corpus = bench_compare::format::Corpus::default();
/// corpus.read("old", "old.txt", b"cpu: some\nBenchmarkGet/impl=mutex-2 100 12.5 ns/op\n");
/// assert_eq!(corpus.records[0].name, "Get/impl=mutex-2");
/// assert_eq!(corpus.records[0].measurements[0].unit, "sec/op");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Corpus {
    /// The inputs, in the order they were read.
    pub sources: Vec<Source>,
    /// The benchmark lines of all inputs.
    pub records: Vec<Record>,
    /// What `Unit` lines said; it holds for all inputs, whatever the order.
    pub units: UnitTable,
    /// Samples that could not be taken.
    pub failures: Vec<Failure>,
    /// Lines that were dropped.
    pub problems: Vec<Problem>,
}

impl Corpus {
    /// Reads one input. `label` becomes `.file`, `path` appears in messages. Bytes that are no UTF-8 are replaced;
    /// no input makes this fail, what is malformed lands in [`Corpus::problems`]. O(bytes).
    pub fn read(&mut self, label: &str, path: &str, text: &[u8]) {
        let source = self.sources.len();
        self.sources.push(Source {
            label: label.to_owned(),
            path: path.to_owned(),
            records: 0,
        });
        let mut reader = Reader {
            corpus: self,
            source,
            line: 0,
            config: Arc::default(),
            note: None,
            round: None,
        };
        let mut lines: Vec<&[u8]> = text.split(|b| *b == b'\n').collect();
        if lines.last().is_some_and(|l| l.is_empty()) {
            lines.pop();
        }
        for line in lines {
            reader.line += 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            reader.line(&String::from_utf8_lossy(line));
        }
    }
}

/// What a `# sample` comment says about the line that follows it.
struct SampleNote {
    cell: Option<String>,
    round: Option<u64>,
}

struct Reader<'a> {
    corpus: &'a mut Corpus,
    source: usize,
    line: usize,
    config: Arc<Vec<(String, String)>>,
    /// The last `# sample`, until its benchmark line has come.
    note: Option<SampleNote>,
    /// The round of the enclosing `# begin` ... `# end`.
    round: Option<u64>,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("Benchmark") {
            if let Err(message) = self.benchmark(rest) {
                self.problem(message);
            }
        } else if let Some(comment) = line.strip_prefix('#') {
            self.comment(comment.trim());
        } else if line.starts_with('U') && line.split_whitespace().next() == Some("Unit") {
            self.unit(line);
        } else if let Some((key, value)) = configuration(line) {
            self.configure(key, value);
        }
    }

    fn benchmark(&mut self, rest: &str) -> Result<(), String> {
        let name_end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (name, fields) = rest.split_at(name_end);
        if fields.is_empty() {
            // A test runner announces a benchmark by its bare name before it runs.
            return Ok(());
        }
        let mut fields = fields.split_whitespace();
        let count = fields.next().ok_or("missing iteration count")?;
        let iterations =
            parse_integer(count).map_err(|e| format!("parsing iteration count: {e}"))?;
        let mut measurements = Vec::new();
        while let Some(value) = fields.next() {
            let value = parse_float(value).map_err(|e| format!("parsing measurement: {e}"))?;
            measurements.push(Measurement::new(
                value,
                fields.next().ok_or("missing units")?,
            ));
        }
        if measurements.is_empty() {
            return Err("missing measurements".to_owned());
        }
        let round = match self.note.take() {
            Some(SampleNote {
                cell: Some(cell), ..
            }) if cell != name => {
                self.problem(format!(
                    "the sample comment above speaks of {cell}, this line of {name}"
                ));
                self.round
            }
            Some(note) => note.round.or(self.round),
            None => self.round,
        };
        self.corpus.sources[self.source].records += 1;
        self.corpus.records.push(Record {
            source: self.source,
            line: self.line,
            name: name.to_owned(),
            iterations,
            measurements,
            config: Arc::clone(&self.config),
            round,
        });
        Ok(())
    }

    fn comment(&mut self, comment: &str) {
        let (word, rest) = comment
            .split_once(char::is_whitespace)
            .unwrap_or((comment, ""));
        match word {
            "sample" if rest.trim_start().starts_with('{') => match serde_json::from_str(rest) {
                Ok(serde_json::Value::Object(fields)) => {
                    let cell = fields
                        .get("cell")
                        .and_then(|v| v.as_str())
                        .map(str::to_owned);
                    self.note = Some(SampleNote {
                        cell,
                        round: fields.get("round").and_then(|v| v.as_u64()),
                    });
                }
                _ => self.problem("malformed sample comment".to_owned()),
            },
            "begin" => self.round = round_of(rest),
            "end" => self.round = None,
            "failed" => self.failed(rest),
            _ => {}
        }
    }

    /// Reads `CELL round=R: reason`; prose that starts with the same word has no `round=` and is left alone.
    fn failed(&mut self, rest: &str) {
        let Some((cell, tail)) = rest.trim().split_once(char::is_whitespace) else {
            return;
        };
        let Some((round, reason)) = tail
            .trim_start()
            .strip_prefix("round=")
            .and_then(|t| t.split_once(':'))
        else {
            return;
        };
        let cell = cell.strip_prefix("Benchmark").unwrap_or(cell);
        self.corpus.failures.push(Failure {
            source: self.source,
            line: self.line,
            cell: cell.to_owned(),
            round: round.trim().parse().ok(),
            reason: reason.trim().to_owned(),
            config: Arc::clone(&self.config),
        });
    }

    fn unit(&mut self, line: &str) {
        let mut fields = line.split_whitespace().skip(1);
        let Some(written) = fields.next() else {
            self.problem("missing unit".to_owned());
            return;
        };
        let (_, unit) = tidy(1.0, written);
        for field in fields {
            match field.split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    if let Err(earlier) = self.corpus.units.set(&unit, key, value) {
                        self.problem(format!(
                            "metadata {key} of unit {written} already set to {earlier}"
                        ));
                    }
                }
                _ => self.problem("expected key=value".to_owned()),
            }
        }
    }

    fn configure(&mut self, key: &str, value: &str) {
        let config = Arc::make_mut(&mut self.config);
        let at = config.iter().position(|(k, _)| k == key);
        match (at, value.is_empty()) {
            (Some(at), true) => {
                config.remove(at);
            }
            (None, true) => {}
            (Some(at), false) => value.clone_into(&mut config[at].1),
            (None, false) => config.push((key.to_owned(), value.to_owned())),
        }
    }

    fn problem(&mut self, message: String) {
        let path = self.corpus.sources[self.source].path.clone();
        self.corpus.problems.push(Problem {
            path,
            line: self.line,
            message,
        });
    }
}

/// Splits `key: value`. The key starts with a lower-case letter and holds neither blanks nor capitals; a blank must
/// follow the colon unless the value is empty.
fn configuration(line: &str) -> Option<(&str, &str)> {
    if !line.starts_with(char::is_lowercase) {
        return None;
    }
    let end = line.find(|c: char| c == ':' || c.is_whitespace() || c.is_uppercase())?;
    let (key, rest) = line.split_at(end);
    let value = rest.strip_prefix(':')?;
    let trimmed = value.trim_start_matches([' ', '\t']);
    (value.is_empty() || trimmed.len() < value.len()).then_some((key, trimmed))
}

/// The value of the first `round=R` among blank-separated words.
fn round_of(text: &str) -> Option<u64> {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix("round=")?.parse().ok())
}

/// Writes one benchmark line, without a line feed.
///
/// The values are written as they were read, in the shortest form that reads back unchanged.
pub fn benchmark_line(name: &str, iterations: i64, measurements: &[Measurement]) -> String {
    let mut out = format!("Benchmark{name}\t{iterations}");
    for m in measurements {
        let _ = write!(out, "\t{} {}", shortest(m.written_value), m.written_unit);
    }
    out
}

/// Writes records, unit metadata and failures of one input so that reading gives them back: a block of configuration
/// lines wherever the configuration changes, a `# sample` comment before each line whose round is known. O(records).
pub fn write(corpus: &Corpus, source: usize) -> String {
    let mut out = String::new();
    let mut units: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (unit, key, value) in corpus.units.iter() {
        units
            .entry(unit)
            .or_default()
            .push(format!("{key}={value}"));
    }
    for (unit, fields) in units {
        let _ = writeln!(out, "Unit {unit} {}", fields.join(" "));
    }
    let empty = Vec::new();
    let mut config = &empty;
    let mut failures = corpus
        .failures
        .iter()
        .filter(|f| f.source == source)
        .peekable();
    for record in corpus.records.iter().filter(|r| r.source == source) {
        while let Some(failure) = failures.next_if(|f| f.line < record.line) {
            config = write_config(&mut out, config, &failure.config);
            write_failure(&mut out, failure);
        }
        config = write_config(&mut out, config, &record.config);
        if let Some(round) = record.round {
            let _ = writeln!(
                out,
                "# sample {}",
                serde_json::json!({ "cell": record.name, "round": round })
            );
        }
        let _ = writeln!(
            out,
            "{}",
            benchmark_line(&record.name, record.iterations, &record.measurements)
        );
    }
    for failure in failures {
        config = write_config(&mut out, config, &failure.config);
        write_failure(&mut out, failure);
    }
    out
}

fn write_failure(out: &mut String, failure: &Failure) {
    let round = failure
        .round
        .map_or_else(|| "?".to_owned(), |r| r.to_string());
    let _ = writeln!(
        out,
        "# failed {} round={round}: {}",
        failure.cell, failure.reason
    );
}

/// Writes the lines that lead from one configuration to the next. A changed order of keys needs them all again.
fn write_config<'a>(
    out: &mut String,
    old: &[(String, String)],
    new: &'a Vec<(String, String)>,
) -> &'a Vec<(String, String)> {
    if old == new.as_slice() {
        return new;
    }
    // A reader keeps surviving keys where they were and appends new ones.
    let kept: Vec<&String> = old
        .iter()
        .map(|(k, _)| k)
        .filter(|k| new.iter().any(|(n, _)| n == *k))
        .collect();
    let in_order = kept
        .iter()
        .copied()
        .eq(new.iter().map(|(k, _)| k).take(kept.len()));
    for (key, _) in old {
        if !in_order || !new.iter().any(|(k, _)| k == key) {
            let _ = writeln!(out, "{key}:");
        }
    }
    for (key, value) in new {
        if !in_order || !old.iter().any(|(k, v)| k == key && v == value) {
            let _ = writeln!(out, "{key}: {value}");
        }
    }
    out.push('\n');
    new
}
