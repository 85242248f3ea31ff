//! Runs a check under a watchdog and turns what goes wrong into a [`Failure`]; knows no map.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Why a check failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The check panicked: an assertion of the suite, or a panic of the design.
    Panicked(String),
    /// The check did not end in time.
    Hung(Duration),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Panicked(message) => f.write_str(message),
            Failure::Hung(limit) => {
                write!(f, "hung: no end after {limit:?} (a call waits for ever)")
            }
        }
    }
}

/// How long a check may take before it counts as hung: 60 s, or `CACHE_CONFORMANCE_WATCHDOG` seconds, times the
/// scale where that is above 1.
#[must_use]
pub fn watchdog_limit() -> Duration {
    let seconds = from_environment("CACHE_CONFORMANCE_WATCHDOG").unwrap_or(60.0);
    Duration::from_secs_f64(seconds * scale().max(1.0))
}

/// What the sizes of the tests are multiplied by: 1, or `CACHE_CONFORMANCE_SCALE`.
#[must_use]
pub fn scale() -> f64 {
    from_environment("CACHE_CONFORMANCE_SCALE").unwrap_or(1.0)
}

/// `n` times the scale, at least 1.
#[must_use]
pub fn scaled(n: usize) -> usize {
    ((n as f64 * scale()) as usize).max(1)
}

fn from_environment(name: &str) -> Option<f64> {
    let text = std::env::var(name).ok()?;
    let number = text
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number > 0.0);
    Some(number.unwrap_or_else(|| panic!("{name}={text}: expected a number above 0")))
}

/// Runs `check` on a thread of its own; a panic or a hang is a [`Failure`].
///
/// A hung check keeps its threads until the process ends.
pub fn attempt<F>(limit: Duration, check: F) -> Result<(), Failure>
where
    F: FnOnce() + Send + 'static,
{
    // Boxed here, as elsewhere in this file: every check of every design would compile the body again.
    attempt_boxed(limit, Box::new(check))
}

fn attempt_boxed(limit: Duration, check: Box<dyn FnOnce() + Send>) -> Result<(), Failure> {
    let (done, ended) = channel();
    let spawned = thread::Builder::new()
        .name("check".to_owned())
        .spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(check));
            // The receiver is gone only if the watchdog has already given this thread up.
            let _ = done.send(outcome.map_err(|payload| message_of(payload.as_ref())));
        });
    let worker = spawned.expect("the operating system refuses a thread");
    match ended.recv_timeout(limit) {
        Ok(outcome) => {
            // Joined, so that thread-local destructors are over when the next check starts.
            let _ = worker.join();
            outcome.map_err(Failure::Panicked)
        }
        Err(RecvTimeoutError::Timeout) => Err(Failure::Hung(limit)),
        Err(RecvTimeoutError::Disconnected) => {
            Err(Failure::Panicked("the check's thread died".to_owned()))
        }
    }
}

/// Runs `check` under the watchdog, for the `#[test]` functions that the macros generate.
///
/// # Panics
///
/// Where the check fails or hangs, with a message that names the design and the check.
pub fn run<F>(design: &str, check_name: &str, check: F)
where
    F: FnOnce() + Send + 'static,
{
    if let Err(failure) = attempt(watchdog_limit(), check) {
        panic!("design `{design}` fails `{check_name}`: {failure}");
    }
}

/// Runs `check` alone in a process of its own: the test binary again, with this one test. For what other tests of
/// the same process would disturb, such as its memory.
///
/// # Panics
///
/// Where that process fails, with its output.
#[doc(hidden)]
pub fn run_alone(module: &str, test: &str, check: impl FnOnce()) {
    const ALONE: &str = "CACHE_CONFORMANCE_ALONE";
    if std::env::var_os(ALONE).is_some() {
        check();
        return;
    }
    // Test names leave out the name of the crate, which is the first part of the module's path.
    let path = match module.split_once("::") {
        Some((_, inside)) => format!("{inside}::{test}"),
        None => test.to_owned(),
    };
    let binary = std::env::current_exe().expect("the test binary's own path");
    let output = std::process::Command::new(binary)
        .args([path.as_str(), "--exact", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("the test binary starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        text.contains("1 passed"),
        "no test `{path}` in the test binary: {text}"
    );
}

/// The text of a panic payload.
#[must_use]
pub fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else if let Some(planned) = payload.downcast_ref::<crate::lab::Planned>() {
        format!("{planned:?}")
    } else {
        "a panic without a text".to_owned()
    }
}

/// Runs `body(0)` to `body(n - 1)` on threads of their own, released together, and returns their results.
///
/// # Panics
///
/// With the payload of the first thread that panicked.
pub fn threads<R, F>(n: usize, body: F) -> Vec<R>
where
    R: Send,
    F: Fn(usize) -> R + Sync,
{
    let results: Vec<Mutex<Option<R>>> = (0..n).map(|_| Mutex::new(None)).collect();
    threads_boxed(n, &|index| {
        let result = body(index);
        *results[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(result);
    });
    let taken = results
        .into_iter()
        .map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    taken
        .map(|result| result.expect("each thread that did not panic has its result"))
        .collect()
}

fn threads_boxed(n: usize, body: &(dyn Fn(usize) + Sync)) {
    let barrier = Barrier::new(n);
    thread::scope(|scope| {
        let spawned: Vec<_> = (0..n)
            .map(|index| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    body(index);
                })
            })
            .collect();
        let outcomes: Vec<_> = spawned
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        if let Some(payload) = outcomes.into_iter().find_map(Result::err) {
            resume_unwind(payload);
        }
    });
}

/// Drops a result that does not matter, as an expression.
pub(crate) fn ignore<T>(_: T) {}

/// Counts a thread out when dropped, even by a panic, so that those who wait for the count end, too.
pub(crate) struct CountDown<'a>(pub(crate) &'a AtomicUsize);

impl Drop for CountDown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Sets its flag when dropped, even by a panic, so that those who wait for the flag end, too.
pub(crate) struct Raise<'a>(pub(crate) &'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A small unique number for each thread, never 0.
pub(crate) fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.try_with(|number| *number).unwrap_or(u64::MAX)
}
