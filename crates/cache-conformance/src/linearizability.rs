//! Recorded histories of concurrent calls and the search for a linearization; runs no map itself.
//!
//! A history is *linearizable* (Herlihy and Wing, "Linearizability: a correctness condition for concurrent
//! objects", TOPLAS 1990) if its calls can be put in one order that respects real time (a call that returned
//! before another started comes first) and in which every answer is that of the sequential object.
//!
//! The search is that of Wing and Gong ("Testing and verifying concurrent objects", JPDC 1993) with the memory of
//! Lowe ("Testing for linearizability", 2017): a configuration (set of calls done, state) is visited once. Where
//! every call touches one key, keys are checked apart: linearizability is a local property (Herlihy and Wing,
//! theorem 1), and the search is exponential in what overlaps, so smaller histories pay greatly.

use std::collections::HashSet;
use std::fmt::{self, Debug, Write as _};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

/// The one clock that a history's stamps come from.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// A clock at 0.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The next stamp; no two calls return the same.
    pub fn now(&self) -> u64 {
        // One total order of all stamps in which a stamp taken after another (in real time) is greater. It costs a
        // shared cache line per call; `Instant` would cost a system-dependent and coarser tick.
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// One call of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<I, O> {
    /// The thread that called.
    pub thread: usize,
    /// When it called.
    pub start: u64,
    /// What it asked for.
    pub input: I,
    /// When it returned and with what; `None` where it never did (it panicked, or the recording ended first).
    /// Such a call may have taken effect at any moment after its start, or not at all.
    pub end: Option<(u64, O)>,
}

/// The calls of one thread, as they happen.
#[derive(Debug)]
pub struct Log<'a, I, O> {
    clock: &'a Clock,
    thread: usize,
    calls: Vec<Call<I, O>>,
}

impl<'a, I, O> Log<'a, I, O> {
    /// An empty log of thread number `thread`.
    #[must_use]
    pub fn new(clock: &'a Clock, thread: usize) -> Self {
        Self {
            clock,
            thread,
            calls: Vec::with_capacity(64),
        }
    }

    /// Records one call. If it panics, the log keeps it as pending.
    pub fn record(&mut self, input: I, call: impl FnOnce(&I) -> O) {
        let start = self.clock.now();
        self.calls.push(Call {
            thread: self.thread,
            start,
            input,
            end: None,
        });
        let this = self.calls.last_mut().expect("just pushed");
        let output = call(&this.input);
        this.end = Some((self.clock.now(), output));
    }

    /// The calls so far, to be completed where an answer is only known later.
    pub fn calls_mut(&mut self) -> &mut Vec<Call<I, O>> {
        &mut self.calls
    }

    /// The calls.
    #[must_use]
    pub fn into_calls(self) -> Vec<Call<I, O>> {
        self.calls
    }
}

/// A sequential object: what each call answers and does to the state.
pub trait Spec {
    /// The state between calls.
    type State: Clone + Eq + Hash + Debug;
    /// What a call asks.
    type Input: Debug;
    /// What it answers.
    type Output: Debug;

    /// The state before all calls.
    fn initial(&self) -> Self::State;

    /// The state after `input`, if `output` is a right answer in `state`; a pending call (`None`) may answer
    /// anything.
    fn step(
        &self,
        state: &Self::State,
        input: &Self::Input,
        output: Option<&Self::Output>,
    ) -> Option<Self::State>;
}

/// A history without a linearization.
#[derive(Clone, PartialEq, Eq)]
pub struct NotLinearizable {
    text: String,
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Debug for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for NotLinearizable {}

/// The end of the list of events, and "no such event".
const NONE: usize = usize::MAX;

/// An event (a call's start or its return) in the doubly linked list of those not yet linearized.
struct Event {
    call: usize,
    is_start: bool,
    before: usize,
    after: usize,
}

/// Searches a linearization of `calls` (in any order), starting from the spec's initial state.
///
/// # Errors
///
/// The history, readably, where there is none.
pub fn check<S: Spec>(
    spec: &S,
    calls: &[Call<S::Input, S::Output>],
) -> Result<(), NotLinearizable> {
    // Events in order of time; event 0 is the head of the list.
    let mut times: Vec<(u64, usize, bool)> = Vec::with_capacity(calls.len() * 2);
    for (index, call) in calls.iter().enumerate() {
        times.push((call.start, index, true));
        if let Some((end, _)) = call.end {
            times.push((end, index, false));
        }
    }
    // A return and a start with one stamp count as overlapping, which is the weaker demand.
    times.sort_unstable_by_key(|(time, _, is_start)| (*time, !*is_start));
    let mut events = vec![Event {
        call: NONE,
        is_start: true,
        before: NONE,
        after: NONE,
    }];
    let mut return_of = vec![NONE; calls.len()];
    for (_, call, is_start) in times {
        let this = events.len();
        events[this - 1].after = this;
        events.push(Event {
            call,
            is_start,
            before: this - 1,
            after: NONE,
        });
        if !is_start {
            return_of[call] = this;
        }
    }

    let mut left = calls.iter().filter(|call| call.end.is_some()).count();
    let mut done = vec![0_u64; calls.len().div_ceil(64)];
    let mut seen: HashSet<(Vec<u64>, S::State)> = HashSet::new();
    let mut state = spec.initial();
    // The choices made: the start event that was linearized, and the state before it.
    let mut path: Vec<(usize, S::State)> = Vec::new();
    let mut best: (Vec<usize>, S::State) = (Vec::new(), state.clone());
    let mut at = events[0].after;
    while left > 0 {
        if at != NONE && events[at].is_start {
            let call = events[at].call;
            let output = calls[call].end.as_ref().map(|(_, output)| output);
            let next = spec.step(&state, &calls[call].input, output);
            let fresh = next.filter(|next| {
                done[call / 64] |= 1 << (call % 64);
                let fresh = seen.insert((done.clone(), next.clone()));
                if !fresh {
                    done[call / 64] &= !(1 << (call % 64));
                }
                fresh
            });
            if let Some(next) = fresh {
                path.push((at, std::mem::replace(&mut state, next)));
                unlink(&mut events, at);
                if return_of[call] != NONE {
                    unlink(&mut events, return_of[call]);
                    left -= 1;
                }
                if path.len() > best.0.len() {
                    best = (
                        path.iter().map(|(event, _)| events[*event].call).collect(),
                        state.clone(),
                    );
                }
                at = events[0].after;
            } else {
                at = events[at].after;
            }
        } else {
            // A call that has returned is still not linearized, and nothing that started before fits: go back.
            let Some((event, before)) = path.pop() else {
                return Err(NotLinearizable {
                    text: describe(calls, &best.0, &best.1),
                });
            };
            let call = events[event].call;
            state = before;
            done[call / 64] &= !(1 << (call % 64));
            if return_of[call] != NONE {
                relink(&mut events, return_of[call]);
                left += 1;
            }
            relink(&mut events, event);
            at = events[event].after;
        }
    }
    Ok(())
}

fn unlink(events: &mut [Event], this: usize) {
    let (before, after) = (events[this].before, events[this].after);
    events[before].after = after;
    if after != NONE {
        events[after].before = before;
    }
}

/// The inverse of [`unlink`], in reverse order of the unlinking.
fn relink(events: &mut [Event], this: usize) {
    let (before, after) = (events[this].before, events[this].after);
    events[before].after = this;
    if after != NONE {
        events[after].before = this;
    }
}

fn describe<I: Debug, O: Debug, S: Debug>(
    calls: &[Call<I, O>],
    best: &[usize],
    state: &S,
) -> String {
    let mut text =
        String::from("this history has no linearization (stamps, thread, call -> answer):\n");
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_unstable_by_key(|index| calls[*index].start);
    for index in order {
        let call = &calls[index];
        let place = best.iter().position(|done| *done == index);
        let place = place.map_or_else(|| "   ?".to_owned(), |place| format!("{:>4}", place + 1));
        // Writing to a `String` cannot fail.
        let _ = match &call.end {
            Some((end, output)) => writeln!(
                text,
                "{place}. [{:>5} ..{end:>5}] t{} {:?} -> {output:?}",
                call.start, call.thread, call.input
            ),
            None => writeln!(
                text,
                "{place}. [{:>5} ..     ] t{} {:?} -> pending",
                call.start, call.thread, call.input
            ),
        };
    }
    let _ = write!(
        text,
        "the numbers are the longest order found; after it the state is {state:?}, and no call marked `?` that may \
         come next answers rightly"
    );
    text
}

/// A call that touches one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyCall {
    /// `get`, answering [`KeyAnswer::Value`].
    Get,
    /// `contains_key`, answering [`KeyAnswer::Flag`].
    Contains,
    /// `insert`, answering [`KeyAnswer::Done`].
    Insert(u64),
    /// `remove`, answering [`KeyAnswer::Done`].
    Remove,
    /// `swap`, answering [`KeyAnswer::Value`].
    Swap(u64),
    /// `take`, answering [`KeyAnswer::Value`].
    Take,
    /// `upsert` to this value, answering what its last closure run saw, as [`KeyAnswer::Value`].
    Upsert(u64),
    /// `get_or_insert_with` this value, answering [`KeyAnswer::Value`], always `Some`.
    GetOrInsert(u64),
    /// `remove_if` the value is odd, answering [`KeyAnswer::Flag`].
    RemoveIfOdd,
}

/// What a [`KeyCall`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyAnswer {
    /// Nothing.
    Done,
    /// A value or none.
    Value(Option<u64>),
    /// Yes or no.
    Flag(bool),
}

impl KeyCall {
    /// The state of the key afterwards, and the answer.
    #[must_use]
    pub fn apply(self, state: Option<u64>) -> (Option<u64>, KeyAnswer) {
        match self {
            KeyCall::Get => (state, KeyAnswer::Value(state)),
            KeyCall::Contains => (state, KeyAnswer::Flag(state.is_some())),
            KeyCall::Insert(value) => (Some(value), KeyAnswer::Done),
            KeyCall::Remove => (None, KeyAnswer::Done),
            KeyCall::Swap(value) | KeyCall::Upsert(value) => (Some(value), KeyAnswer::Value(state)),
            KeyCall::Take => (None, KeyAnswer::Value(state)),
            KeyCall::GetOrInsert(value) => {
                let now = Some(state.unwrap_or(value));
                (now, KeyAnswer::Value(now))
            }
            KeyCall::RemoveIfOdd => {
                let odd = state.is_some_and(|value| value % 2 == 1);
                (if odd { None } else { state }, KeyAnswer::Flag(odd))
            }
        }
    }
}

/// One key of a map, absent at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeySpec;

impl Spec for KeySpec {
    type State = Option<u64>;
    type Input = KeyCall;
    type Output = KeyAnswer;

    fn initial(&self) -> Option<u64> {
        None
    }

    fn step(
        &self,
        state: &Option<u64>,
        input: &KeyCall,
        output: Option<&KeyAnswer>,
    ) -> Option<Option<u64>> {
        let (next, answer) = input.apply(*state);
        output
            .is_none_or(|output| *output == answer)
            .then_some(next)
    }
}

/// How many keys the whole-map histories have.
pub const KEYS: usize = 4;

/// The content of a small map: the value of each of its keys.
pub type Content = [Option<u64>; KEYS];

/// A call of a whole-map history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MapCall {
    /// A call on key number `.0`.
    Key(usize, KeyCall),
    /// `clear`, answering [`MapAnswer::Done`].
    Clear,
    /// `len`, answering [`MapAnswer::Len`].
    Len,
    /// `get_batch` of these keys, answering [`MapAnswer::Batch`].
    Batch(Vec<usize>),
    /// `bulk_load`, answering [`MapAnswer::Done`].
    BulkLoad(Vec<(usize, u64)>),
    /// `snapshot`, `fork` or `entries`, answering [`MapAnswer::Content`].
    Content,
}

/// What a [`MapCall`] answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MapAnswer {
    /// Nothing.
    Done,
    /// The answer of one key.
    Key(KeyAnswer),
    /// The number of entries.
    Len(usize),
    /// One slot per key asked.
    Batch(Vec<Option<u64>>),
    /// The whole map.
    Content(Content),
}

/// A map of [`KEYS`] keys, empty at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapSpec;

impl Spec for MapSpec {
    type State = Content;
    type Input = MapCall;
    type Output = MapAnswer;

    fn initial(&self) -> Content {
        [None; KEYS]
    }

    fn step(
        &self,
        state: &Content,
        input: &MapCall,
        output: Option<&MapAnswer>,
    ) -> Option<Content> {
        let mut next = *state;
        let answer = match input {
            MapCall::Key(key, call) => {
                let (now, answer) = call.apply(state[*key]);
                next[*key] = now;
                MapAnswer::Key(answer)
            }
            MapCall::Clear => {
                next = [None; KEYS];
                MapAnswer::Done
            }
            MapCall::Len => MapAnswer::Len(state.iter().flatten().count()),
            MapCall::Batch(keys) => MapAnswer::Batch(keys.iter().map(|key| state[*key]).collect()),
            MapCall::BulkLoad(entries) => {
                for (key, value) in entries {
                    next[*key] = Some(*value);
                }
                MapAnswer::Done
            }
            MapCall::Content => MapAnswer::Content(*state),
        };
        output
            .is_none_or(|output| *output == answer)
            .then_some(next)
    }
}

/// Checks the calls of many keys, each key on its own.
///
/// # Errors
///
/// The history of the first key that has no linearization.
pub fn check_keys(calls: &[Call<(u64, KeyCall), KeyAnswer>]) -> Result<(), NotLinearizable> {
    let mut keys: Vec<u64> = calls.iter().map(|call| call.input.0).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let own: Vec<Call<KeyCall, KeyAnswer>> = calls
            .iter()
            .filter(|call| call.input.0 == key)
            .map(|call| Call {
                thread: call.thread,
                start: call.start,
                input: call.input.1,
                end: call.end,
            })
            .collect();
        check(&KeySpec, &own).map_err(|why| NotLinearizable {
            text: format!("key {key}: {why}"),
        })?;
    }
    Ok(())
}

/// Checks the calls of a whole map of [`KEYS`] keys.
///
/// # Errors
///
/// The history, where it has no linearization.
pub fn check_map(calls: &[Call<MapCall, MapAnswer>]) -> Result<(), NotLinearizable> {
    check(&MapSpec, calls)
}
