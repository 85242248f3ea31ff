//! One child process: spawned, read line by line as it measures, watched by a clock, and buried.
//! Decides nothing about the sweep; it reports how the child ended.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How a child came to its end.
#[derive(Debug)]
pub(crate) enum End {
    /// By itself.
    Exited(ExitStatus),
    /// It took longer than it may and was killed.
    TimedOut(Duration),
    /// The user wants to stop; it was killed.
    Interrupted,
}

/// What remains of a child.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    /// What it wrote to standard error.
    pub(crate) complaint: String,
    pub(crate) wall: Duration,
}

/// How often the loop looks at the clock and the user while the child says nothing.
const TICK: Duration = Duration::from_millis(100);

/// Standard error beyond this is dropped: a reason is wanted, not a flood.
const COMPLAINT_LIMIT: u64 = 64 << 10;

/// Runs a child to its end, handing each whole line to `line` the moment it arrives and calling `tick` in between.
pub(crate) fn run(
    mut command: Command,
    limit: Duration,
    stop: &AtomicBool,
    mut line: impl FnMut(&str) -> Result<()>,
    mut tick: impl FnMut(),
) -> Result<Outcome> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // A group of its own: Ctrl-C reaches this program alone, which then ends the child in an orderly way.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let begun = Instant::now();
    let mut child = Guard(command.spawn().context("cannot start the harness")?);
    let stdout = child.0.stdout.take().context("the harness has no output")?;
    let stderr = child
        .0
        .stderr
        .take()
        .context("the harness has no error output")?;
    let (send, receive) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mut bytes = Vec::new();
        // A line without its end is a child that died in mid-sentence; it is not passed on.
        while stdout.read_until(b'\n', &mut bytes).is_ok() && bytes.pop() == Some(b'\n') {
            if send
                .send(String::from_utf8_lossy(&bytes).into_owned())
                .is_err()
            {
                break;
            }
            bytes.clear();
        }
    });
    let complaints = thread::spawn(move || {
        let mut stderr = BufReader::new(stderr);
        let mut bytes = Vec::new();
        let _ = stderr
            .by_ref()
            .take(COMPLAINT_LIMIT)
            .read_to_end(&mut bytes);
        // Reading on keeps a talkative child from blocking on a full pipe.
        let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let mut end = None;
    loop {
        match receive.recv_timeout(TICK) {
            Ok(text) => line(&text)?,
            Err(RecvTimeoutError::Timeout) => tick(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stop.load(Ordering::Relaxed) {
            end = Some(End::Interrupted);
        } else if begun.elapsed() > limit {
            end = Some(End::TimedOut(limit));
        }
        if end.is_some() {
            child.kill();
            // What had already arrived is kept.
            while let Ok(text) = receive.recv_timeout(TICK) {
                line(&text)?;
            }
            break;
        }
    }
    // A child that closes its output but lives on is held to the same limit.
    let status = loop {
        if let Some(status) = child.0.try_wait().context("cannot wait for the harness")? {
            break status;
        }
        if begun.elapsed() > limit || stop.load(Ordering::Relaxed) {
            end.get_or_insert(if stop.load(Ordering::Relaxed) {
                End::Interrupted
            } else {
                End::TimedOut(limit)
            });
            child.kill();
        }
        thread::sleep(Duration::from_millis(2));
    };
    let wall = begun.elapsed();
    let _ = reader.join();
    let complaint = complaints.join().unwrap_or_default();
    Ok(Outcome {
        end: end.unwrap_or(End::Exited(status)),
        complaint,
        wall,
    })
}

/// No way out of this module leaves the child running.
struct Guard(Child);

impl Guard {
    fn kill(&mut self) {
        // It fails only when the child is gone already.
        let _ = self.0.kill();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}

impl Outcome {
    /// In one line: why there is no sample from this child.
    pub(crate) fn reason(&self) -> String {
        let end = match &self.end {
            End::Interrupted => "interrupted".to_owned(),
            End::TimedOut(limit) => {
                return format!(
                    "hung: no end after {} s, the process was killed",
                    limit.as_secs()
                );
            }
            End::Exited(status) => describe(*status),
        };
        match complaint_line(&self.complaint) {
            Some(line) => format!("{end}: {line}"),
            None => end,
        }
    }
}

fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let name = match signal {
            4 => " (illegal instruction)",
            6 => " (aborted)",
            7 | 11 => " (invalid memory access)",
            9 => " (killed; perhaps out of memory)",
            _ => "",
        };
        return format!("the process died of signal {signal}{name}");
    }
    match status.code() {
        Some(0) => "the process ended without measuring this cell".to_owned(),
        Some(code) => format!("the process ended with code {code}"),
        None => "the process died".to_owned(),
    }
}

/// The line that says most: what follows "panicked at" if there is one, else the last one.
fn complaint_line(text: &str) -> Option<String> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let panic = lines.iter().position(|line| line.contains("panicked at"));
    let message = panic.and_then(|at| {
        lines
            .get(at + 1)
            .map(|message| format!("panicked: {message}"))
    });
    let last = || {
        lines
            .iter()
            .rev()
            .find(|line| !line.starts_with("note:"))
            .map(|line| (*line).to_owned())
    };
    message
        .or_else(last)
        .map(|line| line.chars().take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panic_message_is_the_reason() {
        let text = "thread 'main' panicked at src/x.rs:1:2:\nthe lock is gone\nnote: run with `RUST_BACKTRACE=1`\n";
        assert_eq!(
            complaint_line(text).as_deref(),
            Some("panicked: the lock is gone")
        );
        assert_eq!(
            complaint_line("error: no such cell\n\n").as_deref(),
            Some("error: no such cell")
        );
        assert_eq!(complaint_line(" \n"), None);
    }
}
