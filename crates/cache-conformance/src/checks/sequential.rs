//! One thread against `std::collections::HashMap`: random operation sequences over all hash plans.

use std::collections::HashMap;

use cache_api::{Cache, Iterate};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::design::SequentialDesign;
use crate::keys::{HashPlan, PassThrough, PlanKey};
use crate::run::scaled;

/// One step of a random sequence.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Insert(u64, u64),
    Remove(u64),
    Get(u64),
    Upsert(u64, u64),
    GetOrInsert(u64, u64),
    Swap(u64, u64),
    Take(u64),
    RemoveIf(u64, u64),
    Batch(Vec<u64>),
    BulkLoad(Vec<(u64, u64)>),
    Retain(u64),
    Clear,
    Visit,
}

/// Keys 0 to 95: under the half-equal plans, some collide fully (64 apart), most only nearly.
pub(crate) fn steps(length: usize) -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..96_u64;
    let value = any::<u64>;
    let step = prop_oneof![
        8 => (key(), value()).prop_map(|(k, v)| Step::Insert(k, v)),
        5 => key().prop_map(Step::Remove),
        3 => key().prop_map(Step::Get),
        3 => (key(), value()).prop_map(|(k, v)| Step::Upsert(k, v)),
        3 => (key(), value()).prop_map(|(k, v)| Step::GetOrInsert(k, v)),
        3 => (key(), value()).prop_map(|(k, v)| Step::Swap(k, v)),
        3 => key().prop_map(Step::Take),
        2 => (key(), 0..3_u64).prop_map(|(k, m)| Step::RemoveIf(k, m)),
        1 => vec(key(), 0..40).prop_map(Step::Batch),
        1 => vec((key(), value()), 0..60).prop_map(Step::BulkLoad),
        1 => (0..4_u64).prop_map(Step::Retain),
        1 => Just(Step::Clear),
        1 => Just(Step::Visit),
    ];
    vec(step, 1..length)
}

/// Runs `test` on random inputs of `strategy`, shrinks what fails, and panics with the smallest failing input.
pub(crate) fn property<T, F>(cases: usize, strategy: &impl Strategy<Value = T>, test: F)
where
    T: std::fmt::Debug,
    F: Fn(T) -> Result<(), TestCaseError>,
{
    let cases = u32::try_from(scaled(cases)).unwrap_or(u32::MAX);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    // A fixed seed: a failure is the same in every run, and a larger scale goes on where a smaller one ends.
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    match runner.run(strategy, test) {
        Ok(()) => {}
        Err(TestError::Fail(why, input)) => panic!("{why}\nsmallest failing input: {input:?}"),
        Err(TestError::Abort(why)) => panic!("no inputs: {why}"),
    }
}

macro_rules! same {
    ($got:expr, $expected:expr, $($what:tt)+) => {
        // A `match` keeps temporaries of both sides alive until the comparison is over.
        match (&$got, &$expected) {
            (got, expected) => {
                if got != expected {
                    let what = format!($($what)+);
                    return Err(TestCaseError::fail(format!("{what}: got {got:?}, expected {expected:?}")));
                }
            }
        }
    };
}

/// A map and its model, advanced together.
pub(crate) fn apply<M>(
    map: &M,
    model: &mut HashMap<u64, u64>,
    step: &Step,
    plan: HashPlan,
) -> Result<(), TestCaseError>
where
    M: crate::design::FullMap<PlanKey, u64>,
{
    let key = |id: &u64| PlanKey::new(*id, plan);
    match step {
        Step::Insert(k, v) => {
            map.insert(key(k), *v);
            model.insert(*k, *v);
            same!(map.get(&key(k)), Some(*v), "get after insert");
        }
        Step::Remove(k) => {
            map.remove(&key(k));
            model.remove(k);
            same!(map.get(&key(k)), None, "get after remove");
        }
        Step::Get(k) => {
            let expected = model.get(k);
            same!(map.get(&key(k)).as_ref(), expected, "get");
            same!(
                map.get_with(&key(k), |v| v ^ 1),
                expected.map(|v| v ^ 1),
                "get_with"
            );
            same!(
                map.contains_key(&key(k)),
                expected.is_some(),
                "contains_key"
            );
        }
        Step::Upsert(k, v) => {
            let mut seen = None;
            map.upsert(key(k), |old| {
                seen = Some(old.copied());
                old.map_or(*v, |old| old.wrapping_mul(3) ^ v)
            });
            same!(
                seen,
                Some(model.get(k).copied()),
                "what upsert's closure saw"
            );
            let new = model.get(k).map_or(*v, |old| old.wrapping_mul(3) ^ v);
            model.insert(*k, new);
        }
        Step::GetOrInsert(k, v) => {
            let mut runs = 0;
            let got = map.get_or_insert_with(key(k), || {
                runs += 1;
                *v
            });
            same!(runs, usize::from(!model.contains_key(k)), "runs of init");
            same!(got, *model.entry(*k).or_insert(*v), "get_or_insert_with");
        }
        Step::Swap(k, v) => same!(map.swap(key(k), *v), model.insert(*k, *v), "swap"),
        Step::Take(k) => same!(map.take(&key(k)), model.remove(k), "take"),
        Step::RemoveIf(k, remainder) => {
            let condition = |v: &u64| v % 3 == *remainder;
            let expected = model.get(k).is_some_and(condition);
            same!(map.remove_if(&key(k), condition), expected, "remove_if");
            if expected {
                model.remove(k);
            }
        }
        Step::Batch(ids) => {
            let keys: Vec<PlanKey> = ids.iter().map(key).collect();
            let expected: Vec<Option<u64>> = ids.iter().map(|id| model.get(id).copied()).collect();
            same!(map.get_batch(&keys), expected, "get_batch");
            let mut calls = vec![0; keys.len()];
            let mut answers = vec![None; keys.len()];
            map.get_batch_with(&keys, |position, value| {
                calls[position] += 1;
                answers[position] = value.copied();
            });
            same!(answers, expected, "get_batch_with");
            same!(
                calls,
                vec![1; keys.len()],
                "calls per position of get_batch_with"
            );
        }
        Step::BulkLoad(pairs) => {
            map.bulk_load(pairs.iter().map(|(k, v)| (key(k), *v)));
            model.extend(pairs.iter().copied());
        }
        Step::Retain(remainder) => {
            let mut tested = Vec::new();
            map.retain(|k, v| {
                tested.push((k.id, *v));
                v % 4 != *remainder
            });
            tested.sort_unstable();
            same!(tested, sorted(model), "what retain tested");
            model.retain(|_, v| *v % 4 != *remainder);
        }
        Step::Clear => {
            map.clear();
            model.clear();
        }
        Step::Visit => {
            let mut keys: Vec<u64> = map.keys().iter().map(|key| key.id).collect();
            keys.sort_unstable();
            same!(
                keys,
                sorted(model).iter().map(|(k, _)| *k).collect::<Vec<_>>(),
                "keys"
            );
            let (mut values, mut expected) =
                (map.values(), model.values().copied().collect::<Vec<_>>());
            values.sort_unstable();
            expected.sort_unstable();
            same!(values, expected, "values");
        }
    }
    same!(map.len(), model.len(), "len after {step:?}");
    same!(map.is_empty(), model.is_empty(), "is_empty after {step:?}");
    Ok(())
}

pub(crate) fn sorted(model: &HashMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut entries: Vec<(u64, u64)> = model.iter().map(|(k, v)| (*k, *v)).collect();
    entries.sort_unstable();
    entries
}

pub(crate) fn sorted_entries<M: Iterate<PlanKey, u64>>(map: &M) -> Vec<(u64, u64)> {
    let mut entries: Vec<(u64, u64)> = map
        .entries()
        .iter()
        .map(|(key, value)| (key.id, *value))
        .collect();
    entries.sort_unstable();
    entries
}

/// Random sequences of every method under one hash plan answer as a `HashMap` does, and leave the same content.
pub fn model<D: SequentialDesign>(plan: HashPlan) {
    property(60, &steps(120), |steps| {
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let mut model = HashMap::new();
        for step in &steps {
            apply(&map, &mut model, step, plan)?;
            // Present and absent keys alike, after every step: a write that harms another key is found at once.
            for id in 0..96 {
                let got = map.get(&PlanKey::new(id, plan));
                same!(got.as_ref(), model.get(&id), "get of k{id} after {step:?}");
            }
            same!(
                sorted_entries(&map),
                sorted(&model),
                "content after {step:?}"
            );
        }
        Ok(())
    });
}
