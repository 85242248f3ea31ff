//! The claims of the published texts on this subject, each with the quantities that our data has on it. A claim is in
//! the author's words, shortened; the bounds follow from those words. No figure of ours stands here.
//!
//! Where the study says "with 8 cores", our counterpart is the most threads that were measured on cores of their own.
//! What asks for more cores than a machine has is not testable there.

use super::data::{Data, Quantity, cell};
use super::judge::{Check, Unfit};

/// A claim and how it is tested.
pub(crate) struct Claim {
    /// Short, for the tests.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "only the tests ask for claims by name")
    )]
    pub(crate) id: &'static str,
    /// What the text says.
    pub(crate) words: &'static str,
    /// The text's file name.
    pub(crate) source: &'static str,
    /// What measures the data it takes; nothing where nothing can.
    pub(crate) command: &'static str,
    /// The quantities, and where they lie if the claim holds.
    pub(crate) checks: fn(&Data) -> Result<Vec<Check>, Unfit>,
}

const CACHES: &str = "in-memory-cache-readme.txt";
const LOCKS: &str = "go-sharded-locks.txt";
const SLICES: &str = "merge-slices-zeroing.txt";
const HTTP: &str = "syncmap-behind-http.txt";

const GRID: &str = "cargo xtask sweep --profile standard --phases A,B,C";
const PLACEMENT: &str = "cargo xtask sweep --profile standard --phases D";
const SIZES: &str = "cargo xtask sweep --profile standard --phases E";
const WIDTH: &str = "cargo xtask sweep --profile standard --only trie-width";
const BATCHES: &str = "cargo xtask sweep --profile standard --only batch";
const SHARDS: &str = "cargo xtask sweep --profile standard --only shard-count";
const TABLE: &str = "cargo xtask sweep --profile standard --only study-locks";
const CROWD: &str = "cargo xtask sweep --profile standard --only oversubscribe";
const ABLATION: &str = "cargo xtask sweep --profile standard --only ablation";
const ZEROING: &str = "cargo xtask sweep --profile standard --only zeroing";
const ALONE: &str = "cargo xtask sweep --profile standard --only sequential";

/// Within a quarter of each other: what the texts call parity, flat, or no difference.
const SAME: (f64, f64) = (0.8, 1.25);

type Checks = Result<Vec<Check>, Unfit>;

/// The most threads below `base` that have a core each.
fn most(data: &Data, base: &str) -> Result<usize, Unfit> {
    let threads = data.threads(&format!("{base}/"));
    let cores = data.cores().unwrap_or(usize::MAX);
    let own = threads.iter().rev().find(|&&threads| threads <= cores);
    own.or(threads.first())
        .copied()
        .ok_or_else(|| Unfit::NoData(format!("{base}/…")))
}

/// As [`most`], where the claim is about several threads.
fn several(data: &Data, base: &str) -> Result<usize, Unfit> {
    match most(data, base)? {
        1 => Err(Unfit::NotHere("one thread alone was measured".to_owned())),
        threads => Ok(threads),
    }
}

/// Refuses machines with fewer cores than a claim speaks of.
fn cores(data: &Data, base: &str, least: usize) -> Result<usize, Unfit> {
    let threads = most(data, base)?;
    if threads < least {
        let cores = data.cores().unwrap_or(threads);
        return Err(Unfit::NotHere(format!(
            "it takes {least} threads on cores of their own, and the machine has {cores} cores"
        )));
    }
    Ok(threads)
}

/// A cell of the core grid.
fn grid(design: &str, dist: &str, mix: &str, threads: usize) -> String {
    cell(
        format!("Cache/impl={design}/dist={dist}/mix={mix}"),
        threads,
    )
}

/// Two cells of the core grid that differ in the design, uniform keys.
fn uniform(over: &str, under: &str, mix: &str, threads: usize) -> Quantity {
    Quantity::ratio(
        grid(over, "uniform", mix, threads),
        grid(under, "uniform", mix, threads),
    )
}

/// One design's time with many threads over that with one, uniform keys: below 1 is a gain.
fn slowdown(design: &str, mix: &str, threads: usize) -> Quantity {
    Quantity::ratio(
        grid(design, "uniform", mix, threads),
        grid(design, "uniform", mix, 1),
    )
}

/// One design's zipf time over its uniform one.
fn skewed(design: &str, mix: &str, threads: usize) -> Quantity {
    Quantity::ratio(
        grid(design, "zipf", mix, threads),
        grid(design, "uniform", mix, threads),
    )
}

/// What a design's attacked cell takes over its control.
fn attacked(design: &str, attack: &str, mix: &str, threads: usize) -> Quantity {
    let of = |attack: &str| {
        cell(
            format!("Adversarial/impl={design}/attack={attack}/mix={mix}"),
            threads,
        )
    };
    Quantity::ratio(of(attack), of("none"))
}

/// A check per attack that the data has on a design.
fn flat_under_attack(data: &Data, design: &str, most_slower: f64) -> Checks {
    let threads = most(data, "Adversarial")?;
    let path = format!("Adversarial/impl={design}/");
    let attacks = data.values(&path, "/attack");
    let checks: Vec<Check> = attacks
        .into_iter()
        .filter(|attack| *attack != "none")
        .map(|attack| {
            Check::below(
                format!("{design} under {attack}"),
                attacked(design, attack, "r10", threads),
                most_slower,
            )
        })
        .collect();
    if checks.is_empty() {
        return Err(Unfit::NoData(path));
    }
    Ok(checks)
}

fn sized(design: &str, size: usize, mix: &str, threads: usize) -> String {
    cell(
        format!("ValueSize/impl={design}/size={size}/mix={mix}"),
        threads,
    )
}

/// The slowest of some designs over the fastest at one value size.
fn spread(data: &Data, designs: &[&str], size: usize, mix: &str) -> Result<Quantity, Unfit> {
    let threads = most(data, "ValueSize")?;
    let cells: Vec<String> = designs
        .iter()
        .map(|design| sized(design, size, mix, threads))
        .collect();
    extremes(data, cells)
}

/// The slowest of some cells over the fastest, by their medians.
fn extremes(data: &Data, mut cells: Vec<String>) -> Result<Quantity, Unfit> {
    for cell in &cells {
        if data.sample(cell, "ns/op").is_none() {
            return Err(Unfit::NoData(cell.clone()));
        }
    }
    cells.sort_by(|a, b| time(data, a).total_cmp(&time(data, b)));
    let (fastest, slowest) = (cells.first(), cells.last());
    let (Some(fastest), Some(slowest)) = (fastest, slowest) else {
        return Err(Unfit::NoData("any cell".to_owned()));
    };
    Ok(Quantity::ratio(slowest.clone(), fastest.clone()))
}

/// A cell's median time; infinite where there is none.
fn time(data: &Data, cell: &str) -> f64 {
    data.sample(cell, "ns/op").map_or(f64::INFINITY, |sample| {
        bench_compare::stats::median::median(sample.sorted())
    })
}

fn batch(design: &str, mode: &str, size: usize, threads: usize) -> String {
    cell(
        format!("Batch/impl={design}/mode={mode}/size={size}"),
        threads,
    )
}

/// The number of callers of the batch cells: the study has one.
fn callers(data: &Data) -> Result<usize, Unfit> {
    data.threads("Batch/")
        .first()
        .copied()
        .ok_or_else(|| Unfit::NoData("Batch/…".to_owned()))
}

/// The smallest and the largest batch that was measured for a design and mode.
fn batch_ends(data: &Data, design: &str, mode: &str) -> Result<(usize, usize), Unfit> {
    let path = format!("Batch/impl={design}/mode={mode}/");
    let sizes = data.values(&path, "/size");
    let sizes: Vec<usize> = sizes
        .into_iter()
        .filter_map(|size| size.parse().ok())
        .collect();
    match (sizes.iter().min(), sizes.iter().max()) {
        (Some(&least), Some(&most)) if least < most => Ok((least, most)),
        _ => Err(Unfit::NoData(path)),
    }
}

fn width(width: usize, mix: &str, threads: usize) -> String {
    cell(
        format!("TrieWidth/impl=hamt/width={width}/mix={mix}"),
        threads,
    )
}

fn shards(design: &str, shards: usize, mix: &str, threads: usize) -> String {
    cell(
        format!("ShardCount/impl={design}/shards={shards}/mix={mix}"),
        threads,
    )
}

fn table(design: &str, reads: u32, threads: usize) -> String {
    cell(format!("StudyLocks/impl={design}/reads={reads}"), threads)
}

/// The threads of the table of lock designs that stand for the study's eight.
fn table_threads(data: &Data) -> Result<usize, Unfit> {
    several(data, "StudyLocks")
}

fn crowd(design: &str, mix: &str, threads: usize) -> String {
    cell(format!("Oversubscribe/impl={design}/mix={mix}"), threads)
}

/// One decision of sharded taken back, over the design that ships: `without` over `with`, a check for each mix.
fn ablation(
    data: &Data,
    what: &str,
    with: &str,
    without: &str,
    mixes: &[&str],
    least: f64,
) -> Checks {
    let threads = most(data, "Ablation")?;
    let of = |variant: &str, mix: &str| {
        cell(
            format!("Ablation/impl=sharded/what={what}/variant={variant}/mix={mix}"),
            threads,
        )
    };
    let check = |mix: &&str| {
        let quantity = Quantity::ratio(of(without, mix), of(with, mix));
        Check::above(format!("{mix}, {what} {without} / {with}"), quantity, least)
    };
    Ok(mixes.iter().map(check).collect())
}

/// Designs that the study has too, without the copying one.
const WITHOUT_COW: [&str; 7] = [
    "mutex", "rwlock", "sharded", "hamt", "hamt256", "ctrie", "actor",
];
/// What takes a lock to read.
const LOCKED: [&str; 4] = ["mutex", "rwlock", "sharded", "sharded-rw"];

/// All claims, by text and in the order of each text.
pub(crate) const CLAIMS: &[Claim] = &[
    Claim {
        id: "cow-reads",
        words: "cow owns read-only: one atomic load, then a plain lookup",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            let check = |design: &&str| {
                let quantity = uniform("cow", design, "r100", threads);
                Check::below(format!("r100, cow / {design}"), quantity, 1.0)
            };
            Ok(WITHOUT_COW.iter().map(check).collect())
        },
    },
    Claim {
        id: "cow-writes",
        words: "every write of cow copies the map (82 ms at a million keys): unusable beside a sharded write",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            let quantity = uniform("cow", "sharded", "r10", threads);
            Ok(vec![Check::above("r10, cow / sharded", quantity, 1000.0)])
        },
    },
    Claim {
        id: "hamt-against-cow-writes",
        words: "a persistent trie takes five orders of magnitude off cow's writes (14 ms to 172 ns at r90)",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            // Five orders of magnitude, rounded: more than 10^4.5.
            let quantity = uniform("cow", "hamt", "r90", threads);
            Ok(vec![Check::above(
                "r90, cow / hamt",
                quantity,
                10_f64.powf(4.5),
            )])
        },
    },
    Claim {
        id: "hamt-reads-concede",
        words: "pure reads of the trie concede a bit under 2x to cow",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            let quantity = uniform("hamt", "cow", "r100", threads);
            Ok(vec![Check::within("r100, hamt / cow", quantity, 1.0, 2.0)])
        },
    },
    Claim {
        id: "hamt-reads-parity",
        words: "pure uniform reads of the trie land at parity with sharded",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            let quantity = uniform("hamt", "sharded", "r100", threads);
            Ok(vec![Check::within(
                "r100, hamt / sharded",
                quantity,
                SAME.0,
                SAME.1,
            )])
        },
    },
    Claim {
        id: "hamt-zipf-reads",
        words: "under zipf the read-only trie (15 ns) beats sharded (22 ns): hot paths in cache, no lock to bounce",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let quantity = Quantity::ratio(
                grid("hamt", "zipf", "r100", threads),
                grid("sharded", "zipf", "r100", threads),
            );
            Ok(vec![Check::below(
                "zipf r100, hamt / sharded",
                quantity,
                1.0,
            )])
        },
    },
    Claim {
        id: "hamt-loses-writes",
        words: "under write pressure the single root loses to sharded by 6 to 40x",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let check = |mix: &str| {
                let quantity = uniform("hamt", "sharded", mix, threads);
                Check::within(format!("{mix}, hamt / sharded"), quantity, 6.0, 40.0)
            };
            Ok(["r50", "r10"].map(check).to_vec())
        },
    },
    Claim {
        id: "hamt-retries-are-garbage",
        words: "lost races make garbage: a trie's write burns 2.0 KB alone, about 7 KB with 8 cores",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let quantity = slowdown("hamt", "r10", threads).in_unit("B/op");
            let label = format!("r10, bytes with {threads} threads / with 1");
            Ok(vec![Check::above(label, quantity, 1.1)])
        },
    },
    Claim {
        id: "hamt-negative-scaling",
        words: "negative scaling with zero locks: the trie writes fewer per second with 8 cores than with one",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let label = format!("r10, time with {threads} threads / with 1");
            Ok(vec![Check::above(
                label,
                slowdown("hamt", "r10", threads),
                1.0,
            )])
        },
    },
    Claim {
        id: "width-reads",
        words: "reads reward a wide trie, weakly: 32-way costs 4 % over 64-way, 8-way 33 %",
        source: CACHES,
        command: WIDTH,
        checks: |data| {
            let threads = most(data, "TrieWidth")?;
            let of = |narrow, wide| {
                Quantity::ratio(width(narrow, "r100", threads), width(wide, "r100", threads))
            };
            Ok(vec![
                Check::above("r100, width 8 / 64", of(8, 64), 1.0),
                // No step towards width costs more than noise.
                Check::above("8 / 16", of(8, 16), 0.97),
                Check::above("16 / 32", of(16, 32), 0.97),
                Check::above("32 / 64", of(32, 64), 0.97),
            ])
        },
    },
    Claim {
        id: "width-writes",
        words: "writes reward a narrow trie: the curve bottoms out at 16 to 32, and 8-way is too deep again",
        source: CACHES,
        command: WIDTH,
        checks: |data| {
            let threads = most(data, "TrieWidth")?;
            let of = |at| width(at, "r10", threads);
            let best = if time(data, &of(16)) < time(data, &of(32)) {
                16
            } else {
                32
            };
            let check = |other| {
                let quantity = Quantity::ratio(of(best), of(other));
                Check::below(format!("r10, width {best} / {other}"), quantity, 1.0)
            };
            Ok([8, 64].map(check).to_vec())
        },
    },
    Claim {
        id: "width-32-writes",
        words: "32-way takes 16 to 24 % off every write mix of 64-way",
        source: CACHES,
        command: WIDTH,
        checks: |data| {
            let threads = most(data, "TrieWidth")?;
            let check = |mix: &str| {
                let quantity = Quantity::ratio(width(32, mix, threads), width(64, mix, threads));
                Check::below(format!("{mix}, width 32 / 64"), quantity, 1.0)
            };
            Ok(["r90", "r50", "r10"].map(check).to_vec())
        },
    },
    Claim {
        id: "width-32-garbage",
        words: "32-way takes 27 % off the garbage of 64-way",
        source: CACHES,
        command: WIDTH,
        checks: |data| {
            let threads = most(data, "TrieWidth")?;
            let quantity = Quantity::ratio(width(32, "r10", threads), width(64, "r10", threads))
                .in_unit("B/op");
            Ok(vec![Check::below(
                "r10, bytes, width 32 / 64",
                quantity,
                0.9,
            )])
        },
    },
    Claim {
        id: "hamt256-writes",
        words: "256 roots improve the trie's writes 2.6 to 6x",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let check = |mix: &str| {
                let quantity = uniform("hamt", "hamt256", mix, threads);
                Check::above(format!("{mix}, hamt / hamt256"), quantity, 1.5)
            };
            Ok(["r50", "r10"].map(check).to_vec())
        },
    },
    Claim {
        id: "hamt256-zipf-reads",
        words: "under zipf, read-only hamt256 (14 ns) is faster than every lock-based design",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let check = |design: &&str| {
                let quantity = Quantity::ratio(
                    grid("hamt256", "zipf", "r100", threads),
                    grid(design, "zipf", "r100", threads),
                );
                Check::below(format!("zipf r100, hamt256 / {design}"), quantity, 1.0)
            };
            Ok(LOCKED.iter().map(check).collect())
        },
    },
    Claim {
        id: "price-of-persistence",
        words: "what remains is the price of persistence: hamt256 stays 2 to 7x behind sharded where it writes",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let check = |mix: &str| {
                let quantity = uniform("hamt256", "sharded", mix, threads);
                Check::within(format!("{mix}, hamt256 / sharded"), quantity, 2.0, 7.0)
            };
            Ok(["r50", "r10"].map(check).to_vec())
        },
    },
    Claim {
        id: "writes-in-place",
        words: "a locked write mutates the table in place: 0 bytes; a persistent one allocates its path every time",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            let of =
                |design: &str, unit| Quantity::of(grid(design, "uniform", "r10", threads), unit);
            Ok(vec![
                Check::below("r10, sharded", of("sharded", "B/op"), 1.5),
                Check::above("hamt256", of("hamt256", "allocs/op"), 0.9),
            ])
        },
    },
    Claim {
        id: "garbage-ladder",
        words: "garbage per write, rung by rung: cow > hamt (6,900 B) > hamt256 (841 B) > ctrie (324 B) > sharded (0)",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            let check = |(over, under): (&str, &str)| {
                let quantity = uniform(over, under, "r10", threads).in_unit("B/op");
                Check::above(format!("r10, bytes, {over} / {under}"), quantity, 1.0)
            };
            let ladder = ["cow", "hamt", "hamt256", "ctrie", "sharded"];
            Ok(ladder
                .windows(2)
                .map(|rungs| check((rungs[0], rungs[1])))
                .collect())
        },
    },
    Claim {
        id: "ctrie-scales",
        words: "write-heavy, hamt is flat (serialized) while hamt256 and ctrie genuinely scale",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let label = |design: &str| format!("r10, {design} with {threads} threads / with 1");
            Ok(vec![
                Check::above(label("hamt"), slowdown("hamt", "r10", threads), 0.9),
                Check::below(label("hamt256"), slowdown("hamt256", "r10", threads), 0.9),
                Check::below(label("ctrie"), slowdown("ctrie", "r10", threads), 0.9),
            ])
        },
    },
    Claim {
        id: "ctrie-near-sharded",
        words: "at 16 and more cores, ctrie's writes sit within 4 to 5x of sharded",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = cores(data, "Cache", 16)?;
            let quantity = uniform("ctrie", "sharded", "r10", threads);
            Ok(vec![Check::below("r10, ctrie / sharded", quantity, 5.0)])
        },
    },
    Claim {
        id: "sharded-under-attack",
        words: "a working set in one shard ruins sharded: a convoy on that lock, 7.0x slower (reads as well)",
        source: CACHES,
        command: PLACEMENT,
        checks: |data| {
            let threads = several(data, "Adversarial")?;
            let check = |mix: &str| {
                let quantity = attacked("sharded", "sharded-1", mix, threads);
                Check::above(format!("{mix}, attacked / spread"), quantity, 1.25)
            };
            Ok(["r100", "r10"].map(check).to_vec())
        },
    },
    Claim {
        id: "routers-are-blind",
        words: "each fixed router is blind to the other's attack: sharded shrugs at hamt256's, hamt256 at sharded's",
        source: CACHES,
        command: PLACEMENT,
        checks: |data| {
            let threads = several(data, "Adversarial")?;
            let check = |(design, attack): (&str, &str)| {
                let quantity = attacked(design, attack, "r10", threads);
                Check::below(format!("r10, {design} under {attack}"), quantity, SAME.1)
            };
            Ok([("sharded", "hamt256-1"), ("hamt256", "sharded-1")]
                .map(check)
                .to_vec())
        },
    },
    Claim {
        id: "ctrie-is-flat",
        words: "ctrie has no routing layer to attack: its worst case is 1.13x",
        source: CACHES,
        command: PLACEMENT,
        checks: |data| flat_under_attack(data, "ctrie", 1.13),
    },
    Claim {
        id: "mutex-is-flat",
        words: "mutex is placement-general the degenerate way: serialized already, nothing to concentrate",
        source: CACHES,
        command: PLACEMENT,
        checks: |data| flat_under_attack(data, "mutex", SAME.1),
    },
    Claim {
        id: "hamt-is-flat",
        words: "hamt is placement-general in the same way",
        source: CACHES,
        command: PLACEMENT,
        checks: |data| flat_under_attack(data, "hamt", SAME.1),
    },
    Claim {
        id: "attack-crossover",
        words: "under attack ctrie passes sharded at about 16 threads and is 4x ahead at 32",
        source: CACHES,
        command: PLACEMENT,
        checks: |data| {
            let threads = cores(data, "Adversarial", 16)?;
            let of = |design: &str| {
                cell(
                    format!("Adversarial/impl={design}/attack=sharded-1/mix=r10"),
                    threads,
                )
            };
            let quantity = Quantity::ratio(of("ctrie"), of("sharded"));
            Ok(vec![Check::below(
                "r10, attacked, ctrie / sharded",
                quantity,
                1.0,
            )])
        },
    },
    Claim {
        id: "convoy-worsens",
        words: "the convoy on the hot shard worsens with threads: 5x over its own baseline at 8, 20x at 32",
        source: CACHES,
        command: PLACEMENT,
        checks: |data| {
            let threads = cores(data, "Adversarial", 16)?;
            let few = data
                .threads("Adversarial/impl=sharded/")
                .into_iter()
                .find(|&few| few > 1);
            let few = few.filter(|&few| few < threads).unwrap_or(1);
            let quantity = attacked("sharded", "sharded-1", "r10", threads).over(attacked(
                "sharded",
                "sharded-1",
                "r10",
                few,
            ));
            let label = format!("r10, slowdown with {threads} threads / with {few}");
            Ok(vec![Check::above(label, quantity, 1.0)])
        },
    },
    Claim {
        id: "large-values-drown-reads",
        words: "at 4 KB every competent design converges onto the memory wall: reads within 18 % but for mutex",
        source: CACHES,
        command: SIZES,
        checks: |data| {
            let designs = ["sharded", "cow", "hamt", "hamt256", "ctrie"];
            let large = spread(data, &designs, 4096, "r100")?;
            let small = spread(data, &designs, 16, "r100")?;
            Ok(vec![
                Check::below("r100, slowest / fastest at 4,096 B", large, SAME.1),
                Check::above("at 16 B", small, SAME.1),
            ])
        },
    },
    Claim {
        id: "large-values-drown-writes",
        words: "at 4 KB writing compresses a 19x spread to about 1.6x (hamt and cow apart)",
        source: CACHES,
        command: SIZES,
        checks: |data| {
            let designs = ["mutex", "rwlock", "sharded", "hamt256", "ctrie"];
            let large = spread(data, &designs, 4096, "r10")?;
            let small = spread(data, &designs, 16, "r10")?;
            Ok(vec![
                Check::below("r10, slowest / fastest at 4,096 B", large.clone(), 2.0),
                Check::above("spread at 16 B / at 4,096 B", small.over(large), 1.0),
            ])
        },
    },
    Claim {
        id: "hamt-stays-out",
        words: "hamt stays out of that: its node churn is independent of the value's size",
        source: CACHES,
        command: SIZES,
        checks: |data| {
            let threads = most(data, "ValueSize")?;
            let quantity = Quantity::ratio(
                sized("hamt", 4096, "r10", threads),
                sized("sharded", 4096, "r10", threads),
            );
            Ok(vec![Check::above(
                "r10 at 4,096 B, hamt / sharded",
                quantity,
                1.5,
            )])
        },
    },
    Claim {
        id: "actor-single-operations",
        words: "messages instead of locks: single operations of actor are slower than sharded's, reads above all",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            let check = |mix: &str| {
                let quantity = uniform("actor", "sharded", mix, threads);
                Check::above(format!("{mix}, actor / sharded"), quantity, 1.0)
            };
            let reads = uniform("actor", "sharded", "r100", threads)
                .over(uniform("actor", "sharded", "r10", threads));
            let mut checks = ["r100", "r50", "r10"].map(check).to_vec();
            checks.push(Check::above("that of r100 / that of r10", reads, 1.0));
            Ok(checks)
        },
    },
    Claim {
        id: "actor-hot-writes",
        words: "actor closes the gap only where asynchrony helps: skewed writes, absorbed by the queue",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let gap = |dist: &str| {
                Quantity::ratio(
                    grid("actor", dist, "r10", threads),
                    grid("sharded", dist, "r10", threads),
                )
            };
            let quantity = gap("zipf").over(gap("uniform"));
            Ok(vec![Check::below(
                "r10, actor / sharded, zipf / uniform",
                quantity,
                1.0,
            )])
        },
    },
    Claim {
        id: "actor-allocates-nothing",
        words: "actor's steady state is 0 allocations per operation: reply channels are pooled",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            let check = |mix: &str| {
                let quantity = Quantity::of(grid("actor", "uniform", mix, threads), "allocs/op");
                Check::below(mix, quantity, 0.02)
            };
            Ok(["r100", "r10"].map(check).to_vec())
        },
    },
    Claim {
        id: "batch-serial",
        words: "serial batching buys about 20 % over a loop of single reads: one lock per shard, its keys together",
        source: CACHES,
        command: BATCHES,
        checks: |data| {
            let callers = callers(data)?;
            let quantity = Quantity::ratio(
                batch("sharded", "serial", 4096, callers),
                batch("sharded", "loop", 4096, callers),
            );
            Ok(vec![Check::below(
                "4,096 keys, serial / loop",
                quantity,
                1.0,
            )])
        },
    },
    Claim {
        id: "batch-serial-is-flat",
        words: "the serial columns are flat: the cost per key does not depend on the size of the batch",
        source: CACHES,
        command: BATCHES,
        checks: |data| {
            let (callers, (least, most)) = (callers(data)?, batch_ends(data, "sharded", "serial")?);
            let of = |size| batch("sharded", "serial", size, callers);
            let quantity = Quantity::ratio(of(most), of(least));
            let label = format!("serial, {most} keys / {least}");
            Ok(vec![Check::within(label, quantity, SAME.0, SAME.1)])
        },
    },
    Claim {
        id: "batch-parallel-amortises",
        words: "parallel batches pay a toll up front: it crushes tiny batches and vanishes at scale (3x the serial one)",
        source: CACHES,
        command: BATCHES,
        checks: |data| {
            let (callers, (least, most)) =
                (callers(data)?, batch_ends(data, "sharded", "parallel")?);
            let of = |size| {
                Quantity::ratio(
                    batch("sharded", "parallel", size, callers),
                    batch("sharded", "serial", size, callers),
                )
            };
            Ok(vec![
                Check::above(format!("{least} keys, parallel / serial"), of(least), 1.0),
                Check::below(format!("{most} keys"), of(most), 1.0),
            ])
        },
    },
    Claim {
        id: "actor-batch-curve",
        words: "actor's batch is a curve of amortisation: wake-ups crush small batches and vanish in large ones",
        source: CACHES,
        command: BATCHES,
        checks: |data| {
            let (callers, (least, most)) = (callers(data)?, batch_ends(data, "actor", "actor")?);
            let of = |size| batch("actor", "actor", size, callers);
            let quantity = Quantity::ratio(of(least), of(most));
            Ok(vec![Check::above(
                format!("per key, {least} keys / {most}"),
                quantity,
                2.0,
            )])
        },
    },
    Claim {
        id: "actor-batch-catches-up",
        words: "at the top the mutex design's parallel batch and actor's converge to the same cost per key",
        source: CACHES,
        command: BATCHES,
        checks: |data| {
            let (callers, (_, most)) = (callers(data)?, batch_ends(data, "actor", "actor")?);
            let quantity = Quantity::ratio(
                batch("actor", "actor", most, callers),
                batch("sharded", "parallel", most, callers),
            );
            let label = format!("{most} keys, actor / sharded in parallel");
            Ok(vec![Check::within(label, quantity, SAME.0, SAME.1)])
        },
    },
    Claim {
        id: "hamt256-batch-is-overhead",
        words: "grouping hamt256's batch by shard is pure overhead over a loop: there is no lock to amortise",
        source: CACHES,
        command: BATCHES,
        checks: |data| {
            // Our batch asks the memory ahead as well, which the study's does not.
            let callers = callers(data)?;
            let quantity = Quantity::ratio(
                batch("hamt256", "prefetch", 4096, callers),
                batch("hamt256", "loop", 4096, callers),
            );
            Ok(vec![Check::above(
                "4,096 keys, its own batch / loop",
                quantity,
                1.0,
            )])
        },
    },
    Claim {
        id: "ctrie-batch-is-free",
        words: "ctrie's batch from one snapshot costs the same per key as the plain loop",
        source: CACHES,
        command: BATCHES,
        checks: |data| {
            let callers = callers(data)?;
            let quantity = Quantity::ratio(
                batch("ctrie", "serial", 4096, callers),
                batch("ctrie", "loop", 4096, callers),
            );
            Ok(vec![Check::within(
                "4,096 keys, one snapshot and its reads / loop",
                quantity,
                SAME.0,
                SAME.1,
            )])
        },
    },
    Claim {
        id: "ctrie-snapshots",
        words: "Snapshot() of ctrie is an O(1) freeze of the entire map",
        source: CACHES,
        command: BATCHES,
        checks: |data| {
            let (callers, (least, most)) = (callers(data)?, batch_ends(data, "ctrie", "snapshot")?);
            let of = |size| batch("ctrie", "snapshot", size, callers);
            // A freeze that copied the map would cost each key of the small batch thousands of lookups.
            let quantity = Quantity::ratio(of(least), of(most));
            let label = format!("per key, snapshot and {least} keys / and {most}");
            Ok(vec![Check::below(label, quantity, 50.0)])
        },
    },
    Claim {
        id: "mutex-negative-scaling",
        words: "mutex is flat to declining: more cores, less throughput",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let label = format!("r50, time with {threads} threads / with 1");
            Ok(vec![Check::above(
                label,
                slowdown("mutex", "r50", threads),
                1.0,
            )])
        },
    },
    Claim {
        id: "rwlock-plateau",
        words: "rwmutex plateaus at about 2x its speed with one core: the wall of the readers' counter",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = cores(data, "Cache", 4)?;
            let label = format!("r100, time with {threads} threads / with 1");
            Ok(vec![Check::above(
                label,
                slowdown("rwlock", "r100", threads),
                0.4,
            )])
        },
    },
    Claim {
        id: "sharded-scales",
        words: "sharded scales with the cores: 6.9x on eight of them",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            // 6.9 of 8 is 86 % of the ideal; three quarters still count.
            let most = 1.0 / (0.75 * threads as f64);
            let label = format!("r50, time with {threads} threads / with 1");
            Ok(vec![Check::below(
                label,
                slowdown("sharded", "r50", threads),
                most,
            )])
        },
    },
    Claim {
        id: "zipf-reads-faster",
        words: "skew is not worse: reads get faster almost everywhere, hot keys stay in the caches",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            let check = |design: &str| {
                let quantity = skewed(design, "r100", threads);
                Check::below(format!("r100, {design}, zipf / uniform"), quantity, 1.0)
            };
            Ok(["sharded", "cow", "hamt", "hamt256", "ctrie"]
                .map(check)
                .to_vec())
        },
    },
    Claim {
        id: "zipf-hurts-sharded",
        words: "under skew sharded's balanced mix gets slower (0.82x the throughput): hot keys collide on a few shards",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            Ok(vec![Check::above(
                "r50, sharded, zipf / uniform",
                skewed("sharded", "r50", threads),
                1.0,
            )])
        },
    },
    Claim {
        id: "zipf-hurts-scaling",
        words: "skew takes from what sharded gains by threads: the rest of the shards sit idle",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = several(data, "Cache")?;
            let gain = |dist: &str| {
                Quantity::ratio(
                    grid("sharded", dist, "r50", threads),
                    grid("sharded", dist, "r50", 1),
                )
            };
            let quantity = gain("zipf").over(gain("uniform"));
            let label = format!("r50, {threads} threads / 1, zipf / uniform");
            Ok(vec![Check::above(label, quantity, 1.0)])
        },
    },
    Claim {
        id: "cow-does-not-care",
        words: "cow's balanced mix is flat under skew (1.03x): it copies everything whatever the key",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let threads = most(data, "Cache")?;
            Ok(vec![Check::within(
                "r50, cow, zipf / uniform",
                skewed("cow", "r50", threads),
                0.9,
                1.1,
            )])
        },
    },
    Claim {
        id: "shards-knee",
        words: "one lock to 256 shards is a 9x jump, then it flattens (4096: +18 %): 256 sits in the knee",
        source: CACHES,
        command: SHARDS,
        checks: |data| {
            let threads = several(data, "ShardCount")?;
            let of = |few, many| {
                Quantity::ratio(
                    shards("sharded", few, "r50", threads),
                    shards("sharded", many, "r50", threads),
                )
            };
            Ok(vec![
                Check::above("r50, 1 shard / 256", of(1, 256), 1.25),
                Check::above(
                    "that / (256 shards / 4,096)",
                    of(1, 256).over(of(256, 4096)),
                    1.0,
                ),
                Check::below("256 shards / 4,096", of(256, 4096), 1.25),
            ])
        },
    },
    Claim {
        id: "geomean-sharded",
        words: "over the whole grid, sharded takes 58 % off mutex",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let quantity = whole_grid(data, "sharded", "mutex")?;
            Ok(vec![Check::below(
                "geometric mean, sharded / mutex",
                quantity,
                0.75,
            )])
        },
    },
    Claim {
        id: "geomean-rwlock",
        words: "over the whole grid, rwmutex is no better than mutex (+6 %)",
        source: CACHES,
        command: GRID,
        checks: |data| {
            let quantity = whole_grid(data, "rwlock", "mutex")?;
            Ok(vec![Check::above(
                "geometric mean, rwlock / mutex",
                quantity,
                1.0,
            )])
        },
    },
    Claim {
        id: "sync-map-geomean",
        words: "over the whole grid, sync.Map takes 15 % off mutex",
        source: CACHES,
        command: "",
        checks: |_| not_here("sync.Map is part of Go's library and is not built here"),
    },
    Claim {
        id: "http-converges",
        words: "behind HTTP and JSON the designs converge: the request dwarfs the lock",
        source: CACHES,
        command: "",
        checks: |_| not_here("there is no HTTP service in this workspace to measure"),
    },
    Claim {
        id: "mutex-second-core",
        words: "the mutex gets slower with the second core alone (173 to 293 ns): the lock begins to bounce",
        source: LOCKS,
        command: TABLE,
        checks: |data| {
            let quantity =
                Quantity::ratio(table("mutex", 50, second(data)?), table("mutex", 50, 1));
            Ok(vec![Check::above("50 %, 2 threads / 1", quantity, 1.0)])
        },
    },
    Claim {
        id: "sharded-halves",
        words: "with the second core the sharded design halves its time as it should",
        source: LOCKS,
        command: TABLE,
        checks: |data| {
            let quantity =
                Quantity::ratio(table("sharded", 50, second(data)?), table("sharded", 50, 1));
            Ok(vec![Check::below("50 %, 2 threads / 1", quantity, 0.6)])
        },
    },
    Claim {
        id: "sharded-saturates",
        words: "sharded reaches 4.6x with 8 goroutines on 8 cores: then memory is the limit and not the locks",
        source: LOCKS,
        command: TABLE,
        checks: |data| {
            let threads = cores(data, "StudyLocks", 8)?;
            let quantity = Quantity::ratio(table("sharded", 50, threads), table("sharded", 50, 1));
            Ok(vec![Check::within(
                format!("50 %, {threads} threads / 1"),
                quantity,
                0.15,
                0.35,
            )])
        },
    },
    Claim {
        id: "one-thread-no-choice",
        words: "with one goroutine the choice does not matter: all sixteen cells lie between 137 and 213 ns",
        source: LOCKS,
        command: TABLE,
        checks: |data| {
            let cells = LOCKED
                .iter()
                .flat_map(|design| [100, 90, 50, 10].map(|reads| table(design, reads, 1)));
            let quantity = extremes(data, cells.collect())?;
            // 213 over 137 is 1.55.
            Ok(vec![Check::below(
                "slowest / fastest of 16",
                quantity,
                1.55,
            )])
        },
    },
    Claim {
        id: "mutex-alone-is-fine",
        words: "with one goroutine a single mutex is as fast as anything else",
        source: LOCKS,
        command: TABLE,
        checks: |_| {
            let mut checks = Vec::new();
            for other in ["rwlock", "sharded", "sharded-rw"] {
                let quantity = Quantity::ratio(table("mutex", 50, 1), table(other, 50, 1));
                checks.push(Check::below(
                    format!("50 %, 1 thread, mutex / {other}"),
                    quantity,
                    1.1,
                ));
            }
            Ok(checks)
        },
    },
    Claim {
        id: "sharded-wins",
        words: "from two goroutines on the sharded mutex is the fastest wherever there are writes",
        source: LOCKS,
        command: TABLE,
        checks: |data| {
            let threads = table_threads(data)?;
            let mut checks = Vec::new();
            for reads in [90, 50, 10] {
                for other in ["mutex", "rwlock", "sharded-rw"] {
                    let quantity = Quantity::ratio(
                        table("sharded", reads, threads),
                        table(other, reads, threads),
                    );
                    checks.push(Check::below(
                        format!("{reads} %, sharded / {other}"),
                        quantity,
                        1.0,
                    ));
                }
            }
            Ok(checks)
        },
    },
    Claim {
        id: "sharded-rw-reads",
        words: "sharded with read-write locks is the fastest of all when there are no writes",
        source: LOCKS,
        command: TABLE,
        checks: |data| {
            let threads = table_threads(data)?;
            let check = |other: &str| {
                let quantity = Quantity::ratio(
                    table("sharded-rw", 100, threads),
                    table(other, 100, threads),
                );
                Check::below(format!("100 %, sharded-rw / {other}"), quantity, 1.0)
            };
            Ok(["mutex", "rwlock", "sharded"].map(check).to_vec())
        },
    },
    Claim {
        id: "rwlock-beats-mutex",
        words: "in Go the single read-write lock beats the mutex under contention with every mix",
        source: LOCKS,
        command: TABLE,
        checks: |data| {
            let threads = table_threads(data)?;
            let check = |reads: u32| {
                let quantity = Quantity::ratio(
                    table("rwlock", reads, threads),
                    table("mutex", reads, threads),
                );
                Check::below(format!("{reads} %, rwlock / mutex"), quantity, 1.0)
            };
            Ok([100, 90, 50, 10].map(check).to_vec())
        },
    },
    Claim {
        id: "rwlock-loses-with-writes",
        words: "(the Zig post, told there) the read-write lock loses to the mutex as soon as there are writes",
        source: LOCKS,
        command: TABLE,
        checks: |data| {
            let threads = table_threads(data)?;
            let check = |reads: u32| {
                let quantity = Quantity::ratio(
                    table("rwlock", reads, threads),
                    table("mutex", reads, threads),
                );
                Check::above(format!("{reads} %, rwlock / mutex"), quantity, 1.0)
            };
            Ok([90, 50, 10].map(check).to_vec())
        },
    },
    Claim {
        id: "mutex-ignores-mixes",
        words: "a held lock makes reads and writes cost the same: the read ratio makes no difference to the mutex",
        source: LOCKS,
        command: TABLE,
        checks: |data| {
            let threads = table_threads(data)?;
            let cells = [100, 90, 50, 10].map(|reads| table("mutex", reads, threads));
            let quantity = extremes(data, cells.to_vec())?;
            Ok(vec![Check::below(
                "mutex, slowest / fastest mix",
                quantity,
                1.1,
            )])
        },
    },
    Claim {
        id: "shards-64-to-256",
        words: "64 to 256 shards give another 27 %, and 1024 are almost the same as 256",
        source: LOCKS,
        command: SHARDS,
        checks: |data| {
            let threads = several(data, "ShardCount")?;
            let of = |few, many| {
                Quantity::ratio(
                    shards("sharded", few, "r50", threads),
                    shards("sharded", many, "r50", threads),
                )
            };
            Ok(vec![
                Check::above("r50, 64 shards / 256", of(64, 256), 1.0),
                Check::within("256 / 1,024", of(256, 1024), 0.9, 1.1),
            ])
        },
    },
    Claim {
        id: "crowd-mutex",
        words: "the mutex drifts up by a quarter from 8 to 1024 goroutines: the queue of the parked gets longer",
        source: LOCKS,
        command: CROWD,
        checks: |data| {
            crowded(data, "mutex", 8, 1024, |label, quantity| {
                Check::above(label, quantity, 1.0)
            })
        },
    },
    Claim {
        id: "crowd-rwlock",
        words: "the read-write lock is flat to 64 goroutines and climbs by 40 % and more with 1024",
        source: LOCKS,
        command: CROWD,
        checks: |data| {
            crowded(data, "rwlock", 64, 1024, |label, quantity| {
                Check::above(label, quantity, 1.1)
            })
        },
    },
    Claim {
        id: "crowd-sharded",
        words: "sharded is not affected by more goroutines than cores: 36 to 40 ns from 8 to 1024",
        source: LOCKS,
        command: CROWD,
        checks: |data| {
            crowded(data, "sharded", 8, 1024, |label, quantity| {
                Check::within(label, quantity, SAME.0, SAME.1)
            })
        },
    },
    Claim {
        id: "lock-hides-in-noise",
        words: "an uncontended Lock and Unlock costs so little that it hides in the noise of a million-entry lookup",
        source: LOCKS,
        command: ALONE,
        checks: |_| {
            let of = |design: &str| format!("Sequential/impl={design}/dist=uniform/mix=r100");
            let quantity = Quantity::ratio(of("mutex"), of("naive"));
            Ok(vec![Check::below("r100, mutex / naive", quantity, 1.1)])
        },
    },
    Claim {
        id: "padding",
        words: "without padding neighbours share a line: padding is worth about 10 %",
        source: LOCKS,
        command: ABLATION,
        checks: |data| ablation(data, "padding", "on", "off", &["r10"], 1.0),
    },
    Claim {
        id: "early-unlock",
        words: "unlocking by hand instead of at the end of the scope makes reads about 5 % faster",
        source: LOCKS,
        command: ABLATION,
        checks: |data| ablation(data, "unlock", "early", "scope", &["r100"], 1.0),
    },
    Claim {
        id: "correlated-bits",
        words: "shard and slot from the same bits of the same hash: three times slower than it should have been",
        source: LOCKS,
        command: ABLATION,
        // Bits that choose the bucket leave each table with few of its own.
        checks: |data| ablation(data, "bits", "apart", "bucket", &["r100", "r10"], 1.25),
    },
    Claim {
        id: "zeroing-costs",
        words: "merging 10, 20 and 50 kB into zeroed memory takes 20 % longer (20,018 against 16,722 ns)",
        source: SLICES,
        command: ZEROING,
        checks: |data| {
            zeroing(data, "alone", |label, quantity| {
                Check::above(label, quantity, 1.05)
            })
        },
    },
    Claim {
        id: "zeroing-in-context",
        words: "(the author's doubt) in a real workload with other allocations the cost of zeroing is not significant",
        source: SLICES,
        command: ZEROING,
        checks: |data| {
            zeroing(data, "insert", |label, quantity| {
                Check::within(label, quantity, 0.95, 1.05)
            })
        },
    },
    Claim {
        id: "shards-double-reads",
        words: "64 read-write-locked shards double the lookups of one read-write lock (21.0 against 10.6 million/s)",
        source: HTTP,
        command: TABLE,
        checks: |data| {
            let threads = table_threads(data)?;
            let quantity = Quantity::ratio(
                table("rwlock", 100, threads),
                table("sharded-rw", 100, threads),
            );
            Ok(vec![Check::above(
                "100 %, rwlock / sharded-rw",
                quantity,
                1.5,
            )])
        },
    },
    Claim {
        id: "sync-map-reads",
        words: "sync.Map reads 2.8x faster than one read-write lock",
        source: HTTP,
        command: "",
        checks: |_| not_here("sync.Map is part of Go's library and is not built here"),
    },
    Claim {
        id: "http-hides-it",
        words: "behind an HTTP endpoint that 2.8x is gone: all implementations serve 15,000 to 16,000 requests/s",
        source: HTTP,
        command: "",
        checks: |_| not_here("there is no HTTP service in this workspace to measure"),
    },
];

/// Why a claim cannot be tested, wherever it is tried.
fn not_here(why: &str) -> Checks {
    Err(Unfit::NotHere(why.to_owned()))
}

/// Two threads of the table of lock designs, on two cores.
fn second(data: &Data) -> Result<usize, Unfit> {
    table_threads(data)?;
    Ok(2)
}

/// All cells of the core grid that two designs have in common, as one ratio.
fn whole_grid(data: &Data, over: &str, under: &str) -> Result<Quantity, Unfit> {
    let path = format!("Cache/impl={over}/");
    let pairs: Vec<Quantity> = data
        .names()
        .filter(|name| name.starts_with(&path))
        .map(|name| {
            (
                name,
                name.replacen(&path, &format!("Cache/impl={under}/"), 1),
            )
        })
        .filter(|(_, other)| data.sample(other, "ns/op").is_some())
        .map(|(name, other)| Quantity::ratio(name, other))
        .collect();
    if pairs.is_empty() {
        return Err(Unfit::NoData(path));
    }
    Ok(Quantity::mean(pairs))
}

/// A design with more threads than cores, over itself with fewer. The study's mix is balanced; ours is the nearest.
fn crowded(
    data: &Data,
    design: &str,
    few: usize,
    many: usize,
    check: fn(String, Quantity) -> Check,
) -> Checks {
    let path = format!("Oversubscribe/impl={design}/");
    let mixes = data.values(&path, "/mix");
    let Some(mix) = ["r50", "r90", "r10"]
        .into_iter()
        .find(|mix| mixes.contains(mix))
    else {
        return Err(Unfit::NoData(path));
    };
    let quantity = Quantity::ratio(crowd(design, mix, many), crowd(design, mix, few));
    Ok(vec![check(
        format!("{mix}, {many} threads / {few}"),
        quantity,
    )])
}

/// Merging into zeroed memory over merging into reserved memory, by one thread, with each allocator measured.
fn zeroing(data: &Data, place: &str, check: fn(String, Quantity) -> Check) -> Checks {
    let path = format!("/where={place}/allocator=");
    let allocators = data.values("Zeroing/impl=zeroed/", "/allocator");
    if allocators.is_empty() {
        return Err(Unfit::NoData(format!("Zeroing/impl=zeroed{path}…")));
    }
    let of = |merge: &str, allocator: &str| format!("Zeroing/impl={merge}{path}{allocator}");
    let one = |allocator: &str| {
        let quantity = Quantity::ratio(of("zeroed", allocator), of("extend", allocator));
        check(format!("{allocator}, zeroed / reserved"), quantity)
    };
    Ok(allocators.into_iter().map(one).collect())
}
