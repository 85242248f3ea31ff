//! The measuring program: `harness list`, `harness facts`, `harness run`. It parses, matches, and calls.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use harness::drive::Length;
use harness::grid::{self, Job, PHASES};
use harness::{alloc, facts, output, registry};
use lexopt::{Arg, Parser, ValueExt};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

const USAGE: &str = "\
usage: harness list [--format text|json]
       harness facts [--allocator mimalloc|system]
       harness run --design NAME --phase A|B|C [--round R] [--seed S] [--keys N] [--key-length L]
                   [--value-size V] [--threads 1,2] [--benchtime 200ms|5000x] [--pin 0,1|none]
                   [--allocator mimalloc|system] [--cells-from FILE] [--skip CELL]... [--plan]";

/// What is wrong with the command line, in one line.
struct Usage(String);

impl<E: std::fmt::Display> From<E> for Usage {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

fn main() -> ExitCode {
    match verb() {
        Ok(code) => code,
        Err(Usage(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn verb() -> Result<ExitCode, Usage> {
    let mut parser = Parser::from_env();
    let verb = match parser.next()? {
        Some(Arg::Value(verb)) => verb.string()?,
        Some(Arg::Long("help") | Arg::Short('h')) | None => {
            println!("{USAGE}");
            return Ok(ExitCode::SUCCESS);
        }
        Some(other) => return Err(other.unexpected().into()),
    };
    match verb.as_str() {
        "list" => list(parser),
        "facts" => print_facts(parser),
        "run" => run(parser),
        other => Err(Usage(format!("unknown verb '{other}'; there are list, facts, run"))),
    }
}

fn list(mut parser: Parser) -> Result<ExitCode, Usage> {
    let mut format = "text".to_owned();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("format") => format = parser.value()?.string()?,
            other => return Err(other.unexpected().into()),
        }
    }
    match format.as_str() {
        "text" => {
            println!(
                "{:<16} {:<7} {:<26} {:<6} {:<31} {:<29} {:<16} idea",
                "name", "kind", "from", "phases", "reads", "writes", "snapshot"
            );
            for e in registry::all() {
                println!(
                    "{:<16} {:<7} {:<26} {:<6} {:<31} {:<29} {:<16} {}",
                    e.name,
                    e.kind.name(),
                    e.package,
                    e.phases.join(","),
                    e.read,
                    e.write,
                    e.snapshot,
                    e.idea
                );
            }
            println!("\nAll get the same hasher (xxh3, one-shot) and, where they take one, the number of keys as a hint.\n");
            for phase in PHASES {
                println!("phase {}  {}\n         {}", phase.name, phase.what, phase.axes);
            }
        }
        "json" => {
            let designs: Vec<_> = registry::all()
                .map(|e| {
                    json!({
                        "name": e.name, "kind": e.kind.name(), "crate": e.package, "phases": e.phases,
                        "reads": e.read, "writes": e.write, "snapshot": e.snapshot, "idea": e.idea,
                        "hasher": "xxh3 one-shot",
                    })
                })
                .collect();
            let phases: Vec<_> = PHASES
                .iter()
                .map(|p| json!({"name": p.name, "what": p.what, "axes": p.axes, "measured": p.measured}))
                .collect();
            let inventory = json!({"designs": designs, "phases": phases, "experiments": []});
            println!("{inventory:#}");
        }
        other => return Err(Usage(format!("unknown format '{other}'; there are text, json"))),
    }
    Ok(ExitCode::SUCCESS)
}

fn print_facts(mut parser: Parser) -> Result<ExitCode, Usage> {
    let mut allocator = None;
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("allocator") => allocator = Some(parser.value()?.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    with_allocator(allocator.as_deref())?;
    for (key, value) in facts::facts() {
        println!("{key}: {value}");
    }
    Ok(ExitCode::SUCCESS)
}

fn run(mut parser: Parser) -> Result<ExitCode, Usage> {
    let mut job = Job {
        design: String::new(),
        phase: String::new(),
        round: 1,
        seed: 1,
        keys: 1_000_000,
        key_length: 16,
        value_size: 64,
        threads: vec![1],
        length: Length::Time(Duration::from_millis(200)),
        pin: Vec::new(),
        only: HashSet::new(),
        skip: HashSet::new(),
    };
    let mut allocator = None;
    let mut plan = false;
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("design") => job.design = parser.value()?.string()?,
            Arg::Long("phase") => job.phase = parser.value()?.string()?.to_uppercase(),
            Arg::Long("experiment") => {
                let name = parser.value()?.string()?;
                return Err(Usage(format!("unknown experiment '{name}'; there are none yet")));
            }
            Arg::Long("round") => job.round = number(&mut parser, "--round")?,
            Arg::Long("seed") => job.seed = number(&mut parser, "--seed")?,
            Arg::Long("keys") => job.keys = number(&mut parser, "--keys")?,
            Arg::Long("key-length") => job.key_length = number(&mut parser, "--key-length")?,
            Arg::Long("value-size") => job.value_size = number(&mut parser, "--value-size")?,
            Arg::Long("threads") => job.threads = numbers(&parser.value()?.string()?, "--threads")?,
            Arg::Long("benchtime") => job.length = length(&parser.value()?.string()?)?,
            Arg::Long("pin") => {
                let list = parser.value()?.string()?;
                job.pin = if list == "none" { Vec::new() } else { numbers(&list, "--pin")? };
            }
            Arg::Long("allocator") => allocator = Some(parser.value()?.string()?),
            Arg::Long("cells-from") => {
                let path = parser.value()?.string()?;
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| Usage(format!("--cells-from: cannot read {path}: {error}")))?;
                job.only.extend(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()));
                if job.only.is_empty() {
                    return Err(Usage(format!("--cells-from: {path} names no cell")));
                }
            }
            Arg::Long("skip") => drop(job.skip.insert(parser.value()?.string()?)),
            Arg::Long("plan") => plan = true,
            other => return Err(other.unexpected().into()),
        }
    }
    if job.design.is_empty() || job.phase.is_empty() {
        return Err(Usage("run needs --design NAME and --phase A, B or C".to_owned()));
    }
    grid::validate(&job).map_err(Usage)?;
    let entry = registry::find(&job.design).map_err(Usage)?;
    if plan {
        for cell in job.cells() {
            println!("{} {:.1}ms", cell.name(&job.design), job.estimate_ms(&cell));
        }
        return Ok(ExitCode::SUCCESS);
    }
    with_allocator(allocator.as_deref())?;
    let Job { design, phase, round, seed, .. } = &job;
    let pid = std::process::id();
    output::put(&format!("# begin design={design} phase={phase} round={round} seed={seed} pid={pid}"))?;
    let well = (entry.grid)(&job)?;
    output::put(&format!("# end design={design} round={round}"))?;
    Ok(ExitCode::from(u8::from(!well)))
}

/// Makes sure that the wanted allocator serves this process: starts the program again where another one already does.
fn with_allocator(wanted: Option<&str>) -> Result<(), Usage> {
    let Some(wanted) = wanted else {
        return Ok(());
    };
    if !["mimalloc", "system"].contains(&wanted) {
        return Err(Usage(format!("unknown allocator '{wanted}'; there are mimalloc, system")));
    }
    if alloc::backend() == wanted {
        return Ok(());
    }
    let mut again = std::process::Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1)).env(alloc::VARIABLE, wanted);
    #[cfg(unix)]
    {
        let error = std::os::unix::process::CommandExt::exec(&mut again);
        Err(Usage(format!("cannot start again with the allocator {wanted}: {error}")))
    }
    #[cfg(not(unix))]
    {
        let status = again.status()?;
        std::process::exit(status.code().unwrap_or(1));
    }
}

fn number<T: std::str::FromStr>(parser: &mut Parser, flag: &str) -> Result<T, Usage> {
    let text = parser.value()?.string()?;
    text.replace('_', "")
        .parse()
        .map_err(|_| Usage(format!("{flag} {text}: expected a whole number in range")))
}

fn numbers(list: &str, flag: &str) -> Result<Vec<usize>, Usage> {
    list.split(',')
        .map(|word| word.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(|_| Usage(format!("{flag} {list}: expected numbers such as 1,2")))
}

/// `200ms`, `1.5s`, `5000x`.
fn length(text: &str) -> Result<Length, Usage> {
    let wrong = || {
        Usage(format!(
            "--benchtime {text}: expected a time such as 200ms or 1s, or a count of operations such as 5000x"
        ))
    };
    if let Some(count) = text.strip_suffix('x') {
        return Ok(Length::Operations(count.parse().map_err(|_| wrong())?));
    }
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
        .ok_or_else(wrong)?;
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())?;
    if time > Duration::from_secs(3600) {
        return Err(Usage(format!("--benchtime {text}: more than an hour for one cell")));
    }
    Ok(Length::Time(time))
}
