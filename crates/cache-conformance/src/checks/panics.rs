//! User code panics at its n-th call, for every n: the map stays right and usable, and nobody else waits.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use cache_api::{Cache, GetBatch, Iterate, SnapshotView, Update};

use crate::design::{Design, FullMap, SnapshotDesign};
use crate::keys::{HashPlan, PassThrough};
use crate::lab::{Event, Lab, LabKey, LabValue};
use crate::run::{ignore, threads};

/// The keys that are there before the operation: 0 to FILL - 1.
pub(crate) const FILL: u64 = 13;
/// The key that operations on a present key use.
pub(crate) const PRESENT: u64 = 5;
/// The key that operations on an absent key use; under constant hashes it collides with all others.
pub(crate) const ABSENT: u64 = 77;
/// More calls of one kind than any operation below makes, also where each write copies the map.
const MOST: usize = 10_000;

/// An operation: its name, what it does, and its entries afterwards, given those before.
pub(crate) struct Operation<M> {
    pub(crate) name: &'static str,
    blind: bool,
    pub(crate) run: fn(&M, &'static Lab, HashPlan),
    model: fn(&mut BTreeMap<u64, u64>),
}

pub(crate) fn operations<M: FullMap<LabKey, LabValue>>() -> Vec<Operation<M>> {
    fn op<M>(
        name: &'static str,
        run: fn(&M, &'static Lab, HashPlan),
        model: fn(&mut BTreeMap<u64, u64>),
    ) -> Operation<M> {
        let blind =
            name.starts_with("insert") || name == "remove" || name == "remove of an absent key";
        Operation {
            name,
            blind,
            run,
            model,
        }
    }
    fn touched(lab: &'static Lab, number: u64) -> LabValue {
        lab.touch(Event::Closure);
        lab.value(number)
    }
    vec![
        op("get", |m, l, p| ignore(m.get(&l.key(PRESENT, p))), |_| {}),
        op(
            "get_with",
            |m, l, p| ignore(m.get_with(&l.key(PRESENT, p), |_| l.touch(Event::Closure))),
            |_| {},
        ),
        op(
            "contains_key of an absent key",
            |m, l, p| ignore(m.contains_key(&l.key(ABSENT, p))),
            |_| {},
        ),
        op(
            "insert",
            |m, l, p| m.insert(l.key(PRESENT, p), l.value(1_000)),
            |s| {
                s.insert(PRESENT, 1_000);
            },
        ),
        op(
            "insert of a new key",
            |m, l, p| m.insert(l.key(ABSENT, p), l.value(1_000)),
            |s| {
                s.insert(ABSENT, 1_000);
            },
        ),
        op(
            "inserts that make it grow",
            |m, l, p| (100..140).for_each(|id| m.insert(l.key(id, p), l.value(id))),
            |s| s.extend((100..140).map(|id| (id, id))),
        ),
        op(
            "remove",
            |m, l, p| m.remove(&l.key(PRESENT, p)),
            |s| {
                s.remove(&PRESENT);
            },
        ),
        op(
            "remove of an absent key",
            |m, l, p| m.remove(&l.key(ABSENT, p)),
            |_| {},
        ),
        op(
            "takes of all",
            |m, l, p| (0..FILL).for_each(|id| ignore(m.take(&l.key(id, p)))),
            |s| s.retain(|id, _| *id >= FILL),
        ),
        op(
            "take",
            |m, l, p| ignore(m.take(&l.key(PRESENT, p))),
            |s| {
                s.remove(&PRESENT);
            },
        ),
        op(
            "swap",
            |m, l, p| ignore(m.swap(l.key(PRESENT, p), l.value(1_000))),
            |s| {
                s.insert(PRESENT, 1_000);
            },
        ),
        op(
            "swap of a new key",
            |m, l, p| ignore(m.swap(l.key(ABSENT, p), l.value(1_000))),
            |s| {
                s.insert(ABSENT, 1_000);
            },
        ),
        op(
            "upsert",
            |m, l, p| m.upsert(l.key(PRESENT, p), |_| touched(l, 1_000)),
            |s| {
                s.insert(PRESENT, 1_000);
            },
        ),
        op(
            "upsert of a new key",
            |m, l, p| m.upsert(l.key(ABSENT, p), |_| touched(l, 1_000)),
            |s| {
                s.insert(ABSENT, 1_000);
            },
        ),
        op(
            "get_or_insert_with",
            |m, l, p| ignore(m.get_or_insert_with(l.key(PRESENT, p), || touched(l, 1_000))),
            |_| {},
        ),
        op(
            "get_or_insert_with of a new key",
            |m, l, p| ignore(m.get_or_insert_with(l.key(ABSENT, p), || touched(l, 1_000))),
            |s| {
                s.insert(ABSENT, 1_000);
            },
        ),
        op(
            "remove_if",
            |m, l, p| {
                m.remove_if(&l.key(PRESENT, p), |_| {
                    l.touch(Event::Closure);
                    true
                });
            },
            |s| {
                s.remove(&PRESENT);
            },
        ),
        op(
            "get_batch",
            |m, l, p| {
                ignore(m.get_batch(&[
                    l.key(PRESENT, p),
                    l.key(ABSENT, p),
                    l.key(PRESENT, p),
                    l.key(1, p),
                ]))
            },
            |_| {},
        ),
        op(
            "get_batch_with",
            |m, l, p| {
                m.get_batch_with(&[l.key(1, p), l.key(ABSENT, p), l.key(2, p)], |_, _| {
                    l.touch(Event::Closure)
                })
            },
            |_| {},
        ),
        op(
            "bulk_load",
            |m, l, p| {
                m.bulk_load([3, 50, 4, 51, 3, 52].into_iter().map(|id| {
                    l.touch(Event::Closure);
                    (l.key(id, p), l.value(2_000 + id))
                }));
            },
            |s| s.extend([3, 50, 4, 51, 52].map(|id| (id, 2_000 + id))),
        ),
        op(
            "for_each",
            |m, l, _| m.for_each(|_, _| l.touch(Event::Closure)),
            |_| {},
        ),
        op("entries", |m, _, _| ignore(m.entries()), |_| {}),
        op(
            "retain",
            |m, l, _| {
                m.retain(|key, _| {
                    l.touch(Event::Closure);
                    key.id % 2 == 0
                });
            },
            |s| s.retain(|id, _| id % 2 == 0),
        ),
        op("clear", |m, _, _| m.clear(), BTreeMap::clear),
    ]
}

/// For every operation, kind of user code and n: its n-th call panics. Afterwards every entry is as before or as
/// after the operation, `len` counts them, other threads are served, all is dropped once.
pub fn at_every_call<D: Design>(plan: HashPlan, event: Event) {
    for operation in operations::<D::Map<LabKey, LabValue, PassThrough>>() {
        sweep::<D>(plan, event, &operation);
    }
}

fn sweep<D: Design>(
    plan: HashPlan,
    event: Event,
    operation: &Operation<D::Map<LabKey, LabValue, PassThrough>>,
) {
    let mut before = BTreeMap::new();
    before.extend((0..FILL).map(|id| (id, id)));
    let mut after = before.clone();
    (operation.model)(&mut after);
    for n in 1.. {
        let name = operation.name;
        let context = format!("{name}, panic in call {n} of {event:?}, {plan:?} hashes");
        assert!(n < MOST, "{context}: the operation does not end");
        let lab = Lab::open();
        let map = D::build::<LabKey, LabValue, _>(None, PassThrough);
        (0..FILL).for_each(|id| map.insert(lab.key(id, plan), lab.value(id)));
        // Waits for writes under way.
        map.len();

        if event == Event::Drop && D::DEFERRED_DROPS && !D::ASYNC_WRITES {
            // Deferred destructors may run on any thread of the process, in the midst of another test.
            lab.arm_here(event, n);
        } else {
            lab.arm(event, n);
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            (operation.run)(&map, lab, plan);
            if D::ASYNC_WRITES && operation.blind {
                // The write runs under the fuse, not some time after it was taken out.
                map.len();
            }
        }));
        let blown = lab.disarm();
        let elsewhere = event == Event::Drop || (D::ASYNC_WRITES && operation.blind);
        assert!(
            outcome.is_err() || !blown || elsewhere,
            "{context}: the caller does not see the panic"
        );
        if let Err(payload) = &outcome {
            assert!(
                blown,
                "{context}: an unplanned panic: {}",
                crate::message_of(payload.as_ref())
            );
        }
        drop(outcome);

        // From another thread: nothing is locked for ever, nothing is poisoned.
        let (before, after) = (&before, &after);
        threads(1, |_| {
            let mut present = 0;
            for id in 0..160 {
                let got = map.get(&lab.key(id, plan)).map(|value| value.number);
                present += usize::from(got.is_some());
                let (was, will) = (before.get(&id).copied(), after.get(&id).copied());
                if blown {
                    assert!(
                        got == was || got == will,
                        "{context}: k{id} holds {got:?}; before {was:?}, after {will:?}"
                    );
                } else {
                    assert_eq!(got, will, "{name} without a panic: k{id}");
                }
            }
            assert_eq!(map.len(), present, "{context}: len");
            assert_eq!(
                map.entries().len(),
                present,
                "{context}: number of entries visited"
            );
            for id in [PRESENT, ABSENT, 120] {
                map.insert(lab.key(id, plan), lab.value(7));
                assert_eq!(
                    map.get(&lab.key(id, plan)).map(|v| v.number),
                    Some(7),
                    "{context}: k{id} is unusable"
                );
                map.remove(&lab.key(id, plan));
                assert!(
                    !map.contains_key(&lab.key(id, plan)),
                    "{context}: k{id} is unusable"
                );
                assert_eq!(
                    map.get_or_insert_with(lab.key(id, plan), || lab.value(8))
                        .number,
                    8,
                    "{context}: k{id}"
                );
            }
        });
        let len = map.len();
        D::quiesce(&map);
        if event == Event::Drop {
            // A destructor that panics may cost what was to be dropped after it (as it does in `std`).
            lab.assert_no_double_drop();
        } else {
            lab.assert_living::<D>(len, len);
        }
        drop(map);
        if event == Event::Drop {
            lab.assert_no_double_drop();
        } else {
            lab.assert_living::<D>(0, 0);
        }
        if !blown {
            return;
        }
    }
}

/// A key's `Eq` and a value's `Clone` panic in snapshots and their reads: the view, the map and other views go on.
pub fn in_snapshots<D: SnapshotDesign>() {
    for plan in [HashPlan::Good, HashPlan::Constant] {
        for event in [Event::Hash, Event::Eq, Event::Clone, Event::Closure] {
            let lab = Lab::open();
            let map = D::build::<LabKey, LabValue, _>(None, PassThrough);
            (0..FILL).for_each(|id| map.insert(lab.key(id, plan), lab.value(id)));
            map.len();
            for n in 1..MOST {
                lab.arm(event, n);
                let over = AtomicBool::new(false);
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    let view = D::snapshot(&map);
                    drop(view.get(&lab.key(PRESENT, plan)));
                    view.get_with(&lab.key(1, plan), |_| lab.touch(Event::Closure));
                    drop(view.get_batch(&[lab.key(2, plan), lab.key(ABSENT, plan)]));
                    drop(
                        view.iter()
                            .map(|(key, value)| (key.clone(), value.clone()))
                            .collect::<Vec<_>>(),
                    );
                    over.store(true, Ordering::Relaxed);
                }));
                let blown = lab.disarm();
                assert_eq!(
                    outcome.is_err(),
                    blown,
                    "{event:?} {n}: the caller sees the panic"
                );
                let view = D::snapshot(&map);
                assert_eq!(
                    view.get(&lab.key(PRESENT, plan)).map(|value| value.number),
                    Some(PRESENT)
                );
                assert_eq!((view.len(), view.iter().count(), map.len()), (13, 13, 13));
                if over.into_inner() {
                    break;
                }
            }
            drop(map);
            lab.assert_living::<D>(0, 0);
        }
    }
}
