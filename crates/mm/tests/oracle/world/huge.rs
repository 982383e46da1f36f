//! The pool of huge pages on both sides.

use samara_mm::{
    AddressSpace, Config, Counted, File, HugePool, Layout, Limits, MapFlags, MmapOptions,
};

use super::World;
use crate::generate::HUGE;
use crate::kernel::Step;
use crate::pool::{Figures, Pool, SURPLUS};

/// Huge pages in each file at first.
const HUGE_FILE_PAGES: u64 = 6;

impl World {
    /// Takes the machine's pool for histories to come. Why it cannot be had, else.
    pub(crate) fn take_huge(&mut self) -> Result<(), String> {
        if self.objects.huge.len() < 3 {
            return Err("the kernel has no such files".to_owned());
        }
        self.huge = Some(Pool::take()?);
        Ok(())
    }

    /// Gives it back.
    pub(crate) fn leave_huge(&mut self) {
        if self.huge.is_some() {
            self.empty_files();
        }
        self.huge = None;
    }

    /// Removes what histories have left in the files.
    fn empty_files(&self) {
        for (fd, _) in self.objects.huge.iter().take(2) {
            // SAFETY: a descriptor of ours.
            unsafe { libc::ftruncate(*fd, 0) };
        }
    }

    /// Before a history: the pool and the files are as new, on both sides.
    pub(super) fn begin_huge(&mut self) -> Option<HugePool> {
        let taken = self.huge.as_ref()?;
        self.others.borrow_mut().clear();
        let pool = HugePool::new(taken.unused()[0]).unwrap();
        pool.set_overcommit(HUGE, SURPLUS);
        self.others
            .borrow_mut()
            .extend(somebody_else(&pool, taken.base));
        let bytes = HUGE_FILE_PAGES * HUGE;
        self.empty_files();
        let files = &mut self.objects.huge;
        for (fd, _) in files.iter().take(2) {
            // SAFETY: a descriptor of ours.
            unsafe { libc::ftruncate(*fd, bytes as i64) };
        }
        assert!(
            taken.is_settled(),
            "the kernel has not got all huge pages back"
        );
        let objects = [0, 1].map(|_| pool.file(HUGE, bytes).unwrap());
        for ((_, file), object) in files.iter_mut().zip(objects.iter().cycle()) {
            let object = object.clone();
            let described = (**file).clone();
            *file = Counted::try_new(File {
                object,
                ..described
            })
            .unwrap();
        }
        Some(pool)
    }

    pub(super) fn compare_pool(&self, pool: Option<&HugePool>, kernel: &Step) -> Option<String> {
        let theirs = kernel.pool;
        let own = figures(pool?);
        (own != theirs).then(|| {
            format!("the pool (total, free, promised, surplus): kernel {theirs:?}, engine {own:?}")
        })
    }

    /// After a history: all has come back.
    pub(super) fn end_huge(&mut self, pool: Option<&HugePool>) -> Option<String> {
        let pool = pool?;
        self.others.borrow_mut().truncate(1);
        for (_, file) in &mut self.objects.huge {
            let object = samara_mm::Object::none();
            let described = (**file).clone();
            *file = Counted::try_new(File {
                object,
                ..described
            })
            .unwrap();
        }
        let left = figures(pool);
        (left != self.huge.as_ref()?.unused())
            .then(|| format!("the engine's pool at the end: {left:?}"))
    }
}

/// A process that was promised pages before.
fn somebody_else(pool: &HugePool, pages: u64) -> Option<AddressSpace> {
    let config = Config {
        huge_pool: Some(pool.clone()),
        ..Config::default()
    };
    let mut space = AddressSpace::new(config, Limits::default(), Layout::default()).ok()?;
    let pages = MmapOptions::anonymous(pages * HUGE).flags(MapFlags::HUGETLB);
    let _ = space.mmap(&pages);
    Some(space)
}

fn figures(pool: &HugePool) -> Figures {
    let figures = pool.figures(HUGE).unwrap();
    [
        figures.total,
        figures.free,
        figures.reserved,
        figures.surplus,
    ]
}
