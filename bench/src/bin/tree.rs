//! The maple tree beside its rivals on one thread: every row on the same data, rivals taking turns within each run.
//!
//! Data: ranges of 1 to 64 pages, half of them followed by a gap of 1 to 64 pages, in page numbers; keys hit
//! uniformly at random; the order is shuffled anew for every run.

use std::hint::black_box;
use std::time::Instant;

use clap::Parser;
use samara_bench::peers::{Btree, Im, Iset, Item, Maple, Nodit, RangeMap, Rangemap};
use samara_bench::{Options, Random, Report};

#[derive(Parser)]
#[command(about = "The maple tree beside its rivals on one thread")]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Sizes for the growth of each operation, smallest first.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000, 1_000_000])]
    sizes: Vec<u64>,
}

fn main() {
    let cli = Cli::parse();
    cli.options.apply();
    let mut report = Report::new("maple tree and rivals, one thread", "ns an operation");
    for &n in &cli.sizes {
        for operation in OPERATIONS {
            let name = format!("{} {n}", operation.name);
            if cli.options.wants(&name) && n <= operation.most {
                measure(&mut report, &name, operation, n, &cli.options);
            }
        }
    }
    report.print(cli.options.json);
}

/// An operation and the largest map on which it is measured.
struct Operation {
    name: &'static str,
    kind: Kind,
    most: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    Get,
    GetMiss,
    Iterate,
    Append,
    InsertRandom,
    EraseRandom,
    Replace,
    Overwrite,
    GapUp(u64),
    GapDown(u64),
    Duplicate,
    Destroy,
}

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "get",
        kind: Kind::Get,
        most: u64::MAX,
    },
    Operation {
        name: "get miss",
        kind: Kind::GetMiss,
        most: u64::MAX,
    },
    Operation {
        name: "iterate an entry",
        kind: Kind::Iterate,
        most: u64::MAX,
    },
    Operation {
        name: "append",
        kind: Kind::Append,
        most: u64::MAX,
    },
    Operation {
        name: "random insert",
        kind: Kind::InsertRandom,
        most: 1_000_000,
    },
    Operation {
        name: "random erase",
        kind: Kind::EraseRandom,
        most: 1_000_000,
    },
    Operation {
        name: "exact replace",
        kind: Kind::Replace,
        most: 1_000_000,
    },
    Operation {
        name: "overwrite 1-8",
        kind: Kind::Overwrite,
        most: 100_000,
    },
    Operation {
        name: "gap 1 up",
        kind: Kind::GapUp(1),
        most: 1_000_000,
    },
    Operation {
        name: "gap 1 down",
        kind: Kind::GapDown(1),
        most: 1_000_000,
    },
    Operation {
        name: "gap 4096 up",
        kind: Kind::GapUp(4096),
        most: 100_000,
    },
    Operation {
        name: "gap 4096 down",
        kind: Kind::GapDown(4096),
        most: 100_000,
    },
    Operation {
        name: "duplicate an entry",
        kind: Kind::Duplicate,
        most: 1_000_000,
    },
    Operation {
        name: "destroy an entry",
        kind: Kind::Destroy,
        most: 1_000_000,
    },
];

/// The data of one run.
struct Run {
    items: Vec<Item>,
    shuffled: Vec<Item>,
    keys: Vec<u64>,
    end: u64,
}

impl Run {
    fn new(n: u64, random: &mut Random, kind: Kind) -> Self {
        let mut items = Vec::new();
        let mut misses = Vec::new();
        let mut at = 1;
        for i in 0..n {
            let end = at + 1 + random.below(64);
            items.push((at, end, i as u32));
            at = end;
            if random.below(2) == 0 {
                misses.push(at);
                at += 1 + random.below(64);
            }
            // A hole of 4,096 pages and more every thousand entries.
            if i % 1000 == 999 {
                at += 4096 + random.below(64);
            }
        }
        let mut shuffled = items.clone();
        random.shuffle(&mut shuffled);
        let count = 100_000.min(n.max(1000) * 4);
        let keys = (0..count)
            .map(|_| match kind {
                Kind::Get => {
                    let (first, end, _) = items[random.below(n) as usize];
                    first + random.below(end - first)
                }
                Kind::GetMiss => misses[random.below(misses.len() as u64) as usize],
                _ => random.below(at),
            })
            .collect();
        Self {
            items,
            shuffled,
            keys,
            end: at,
        }
    }
}

fn measure(report: &mut Report, name: &str, operation: &Operation, n: u64, options: &Options) {
    let mut subjects = Vec::new();
    let mut figures: Vec<Vec<f64>> = Vec::new();
    for run in 0..options.runs {
        let mut random = Random::new(u64::from(run) + 1);
        let data = Run::new(n, &mut random, operation.kind);
        let mut slot = 0;
        let mut one = |name: &'static str, figure: Option<f64>| {
            let Some(figure) = figure else { return };
            if run == 0 {
                subjects.push(name);
                figures.push(Vec::new());
            }
            figures[slot].push(figure);
            slot += 1;
        };
        one(Maple::NAME, time::<Maple>(operation.kind, &data));
        one(Btree::NAME, time::<Btree>(operation.kind, &data));
        one(Rangemap::NAME, time::<Rangemap>(operation.kind, &data));
        one(Nodit::NAME, time::<Nodit>(operation.kind, &data));
        one(Iset::NAME, time::<Iset>(operation.kind, &data));
        one(Im::NAME, time::<Im>(operation.kind, &data));
    }
    report.add(name, &subjects, &figures);
}

/// Nanoseconds an operation, or `None` when this map does not offer it.
fn time<M: RangeMap>(kind: Kind, data: &Run) -> Option<f64> {
    let filled = || {
        let mut map = M::default();
        data.items.iter().for_each(|&item| map.insert(item));
        map
    };
    let per = |count: usize, work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / count.max(1) as f64
    };
    let figure = match kind {
        Kind::Get | Kind::GetMiss => {
            let map = filled();
            per(data.keys.len(), &mut || {
                for &key in &data.keys {
                    black_box(map.get(key));
                }
            })
        }
        Kind::Iterate => {
            let map = filled();
            let repeats = (100_000 / data.items.len()).max(1);
            per(data.items.len() * repeats, &mut || {
                for _ in 0..repeats {
                    black_box(map.sum());
                }
            })
        }
        Kind::Append => {
            let repeats = (100_000 / data.items.len()).max(1);
            let mut maps: Vec<M> = (0..repeats).map(|_| M::default()).collect();
            per(data.items.len() * repeats, &mut || {
                for map in &mut maps {
                    data.items.iter().for_each(|&item| map.insert(item));
                }
            })
        }
        Kind::InsertRandom => {
            let mut map = M::default();
            per(data.items.len(), &mut || {
                data.shuffled.iter().for_each(|&item| map.insert(item))
            })
        }
        Kind::EraseRandom => {
            let mut map = filled();
            per(data.items.len(), &mut || {
                data.shuffled.iter().for_each(|&item| map.remove(item))
            })
        }
        Kind::Replace => {
            let mut map = filled();
            per(data.items.len(), &mut || {
                data.shuffled.iter().for_each(|&item| map.replace(item))
            })
        }
        Kind::Overwrite if M::CAN_OVERWRITE => {
            let mut map = filled();
            let count = data.keys.len() / 4;
            per(count, &mut || {
                for (i, &key) in data.keys[..count].iter().enumerate() {
                    // About 48 pages an entry, gaps included.
                    map.overwrite((key, key + 1 + (i as u64 * 37) % 384, i as u32));
                }
            })
        }
        Kind::GapUp(size) if M::CAN_FIND_GAPS => {
            let map = filled();
            per(data.keys.len(), &mut || {
                for &key in &data.keys {
                    black_box(map.gap_up(key, size));
                }
            })
        }
        Kind::GapDown(size) if M::CAN_FIND_GAPS => {
            let map = filled();
            per(data.keys.len(), &mut || {
                for &key in &data.keys {
                    black_box(map.gap_down(key, size));
                }
            })
        }
        Kind::Duplicate => {
            let map = filled();
            let mut copies = Vec::with_capacity(64);
            let repeats = (100_000 / data.items.len()).clamp(1, 64);
            per(data.items.len() * repeats, &mut || {
                for _ in 0..repeats {
                    copies.push(map.duplicate());
                }
            })
        }
        Kind::Destroy => {
            let repeats = (100_000 / data.items.len()).clamp(1, 64);
            let mut maps: Vec<M> = (0..repeats).map(|_| filled()).collect();
            per(data.items.len() * repeats, &mut || maps.clear())
        }
        Kind::Overwrite | Kind::GapUp(_) | Kind::GapDown(_) => return None,
    };
    black_box(data.end);
    Some(figure)
}
