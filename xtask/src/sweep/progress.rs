//! How far a sweep has come: a bar on a terminal, plain lines elsewhere. Writes to standard error only.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Without a terminal a line at least this far apart, so that logs stay short.
const QUIET: Duration = Duration::from_secs(15);

/// The state of the display.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    begun: Instant,
    last_line: Instant,
    total_ms: f64,
    done_ms: f64,
    total: usize,
    done: usize,
    what: String,
    shown: usize,
}

impl Progress {
    /// For `total` samples that are expected to take `total_ms` together.
    pub(crate) fn new(total: usize, total_ms: f64) -> Progress {
        let now = Instant::now();
        Progress {
            terminal: stderr().is_terminal(),
            begun: now,
            last_line: now,
            total_ms,
            done_ms: 0.0,
            total,
            done: 0,
            what: String::new(),
            shown: 0,
        }
    }

    /// Says what is being measured.
    pub(crate) fn begin(&mut self, what: String) {
        self.what = what;
        self.draw();
    }

    /// One more sample, or failure, of the given expected cost.
    pub(crate) fn advance(&mut self, ms: f64) {
        self.done += 1;
        self.done_ms += ms;
        self.draw();
    }

    /// Samples that are still to come.
    pub(crate) fn left_over(&self) -> usize {
        self.total - self.done
    }

    /// Time that is left, from the estimates and from how true they have been so far.
    fn left(&self) -> Duration {
        let spent = self.begun.elapsed().as_secs_f64();
        let left_ms = (self.total_ms - self.done_ms).max(0.0);
        // Early on there is little to correct the estimate with, so its weight falls as work is done.
        let trust = (self.done_ms / self.total_ms.max(1.0) * 5.0).min(1.0);
        let measured = if self.done_ms > 0.0 {
            spent * 1000.0 / self.done_ms
        } else {
            1.0
        };
        let pace = trust * measured + (1.0 - trust);
        Duration::from_secs_f64(left_ms * pace / 1000.0)
    }

    /// Draws the bar again, or prints a line when the last one is long past.
    pub(crate) fn draw(&mut self) {
        let left = duration(self.left());
        let Progress {
            done, total, what, ..
        } = &*self;
        if self.terminal {
            let filled = 24 * done / (*total).max(1);
            let bar = format!("{:#<filled$}{:.<rest$}", "", "", rest = 24 - filled);
            let mut text = format!("[{bar}] {done}/{total}  {left} left  {what}");
            text.truncate(text.char_indices().nth(79).map_or(text.len(), |(at, _)| at));
            let _ = write!(stderr(), "\r{text:<width$}\r", width = self.shown);
            let _ = stderr().flush();
            self.shown = text.chars().count();
        } else if self.last_line.elapsed() >= QUIET {
            let _ = writeln!(
                stderr(),
                "{done} of {total} samples, about {left} left; now {what}"
            );
            self.last_line = Instant::now();
        }
    }

    /// Prints a line for good, above the bar.
    pub(crate) fn note(&mut self, line: &str) {
        self.clear();
        let _ = writeln!(stderr(), "{line}");
        self.draw();
    }

    /// Takes the bar away.
    pub(crate) fn clear(&mut self) {
        if self.terminal && self.shown > 0 {
            let _ = write!(stderr(), "\r{:width$}\r", "", width = self.shown);
            let _ = stderr().flush();
            self.shown = 0;
        }
    }
}

/// A span of time as people say it.
pub(crate) fn duration(span: Duration) -> String {
    let seconds = span.as_secs_f64().round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time() {
        let text = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!(
            [text(7), text(67), text(3700)],
            ["7 s", "1 min 07 s", "1 h 01 min"]
        );
    }
}
