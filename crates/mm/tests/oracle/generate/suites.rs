//! The suites: which calls each draws from.

/// The distribution from which a suite draws.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mix {
    pub(crate) pages: u64,
    pub(crate) files: bool,
    pub(crate) forks: bool,
    pub(crate) advice: bool,
    /// Advice for several ranges in one call.
    pub(crate) several: bool,
    pub(crate) locks: bool,
    pub(crate) remap: bool,
    pub(crate) odd: bool,
    pub(crate) guards: bool,
    pub(crate) seals: bool,
    pub(crate) shm: bool,
    pub(crate) brk: bool,
    pub(crate) policies: bool,
    /// Places of the kernel's choice, hints, large lengths.
    pub(crate) places: bool,
    pub(crate) limits: bool,
    /// Arguments that make no sense.
    pub(crate) wrong: bool,
    /// Protection keys, and what is set for a whole address space.
    pub(crate) modes: bool,
    /// Ranges far from each other.
    pub(crate) sparse: bool,
    /// Ranges among the areas that the kernel installs at exec: where these begin and end.
    pub(crate) special: Option<(u64, u64)>,
    /// Holes between areas that are closed again.
    pub(crate) holes: bool,
    /// `MREMAP_DONTUNMAP`, mostly to a place that borders on its source.
    pub(crate) copies: bool,
    /// Userfaultfds.
    pub(crate) watch: bool,
    /// Nothing but mappings of the pool of huge pages.
    pub(crate) huge: bool,
    /// The kernel is older than the newest one: only what was compared with it.
    pub(crate) older: bool,
    /// There are addresses of 57 bits.
    pub(crate) wide: bool,
}

/// A range among special areas.
const SOMEWHERE: Option<(u64, u64)> = Some((0, 0));

/// Suites in which the engine is told of faults, by name.
pub(crate) fn told() -> Vec<(&'static str, Mix)> {
    let plain = Mix {
        pages: 64,
        ..Mix::default()
    };
    let files = Mix {
        files: true,
        ..plain
    };
    let all = Mix {
        guards: true,
        forks: true,
        advice: true,
        locks: true,
        remap: true,
        odd: true,
        ..files
    };
    let mixed = Mix {
        several: true,
        seals: true,
        shm: true,
        brk: true,
        policies: true,
        places: true,
        limits: true,
        wrong: true,
        modes: true,
        special: SOMEWHERE,
        ..all
    };
    vec![
        ("plain", plain),
        ("files", files),
        (
            "forks",
            Mix {
                forks: true,
                ..files
            },
        ),
        (
            "advice",
            Mix {
                advice: true,
                several: true,
                forks: true,
                ..plain
            },
        ),
        (
            "locks",
            Mix {
                locks: true,
                ..files
            },
        ),
        (
            "remap",
            Mix {
                remap: true,
                ..plain
            },
        ),
        (
            "holes",
            Mix {
                holes: true,
                forks: true,
                remap: true,
                ..files
            },
        ),
        (
            "copies",
            Mix {
                copies: true,
                locks: true,
                forks: true,
                remap: true,
                ..files
            },
        ),
        (
            "guards",
            Mix {
                guards: true,
                forks: true,
                remap: true,
                ..files
            },
        ),
        ("all", all),
        (
            "shm",
            Mix {
                shm: true,
                remap: true,
                ..files
            },
        ),
        (
            "policies",
            Mix {
                policies: true,
                remap: true,
                forks: true,
                ..files
            },
        ),
        (
            "brk",
            Mix {
                brk: true,
                locks: true,
                odd: true,
                forks: true,
                remap: true,
                ..plain
            },
        ),
        (
            "seals",
            Mix {
                seals: true,
                remap: true,
                advice: true,
                forks: true,
                ..files
            },
        ),
        (
            "places",
            Mix {
                places: true,
                remap: true,
                forks: true,
                ..files
            },
        ),
        (
            "limits",
            Mix {
                limits: true,
                brk: true,
                ..all
            },
        ),
        ("wrong", Mix { wrong: true, ..all }),
        (
            "wrong and limits",
            Mix {
                wrong: true,
                limits: true,
                ..all
            },
        ),
        (
            "everything",
            Mix {
                shm: true,
                policies: true,
                brk: true,
                places: true,
                ..all
            },
        ),
        ("modes", Mix { modes: true, ..all }),
        (
            "watched",
            Mix {
                watch: true,
                remap: true,
                forks: true,
                several: true,
                ..files
            },
        ),
        (
            "special areas",
            Mix {
                special: SOMEWHERE,
                wrong: true,
                ..all
            },
        ),
        (
            "special areas and modes",
            Mix {
                special: SOMEWHERE,
                modes: true,
                ..all
            },
        ),
        ("mixed", mixed),
        (
            "mixed and sparse",
            Mix {
                sparse: true,
                ..mixed
            },
        ),
        (
            "huge",
            Mix {
                huge: true,
                ..Mix::default()
            },
        ),
        (
            "huge moved",
            Mix {
                huge: true,
                remap: true,
                ..Mix::default()
            },
        ),
    ]
}

/// Suites in which it is not, and asks when it must know.
pub(crate) fn asked() -> Vec<(&'static str, Mix)> {
    let plain = Mix {
        pages: 64,
        ..Mix::default()
    };
    let files = Mix {
        files: true,
        ..plain
    };
    let moves = Mix {
        remap: true,
        advice: true,
        locks: true,
        ..files
    };
    vec![
        ("asked plain", plain),
        ("asked files", files),
        ("asked moves", moves),
        (
            "asked forks",
            Mix {
                forks: true,
                ..moves
            },
        ),
    ]
}
