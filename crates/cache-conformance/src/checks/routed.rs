//! Partitions: every key has one, always the same, and all are used.

use cache_api::{Cache, DefaultHashBuilder, Iterate};

use crate::design::RoutedDesign;

/// Each key's partition is below their number and does not change while the map grows and empties; keys spread
/// evenly under a good hasher.
pub fn keys_have_one_partition<D: RoutedDesign>() {
    let map = D::build::<u64, u64, _>(None, DefaultHashBuilder::with_seed(9));
    let partitions = D::partitions(&map);
    assert!(partitions >= 1, "a map has at least one partition");
    let keys = (partitions * 64).min(1 << 16) as u64;
    let mut sizes = vec![0_usize; partitions];
    let first: Vec<usize> = (0..keys).map(|key| D::partition_of(&map, &key)).collect();
    for partition in &first {
        assert!(
            *partition < partitions,
            "partition {partition} of {partitions}"
        );
        sizes[*partition] += 1;
    }
    (0..keys.min(2_000)).for_each(|key| map.insert(key, key));
    assert_eq!(
        D::partitions(&map),
        partitions,
        "the number of partitions changes as the map grows"
    );
    assert!(
        (0..keys).all(|key| D::partition_of(&map, &key) == first[key as usize]),
        "a key's partition changes"
    );
    map.clear();
    assert!(
        (0..keys).all(|key| D::partition_of(&map, &key) == first[key as usize]),
        "a key's partition changes"
    );
    // Chi-square: mean `partitions - 1`, standard deviation sqrt(2 (partitions - 1)); six of them.
    let expected = keys as f64 / partitions as f64;
    let chi: f64 = sizes
        .iter()
        .map(|size| (*size as f64 - expected).powi(2) / expected)
        .sum();
    let freedom = (partitions - 1) as f64;
    assert!(
        chi <= freedom + 6.0 * (2.0 * freedom).sqrt(),
        "keys are spread unevenly: {sizes:?}"
    );
}
