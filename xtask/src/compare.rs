//! `cargo xtask compare`: reads benchmark files, hands them to `bench-compare`, prints what it gives and turns the
//! verdict into an exit code. Computes nothing itself.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use bench_compare::error::Error;
use bench_compare::format::Corpus;
use bench_compare::gate::{self, Status};
use bench_compare::noise::{self, Noise};
use bench_compare::rank::{self, RankRequest};
use bench_compare::render;
use bench_compare::report::{Report, Request, analyze};

/// Compare benchmark results: medians, intervals and significance as Go's benchstat reports them, and more.
///
/// One file is summarised; two or more are compared, the first being the baseline; --col compares within files.
/// Exit codes: 0 done (and no regression), 1 a regression (or a failed A/A check), 2 usage or input, 3 inconclusive
/// (with --strict).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Benchmark files: PATH, LABEL=PATH, or - for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// One table for each value of these keys.
    #[arg(long, value_name = "KEYS", default_value = ".config")]
    table: String,
    /// One row for each value of these keys.
    #[arg(long, value_name = "KEYS", default_value = ".fullname")]
    row: String,
    /// One column for each value of these keys; the first one is the baseline.
    #[arg(long, value_name = "KEYS", default_value = ".file")]
    col: String,
    /// Keys whose differences do not matter.
    #[arg(long, value_name = "KEYS", default_value = "")]
    ignore: String,
    /// Use only what matches, such as '/mix:r90 .unit:sec/op -/impl:noop'.
    #[arg(
        long,
        value_name = "QUERY",
        default_value = "*",
        allow_hyphen_values = true
    )]
    filter: String,
    /// A difference counts if p is at most this.
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    alpha: f64,
    /// Confidence of the intervals.
    #[arg(long, value_name = "LEVEL", default_value_t = 0.95)]
    confidence: f64,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Compare with the column of this label instead of the first.
    #[arg(long, value_name = "COLUMN")]
    base: Option<String>,
    /// Add bars of the values in proportion.
    #[arg(long)]
    bars: bool,
    /// Compare across machines and revisions.
    #[arg(long)]
    force: bool,
    /// Reproduce benchstat even where it errs: one-sided p for ties of unequal samples, its rounding, its leniency.
    #[arg(long)]
    compat: bool,

    /// Fail if anything is worse than the baseline by more than this, beyond chance and noise.
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "compat")]
    fail_above: Option<f64>,
    /// With --fail-above: exit 3 if something cannot be decided.
    #[arg(long, requires = "fail_above")]
    strict: bool,
    /// With --fail-above: an A/A run to measure the noise floor from: two files are two runs of the same, one is a
    /// sweep with --aa or is split by rounds. Without it the floor comes from the rounds of the baseline.
    #[arg(long, value_name = "FILE", requires = "fail_above", num_args = 1)]
    noise: Vec<String>,

    /// Rank the columns (designs, by default) in each group of workloads.
    #[arg(long, conflicts_with_all = ["fail_above", "aa"])]
    rank: bool,
    /// With --rank: workloads that differ in these keys are ranked apart [default: .name,/mix,/gomaxprocs].
    #[arg(long, value_name = "KEYS", requires = "rank")]
    group: Option<String>,
    /// With --rank: a column that is a floor and no contender.
    #[arg(long, value_name = "COLUMN", requires = "rank", default_values_t = vec!["noop".to_owned()])]
    floor: Vec<String>,

    /// Check that things which are the same show no difference: two runs given as two files, each design of a sweep
    /// with --aa and its twin, or the alternating rounds of any one run.
    #[arg(long, conflicts_with = "fail_above")]
    aa: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Csv,
    Markdown,
    Json,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> ExitCode {
    match compare(args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("compare: {message}");
            ExitCode::from(2)
        }
    }
}

fn compare(args: &Args) -> Result<ExitCode, String> {
    let request = request(args);
    let corpus = load(&args.files)?;
    for problem in &corpus.problems {
        eprintln!("{problem}");
    }
    if args.rank {
        let how = RankRequest {
            group: args.group.clone(),
            floors: args.floor.clone(),
            ..RankRequest::default()
        };
        let ranking = rank::rank(&corpus, &request, &how).map_err(one_line)?;
        notes(&ranking.report);
        let failures = render::failures(&ranking.report, &corpus);
        match args.format {
            Format::Text => print(&(rank::text(&ranking) + &separated(&failures)))?,
            Format::Markdown => print(&(rank::markdown(&ranking) + &listed(&failures)))?,
            Format::Csv => {
                print(&rank::csv(&ranking))?;
                eprint!("{failures}");
            }
            Format::Json => print(&format!("{:#}\n", rank::json(&ranking)))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.aa {
        return check_noise(args, &corpus, &request);
    }
    let report = analyze(&corpus, &request).map_err(one_line)?;
    notes(&report);
    let verdict = match args.fail_above {
        None => None,
        Some(threshold) => {
            let noise = noise_floor(args, &request, &report)?;
            Some(gate::judge(&report, threshold, noise.as_ref()))
        }
    };
    if let Some(verdict) = &verdict
        && verdict.findings.is_empty()
    {
        return Err(
            "--fail-above: nothing to compare; give two files, or columns with --col".to_owned(),
        );
    }
    show(args, &corpus, &report, verdict.as_ref())?;
    Ok(match verdict {
        Some(v) if v.of(Status::Regression).next().is_some() => ExitCode::from(1),
        Some(v) if args.strict && v.of(Status::Inconclusive).next().is_some() => ExitCode::from(3),
        _ => ExitCode::SUCCESS,
    })
}

fn request(args: &Args) -> Request {
    Request {
        table: args.table.clone(),
        row: args.row.clone(),
        col: args.col.clone(),
        ignore: args.ignore.clone(),
        filter: args.filter.clone(),
        alpha: args.alpha,
        confidence: args.confidence,
        base: args.base.clone(),
        force: args.force,
        compat: args.compat,
    }
}

fn show(
    args: &Args,
    corpus: &Corpus,
    report: &Report,
    verdict: Option<&gate::Verdict>,
) -> Result<(), String> {
    let failures = render::failures(report, corpus);
    let gate = verdict.map(gate::text).unwrap_or_default();
    match args.format {
        Format::Text => {
            let mut out = render::text(report);
            if args.bars {
                out += &separated(&render::bars(report));
            }
            print(&(out + &separated(&failures) + &separated(&gate)))
        }
        Format::Markdown => {
            print(&(render::markdown(report) + &listed(&failures) + &listed(&gate)))
        }
        Format::Csv => {
            let csv = render::csv(report);
            print(&csv.records)?;
            eprint!("{}{failures}{gate}", csv.warnings);
            Ok(())
        }
        Format::Json => {
            let mut json = render::json(report, corpus);
            if let Some(verdict) = verdict {
                json["gate"] = gate::json(verdict);
            }
            print(&format!("{json:#}\n"))
        }
    }
}

fn check_noise(args: &Args, corpus: &Corpus, request: &Request) -> Result<ExitCode, String> {
    let noise = noise::check(corpus, request).map_err(one_line)?;
    match args.format {
        Format::Json => print(&format!("{:#}\n", noise::json(&noise)))?,
        Format::Markdown => print(&listed(&noise::text(&noise)))?,
        Format::Text | Format::Csv => print(&noise::text(&noise))?,
    }
    Ok(if noise.passes() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// The noise floor of the gate: from an A/A run if given, else from the rounds of the baseline.
fn noise_floor(args: &Args, request: &Request, report: &Report) -> Result<Option<Noise>, String> {
    let noise = if args.noise.is_empty() {
        let noise = noise::from_rounds(report, |col| col == 0);
        if noise.units.values().all(|u| u.cells < 5) {
            eprintln!(
                "note: too few baseline cells to measure a noise floor; --noise FILE gives one"
            );
            return Ok(None);
        }
        noise
    } else {
        // Whatever the columns of the comparison are, two A/A files are two runs, and one is split by itself.
        let request = Request {
            col: Request::default().col,
            ..request.clone()
        };
        noise::check(&load(&args.noise)?, &request).map_err(|e| format!("--noise: {e}"))?
    };
    for (unit, u) in &noise.units {
        eprintln!(
            "note: noise floor {:.2}% in {unit}, from {} cells",
            100.0 * u.floor,
            u.cells
        );
    }
    Ok(Some(noise))
}

/// Reads all inputs. A path given twice gets a number, so that its columns stay apart.
fn load(files: &[String]) -> Result<Corpus, String> {
    let split = |file: &String| match file.split_once('=') {
        Some((label, path)) => (Some(label.to_owned()), path.to_owned()),
        None => (None, file.clone()),
    };
    let inputs: Vec<(Option<String>, String)> = files.iter().map(split).collect();
    let mut corpus = Corpus::default();
    for (at, (label, path)) in inputs.iter().enumerate() {
        let twin = |(label, other): &&(Option<String>, String)| label.is_none() && other == path;
        let label = label.clone().unwrap_or_else(|| {
            if inputs.iter().filter(twin).count() == 1 {
                return path.clone();
            }
            format!("{path}#{}", inputs[..at].iter().filter(twin).count())
        });
        let mut text = Vec::new();
        let read = if path == "-" {
            io::stdin().read_to_end(&mut text).map(|_| ())
        } else {
            std::fs::read(path).map(|bytes| text = bytes)
        };
        read.map_err(|e| format!("cannot read {path}: {e}"))?;
        corpus.read(&label, path, &text);
    }
    Ok(corpus)
}

fn notes(report: &Report) {
    for note in &report.notes {
        eprintln!("note: {note}");
    }
}

/// Text behind a blank line, if there is any.
fn separated(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("\n{text}")
    }
}

/// Text as a Markdown code block, if there is any.
fn listed(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("\n```text\n{text}```\n")
    }
}

fn one_line(error: Error) -> String {
    error.to_string()
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(format!("cannot write: {e}")),
        _ => Ok(()),
    }
}

/// Reads `5`, `5%` or `2.5%` as a fraction.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let value: f64 = number
        .parse()
        .map_err(|_| format!("'{text}' is no percentage, such as 5%"))?;
    if value.is_finite() && value >= 0.0 {
        Ok(value / 100.0)
    } else {
        Err(format!("'{text}' is not a percentage from 0 upward"))
    }
}
