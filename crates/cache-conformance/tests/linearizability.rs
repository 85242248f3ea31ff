//! The checker on histories that are known to be good and bad.

use cache_conformance::linearizability::{
    Call, Clock, Content, KeyAnswer, KeyCall, KeySpec, Log, MapAnswer, MapCall, MapSpec, Spec,
    check, check_keys,
};
use cache_conformance::rng::Rng;

/// A call of one key: thread, start, end (0: pending), input, answer.
type Row = (usize, u64, u64, KeyCall, KeyAnswer);

fn key_history(rows: &[Row]) -> Vec<Call<KeyCall, KeyAnswer>> {
    rows.iter()
        .map(|(thread, start, end, input, answer)| Call {
            thread: *thread,
            start: *start,
            input: *input,
            end: (*end > 0).then_some((*end, *answer)),
        })
        .collect()
}

fn map_history(rows: &[(usize, u64, u64, MapCall, MapAnswer)]) -> Vec<Call<MapCall, MapAnswer>> {
    rows.iter()
        .map(|(thread, start, end, input, answer)| Call {
            thread: *thread,
            start: *start,
            input: input.clone(),
            end: (*end > 0).then(|| (*end, answer.clone())),
        })
        .collect()
}

fn good(rows: &[Row]) {
    if let Err(why) = check(&KeySpec, &key_history(rows)) {
        panic!("a good history is refused: {why}");
    }
}

fn bad(rows: &[Row]) {
    assert!(
        check(&KeySpec, &key_history(rows)).is_err(),
        "a bad history is accepted: {rows:?}"
    );
}

fn good_map(rows: &[(usize, u64, u64, MapCall, MapAnswer)]) {
    if let Err(why) = check(&MapSpec, &map_history(rows)) {
        panic!("a good history is refused: {why}");
    }
}

fn bad_map(rows: &[(usize, u64, u64, MapCall, MapAnswer)]) {
    assert!(
        check(&MapSpec, &map_history(rows)).is_err(),
        "a bad history is accepted: {rows:?}"
    );
}

use KeyAnswer::{Done, Flag, Value};
use KeyCall::{Contains, Get, GetOrInsert, Insert, Remove, RemoveIfOdd, Swap, Take, Upsert};

#[test]
fn the_empty_history_is_good() {
    good(&[]);
    good_map(&[]);
}

#[test]
fn sequential_histories_follow_the_map() {
    good(&[
        (0, 1, 2, Insert(5), Done),
        (0, 3, 4, Get, Value(Some(5))),
        (0, 5, 6, Remove, Done),
        (0, 7, 8, Get, Value(None)),
    ]);
    bad(&[(0, 1, 2, Get, Value(Some(5)))]);
    bad(&[(0, 1, 2, Insert(5), Done), (0, 3, 4, Contains, Flag(false))]);
}

#[test]
fn stale_read_is_bad() {
    // The read starts after the second write returned.
    bad(&[
        (0, 1, 2, Insert(1), Done),
        (0, 3, 4, Insert(2), Done),
        (1, 5, 6, Get, Value(Some(1))),
    ]);
    // The same answers overlapping the second write are good.
    good(&[
        (0, 1, 2, Insert(1), Done),
        (0, 3, 6, Insert(2), Done),
        (1, 4, 5, Get, Value(Some(1))),
    ]);
    good(&[
        (0, 1, 2, Insert(1), Done),
        (0, 3, 6, Insert(2), Done),
        (1, 4, 5, Get, Value(Some(2))),
    ]);
}

#[test]
fn new_then_old_is_bad_even_while_the_write_is_open() {
    // Two reads one after the other inside one write: once seen, the new value stays.
    let write = (0, 3, 20, Insert(2), Done);
    let first = (0, 1, 2, Insert(1), Done);
    good(&[
        first,
        write,
        (1, 4, 5, Get, Value(Some(1))),
        (1, 6, 7, Get, Value(Some(2))),
    ]);
    bad(&[
        first,
        write,
        (1, 4, 5, Get, Value(Some(2))),
        (1, 6, 7, Get, Value(Some(1))),
    ]);
    // By two readers: the same.
    bad(&[
        first,
        write,
        (1, 4, 5, Get, Value(Some(2))),
        (2, 6, 7, Get, Value(Some(1))),
    ]);
    // Two readers that overlap may disagree.
    good(&[
        first,
        write,
        (1, 4, 7, Get, Value(Some(2))),
        (2, 5, 6, Get, Value(Some(1))),
    ]);
}

#[test]
fn lost_update_is_bad() {
    // Both upserts saw the same state.
    bad(&[
        (0, 1, 2, Insert(1), Done),
        (0, 3, 6, Upsert(2), Value(Some(1))),
        (1, 4, 5, Upsert(3), Value(Some(1))),
    ]);
    good(&[
        (0, 1, 2, Insert(1), Done),
        (0, 3, 6, Upsert(2), Value(Some(3))),
        (1, 4, 5, Upsert(3), Value(Some(1))),
    ]);
}

#[test]
fn swap_hands_out_each_value_once() {
    bad(&[
        (0, 1, 10, Swap(1), Value(None)),
        (1, 2, 9, Swap(2), Value(None)),
    ]);
    good(&[
        (0, 1, 10, Swap(1), Value(Some(2))),
        (1, 2, 9, Swap(2), Value(None)),
    ]);
    bad(&[
        (0, 1, 10, Swap(1), Value(Some(2))),
        (1, 2, 9, Swap(2), Value(Some(1))),
    ]);
}

#[test]
fn take_takes_once() {
    bad(&[
        (0, 1, 2, Insert(1), Done),
        (0, 3, 6, Take, Value(Some(1))),
        (1, 4, 5, Take, Value(Some(1))),
    ]);
    good(&[
        (0, 1, 2, Insert(1), Done),
        (0, 3, 6, Take, Value(Some(1))),
        (1, 4, 5, Take, Value(None)),
    ]);
}

#[test]
fn get_or_insert_agrees() {
    good(&[
        (0, 1, 6, GetOrInsert(1), Value(Some(2))),
        (1, 2, 5, GetOrInsert(2), Value(Some(2))),
    ]);
    bad(&[
        (0, 1, 6, GetOrInsert(1), Value(Some(1))),
        (1, 2, 5, GetOrInsert(2), Value(Some(2))),
    ]);
    // With a remove in between, both may win.
    good(&[
        (0, 1, 6, GetOrInsert(1), Value(Some(1))),
        (1, 2, 5, GetOrInsert(2), Value(Some(2))),
        (2, 3, 4, Remove, Done),
    ]);
}

#[test]
fn remove_if_removes_what_it_tested() {
    good(&[
        (0, 1, 2, Insert(3), Done),
        (0, 3, 4, RemoveIfOdd, Flag(true)),
        (0, 5, 6, Get, Value(None)),
    ]);
    bad(&[
        (0, 1, 2, Insert(4), Done),
        (0, 3, 4, RemoveIfOdd, Flag(true)),
    ]);
    // 3 was tested, 4 was removed.
    bad(&[
        (0, 1, 2, Insert(3), Done),
        (0, 3, 6, RemoveIfOdd, Flag(true)),
        (1, 4, 5, Swap(4), Value(Some(3))),
        (1, 7, 8, Get, Value(None)),
    ]);
}

#[test]
fn real_time_order_binds_across_threads() {
    // t1's write returned before t2's began; the last value must be t2's.
    bad(&[
        (1, 1, 2, Insert(1), Done),
        (2, 3, 4, Insert(2), Done),
        (3, 5, 6, Get, Value(Some(1))),
    ]);
    good(&[
        (1, 1, 4, Insert(1), Done),
        (2, 2, 3, Insert(2), Done),
        (3, 5, 6, Get, Value(Some(1))),
    ]);
}

#[test]
fn pending_calls_may_or_may_not_have_happened() {
    let pending = (0, 3, 0, Insert(2), Done);
    let first = (0, 1, 2, Insert(1), Done);
    good(&[first, pending, (1, 5, 6, Get, Value(Some(1)))]);
    good(&[first, pending, (1, 5, 6, Get, Value(Some(2)))]);
    good(&[
        first,
        pending,
        (1, 5, 6, Get, Value(Some(1))),
        (1, 7, 8, Get, Value(Some(2))),
    ]);
    bad(&[
        first,
        pending,
        (1, 5, 6, Get, Value(Some(2))),
        (1, 7, 8, Get, Value(Some(1))),
    ]);
    // It cannot have happened before it started.
    bad(&[(1, 1, 2, Get, Value(Some(2))), (0, 3, 0, Insert(2), Done)]);
    // And it happens at most once.
    bad(&[
        (0, 1, 0, Insert(2), Done),
        (1, 2, 3, Take, Value(Some(2))),
        (1, 4, 5, Take, Value(Some(2))),
    ]);
}

const NO: Content = [None; 4];

fn content(entries: &[(usize, u64)]) -> MapAnswer {
    let mut content = NO;
    for (key, value) in entries {
        content[*key] = Some(*value);
    }
    MapAnswer::Content(content)
}

fn put(key: usize, value: u64) -> MapCall {
    MapCall::Key(key, Insert(value))
}

fn done() -> MapAnswer {
    MapAnswer::Key(Done)
}

fn got(value: Option<u64>) -> MapAnswer {
    MapAnswer::Key(Value(value))
}

#[test]
fn one_clear_takes_effect_once() {
    // The insert starts after the clear returned and is gone.
    bad_map(&[
        (0, 1, 2, MapCall::Clear, MapAnswer::Done),
        (1, 3, 4, put(0, 1), done()),
        (1, 5, 6, MapCall::Key(0, Get), got(None)),
    ]);
    // While the clear is open, an insert may go, but not both of two if the second was seen to survive the first.
    good_map(&[
        (0, 1, 10, MapCall::Clear, MapAnswer::Done),
        (1, 3, 4, put(0, 1), done()),
        (1, 5, 6, MapCall::Key(0, Get), got(None)),
    ]);
    bad_map(&[
        (0, 1, 20, MapCall::Clear, MapAnswer::Done),
        (1, 2, 3, put(0, 1), done()),
        (1, 4, 5, MapCall::Key(0, Get), got(None)),
        (1, 6, 7, put(0, 2), done()),
        (1, 8, 9, MapCall::Key(0, Get), got(None)),
    ]);
}

#[test]
fn two_clears_can_explain_two_losses() {
    let lost_twice = [
        (1, 2, 3, put(0, 1), done()),
        (1, 4, 5, MapCall::Key(0, Get), got(None)),
        (1, 6, 7, put(0, 2), done()),
        (1, 8, 9, MapCall::Key(0, Get), got(None)),
    ];
    let clear = |thread| (thread, 1, 20, MapCall::Clear, MapAnswer::Done);
    let mut two = lost_twice.to_vec();
    two.extend([clear(0), clear(2)]);
    good_map(&two);
    // A half-done clear: of two entries written before, one is gone and the other is still there, for good.
    bad_map(&[
        (1, 1, 2, put(0, 1), done()),
        (1, 3, 4, put(1, 1), done()),
        (0, 5, 20, MapCall::Clear, MapAnswer::Done),
        (1, 6, 7, MapCall::Key(0, Get), got(None)),
        (1, 8, 9, MapCall::Key(1, Get), got(Some(1))),
    ]);
}

#[test]
fn len_belongs_to_one_moment() {
    // One entry at all times: a token moves from key 0 to key 1 by insert first, remove second.
    let moved = [
        (0, 1, 2, put(0, 1), done()),
        (0, 3, 4, put(1, 1), done()),
        (0, 5, 6, MapCall::Key(0, Remove), done()),
    ];
    for (len, fine) in [(0, false), (1, true), (2, true), (3, false)] {
        let mut rows = moved.to_vec();
        rows.push((1, 2, 7, MapCall::Len, MapAnswer::Len(len)));
        // The length is read while the token moves: it starts after the first insert's start.
        rows[3].1 = 2;
        let history = map_history(&rows);
        let outcome = check(&MapSpec, &history);
        // Stamps 2 and 2 overlap: before the first insert, 0 entries would be right.
        assert_eq!(outcome.is_ok(), fine || len == 0, "len {len}");
        rows[3].1 = 3;
        // Started strictly after the insert returned, 0 is wrong.
        assert_eq!(
            check(&MapSpec, &map_history(&rows)).is_ok(),
            fine,
            "len {len}, started later"
        );
    }
    bad_map(&[
        (0, 1, 2, put(0, 1), done()),
        (0, 3, 4, MapCall::Len, MapAnswer::Len(usize::MAX)),
    ]);
}

#[test]
fn snapshots_are_cuts() {
    let writes = [(0, 1, 2, put(0, 1), done()), (0, 3, 4, put(1, 1), done())];
    for (entries, fine) in [
        (vec![], true),
        (vec![(0, 1)], true),
        (vec![(0, 1), (1, 1)], true),
        (vec![(1, 1)], false),
        (vec![(0, 2)], false),
    ] {
        let mut rows = writes.to_vec();
        rows.push((1, 0, 9, MapCall::Content, content(&entries)));
        assert_eq!(
            check(&MapSpec, &map_history(&rows)).is_ok(),
            fine,
            "{entries:?}"
        );
    }
    // Two snapshots in real-time order must not run backwards.
    bad_map(&[
        (0, 1, 20, put(0, 1), done()),
        (1, 2, 3, MapCall::Content, content(&[(0, 1)])),
        (1, 4, 5, MapCall::Content, content(&[])),
    ]);
    // Two that overlap two writes must agree on which was first.
    bad_map(&[
        (0, 1, 20, put(0, 1), done()),
        (1, 1, 20, put(1, 1), done()),
        (2, 2, 3, MapCall::Content, content(&[(0, 1)])),
        (3, 2, 3, MapCall::Content, content(&[(1, 1)])),
    ]);
}

#[test]
fn batches_and_bulk_loads_are_one_moment() {
    let load = (
        0,
        1,
        20,
        MapCall::BulkLoad(vec![(0, 1), (1, 1), (1, 2)]),
        MapAnswer::Done,
    );
    let batch = |answers: [Option<u64>; 3]| {
        (
            1,
            2,
            3,
            MapCall::Batch(vec![1, 0, 1]),
            MapAnswer::Batch(answers.to_vec()),
        )
    };
    good_map(&[load.clone(), batch([None, None, None])]);
    good_map(&[load.clone(), batch([Some(2), Some(1), Some(2)])]);
    bad_map(&[load.clone(), batch([Some(1), Some(1), Some(1)])]);
    bad_map(&[load.clone(), batch([Some(2), None, Some(2)])]);
    bad_map(&[load, batch([Some(2), Some(1), None])]);
}

#[test]
fn keys_are_checked_apart_and_the_bad_one_is_named() {
    let call = |thread, start, end, key, input, answer| Call {
        thread,
        start,
        input: (key, input),
        end: Some((end, answer)),
    };
    let mut calls = vec![
        call(0, 1, 2, 7, Insert(1), Done),
        call(0, 3, 4, 8, Insert(2), Done),
        call(1, 5, 6, 7, Get, Value(Some(1))),
        call(1, 7, 8, 8, Get, Value(Some(2))),
    ];
    check_keys(&calls).expect("good");
    calls.push(call(1, 9, 10, 8, Get, Value(None)));
    let why = check_keys(&calls).expect_err("bad").to_string();
    assert!(
        why.starts_with("key 8:") && why.contains("Insert(2)") && !why.contains("Insert(1)"),
        "{why}"
    );
}

/// Random histories made from a known order: each call gets an interval around its point. They are good by
/// construction, long, and widely overlapping.
fn from_known_order(seed: u64, calls: usize, overlap: u64) -> Vec<Call<KeyCall, KeyAnswer>> {
    let mut rng = Rng::new(seed);
    let mut state = None;
    let mut history = Vec::new();
    for index in 0..calls as u64 {
        let value = index + 1;
        let input = [
            Get,
            Contains,
            Insert(value),
            Remove,
            Swap(value),
            Take,
            Upsert(value),
            GetOrInsert(value),
            RemoveIfOdd,
        ][rng.below(9)];
        let (next, answer) = input.apply(state);
        state = next;
        let point = 1_000 + index * 10;
        let start = point - rng.draw() % (overlap * 10);
        let end = point + rng.draw() % (overlap * 10);
        history.push(Call {
            thread: rng.below(8),
            start,
            input,
            end: Some((end, answer)),
        });
    }
    history
}

#[test]
fn histories_made_from_a_known_order_are_good() {
    for seed in 0..300 {
        let history = from_known_order(seed, 80, 1 + seed % 8);
        check(&KeySpec, &history).expect("good by construction");
    }
}

/// Brute force: every order that respects real time, for tiny histories.
fn brute<S: Spec>(
    spec: &S,
    calls: &[Call<S::Input, S::Output>],
    done: u32,
    state: &S::State,
) -> bool {
    let open = |index: usize| done & 1 << index == 0;
    if calls
        .iter()
        .enumerate()
        .all(|(index, call)| !open(index) || call.end.is_none())
    {
        return true;
    }
    (0..calls.len()).filter(|index| open(*index)).any(|index| {
        let first = calls.iter().enumerate().all(|(other, call)| {
            !open(other)
                || other == index
                || call
                    .end
                    .as_ref()
                    .is_none_or(|(end, _)| *end >= calls[index].start)
        });
        let output = calls[index].end.as_ref().map(|(_, output)| output);
        first
            && spec
                .step(state, &calls[index].input, output)
                .is_some_and(|next| brute(spec, calls, done | 1 << index, &next))
    })
}

#[test]
fn the_search_agrees_with_brute_force_on_small_random_histories() {
    let (mut fine, mut wrong) = (0, 0);
    for seed in 0..4_000 {
        let mut history = from_known_order(seed, 6, 1 + seed % 4);
        let mut rng = Rng::new(seed ^ 0xdead);
        // Spoil some answers and cut some calls short.
        for call in &mut history {
            match rng.below(5) {
                0 => {
                    if let Some((_, Value(value))) = &mut call.end {
                        *value = [None, Some(1), Some(2), Some(3)][rng.below(4)];
                    }
                }
                1 if rng.below(3) == 0 => call.end = None,
                _ => {}
            }
        }
        let expected = brute(&KeySpec, &history, 0, &None);
        let got = check(&KeySpec, &history);
        assert_eq!(got.is_ok(), expected, "seed {seed}: {history:?}");
        if expected { fine += 1 } else { wrong += 1 }
    }
    assert!(
        fine > 500 && wrong > 500,
        "{fine} good and {wrong} bad histories: the test tests little"
    );
}

#[test]
fn a_panicking_call_is_logged_as_pending() {
    let clock = Clock::new();
    let mut log: Log<'_, KeyCall, KeyAnswer> = Log::new(&clock, 0);
    log.record(Insert(1), |_| Done);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        log.record(Insert(2), |_| std::panic::resume_unwind(Box::new(())));
    }));
    assert!(outcome.is_err());
    let calls = log.into_calls();
    assert_eq!(calls.len(), 2);
    assert!(calls[0].end.is_some() && calls[1].end.is_none() && calls[0].start < calls[1].start);
}
