//! Forks: both sides go on independently, from one moment.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use cache_api::{BulkLoad, Cache, Iterate, Update};

use crate::checks::sequential::{apply, property, same, sorted, sorted_entries};
use crate::design::ForkDesign;
use crate::keys::{HashPlan, PassThrough, PlanKey};
use crate::lab::{Lab, LabKey, LabValue};
use crate::rng::{Rng, set_jitter};
use crate::run::{Raise, scaled, threads};

/// Random sequences over a family of up to six maps, forked from each other at random points and dropped in any
/// order: each follows its own model.
pub fn model<D: ForkDesign>(plan: HashPlan) {
    property(40, 140, &|steps| {
        let mut rng = Rng::new(steps.len() as u64);
        let mut family = vec![(
            D::build::<PlanKey, u64, _>(None, PassThrough),
            HashMap::new(),
        )];
        for step in steps {
            let chosen = rng.below(family.len());
            let (map, model) = &mut family[chosen];
            apply(map, model, step, plan)?;
            match rng.below(8) {
                0 | 1 => {
                    let child = (D::fork(map), model.clone());
                    if family.len() == 6 {
                        family.swap_remove(rng.below(6));
                    }
                    family.push(child);
                }
                2 if family.len() > 1 => drop(family.swap_remove(rng.below(family.len()))),
                _ => {}
            }
            for (map, model) in &family {
                same!(
                    sorted_entries(map),
                    sorted(model),
                    "content of a relative after {step:?}"
                );
                same!(map.len(), model.len(), "len of a relative after {step:?}");
            }
        }
        Ok(())
    });
}

/// Forks taken amid writes are cuts: version n goes to a, then to b, so a fork has b <= a <= b + 1; and what is
/// written to a fork by its own threads stays there.
pub fn cut_of_two_keys<D: ForkDesign>() {
    let rounds = scaled(3_000) as u64;
    for plan in [HashPlan::Good, HashPlan::Constant] {
        let map = D::build::<PlanKey, u64, _>(None, PassThrough);
        let (a, b) = (PlanKey::new(1, plan), PlanKey::new(2, plan));
        map.insert(a.clone(), 0);
        map.insert(b.clone(), 0);
        let over = AtomicBool::new(false);
        threads(3, |thread| {
            set_jitter(thread as u64);
            if thread == 0 {
                let _over = Raise(&over);
                for n in 1..=rounds {
                    map.insert(a.clone(), n);
                    map.insert(b.clone(), n);
                }
                return;
            }
            let mark = PlanKey::new(10 + thread as u64, plan);
            while !over.load(Ordering::Acquire) {
                let fork = D::fork(&map);
                let (seen_a, seen_b) = (
                    fork.get(&a).expect("always there"),
                    fork.get(&b).expect("always there"),
                );
                assert!(
                    seen_b <= seen_a && seen_a <= seen_b + 1,
                    "a torn fork: a = {seen_a}, b = {seen_b}"
                );
                fork.insert(mark.clone(), 1);
                fork.upsert(a.clone(), |_| u64::MAX);
                assert_eq!((fork.len(), fork.get(&a)), (3, Some(u64::MAX)));
                assert!(
                    !map.contains_key(&mark),
                    "a write to a fork shows in the original"
                );
                assert!(
                    map.get(&a).is_some_and(|value| value <= rounds),
                    "a write to a fork shows in the original"
                );
                assert_eq!(
                    fork.get(&b),
                    Some(seen_b),
                    "a write to the original shows in a fork"
                );
            }
        });
        assert_eq!(map.get(&a), Some(rounds));
    }
}

/// Families of forks under four threads: everything is dropped once, whoever goes first.
pub fn each_is_dropped_once<D: ForkDesign>() {
    for plan in [HashPlan::Good, HashPlan::HalfHigh, HashPlan::Constant] {
        let lab = Lab::open();
        let map = D::build::<LabKey, LabValue, _>(None, PassThrough);
        (0..32).for_each(|id| map.insert(lab.key(id, plan), lab.value(id)));
        let children = threads(4, |thread| {
            set_jitter(thread as u64);
            let mut rng = Rng::new(thread as u64);
            let mut child = D::fork(&map);
            for _ in 0..scaled(300) {
                let id = rng.draw() % 40;
                let target = if rng.below(2) == 0 { &map } else { &child };
                match rng.below(7) {
                    0 | 1 => target.insert(lab.key(id, plan), lab.value(id)),
                    2 => target.remove(&lab.key(id, plan)),
                    3 => drop(target.swap(lab.key(id, plan), lab.value(id))),
                    4 => target.bulk_load((0..6).map(|n| (lab.key(n, plan), lab.value(n)))),
                    5 if rng.below(6) == 0 => target.clear(),
                    _ => {
                        child = if rng.below(3) == 0 {
                            D::fork(&child)
                        } else {
                            D::fork(&map)
                        }
                    }
                }
            }
            child
        });
        drop(map);
        for child in &children {
            assert_eq!(child.entries().len(), child.len());
            child.for_each(|key, value| assert_eq!(key.id, value.number));
        }
        lab.assert_no_double_drop();
        drop(children);
        lab.assert_living::<D>(0, 0);
    }
}
