//! The programs' view: plain bytes, and the effect of a step on them.

use samara_mm::abi::{MADV_DONTNEED, MADV_FREE, MADV_PAGEOUT, PROT_READ, PROT_WRITE};
use samara_mm::process::PageStatus;

use super::op::{Op, Step};
use super::{Answer, Failure, PAGES, World, is_gone, process_of};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// `true` if it may be dropped.
    Own(u8, bool),
    /// Of an object, which page.
    Shared(usize, usize),
    /// Of the file, which page; and the copy.
    Private(usize, Option<u8>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) prot: u64,
    pub(super) what: What,
}

pub(super) type Pages = [Option<Page>; PAGES];

impl World {
    /// The byte behind a page; none beyond the end of the file.
    pub(super) fn byte(&self, page: &Page) -> Option<u8> {
        match page.what {
            What::Own(value, _) | What::Private(_, Some(value)) => Some(value),
            What::Shared(object, index) => self.objects[object].get(index).copied(),
            What::Private(index, None) => self.objects[0].get(index).copied(),
        }
    }

    pub(super) fn expected(&self, Step { who, from, op, .. }: Step) -> Answer {
        let page = self.model[who].as_ref().unwrap()[from];
        let byte = |needed: u64| {
            let page = page.as_ref().filter(|page| page.prot & needed != 0);
            page.and_then(|page| self.byte(page)).ok_or(Failure::Other)
        };
        match op {
            Op::Read => byte(PROT_READ),
            Op::Write(_) => byte(PROT_WRITE).map(|_| 0),
            _ => Ok(0),
        }
    }

    pub(super) fn change(&mut self, Step { who, from, to, op }: Step) {
        match op {
            Op::Fork(child, _) => {
                self.model[child] = self.model[who];
                return;
            }
            Op::Exit => {
                self.model[who] = None;
                return;
            }
            Op::Truncate(pages) => {
                self.objects[0].resize(pages, 0);
                for page in self.model.iter_mut().flatten().flatten().flatten() {
                    if let What::Private(index, copy) = &mut page.what
                        && *index >= pages
                    {
                        *copy = None;
                    }
                }
                return;
            }
            Op::Punch(first) => {
                if let Some(rest) = self.objects[0].get_mut(first..) {
                    rest.fill(0);
                }
                return;
            }
            _ => {}
        }
        let pages = self.model[who].as_mut().unwrap();
        match op {
            Op::Map {
                kind,
                file_page,
                prot,
                ..
            } => {
                if kind == 1 {
                    self.objects.push(vec![0; to - from]);
                }
                for (i, page) in pages[from..to].iter_mut().enumerate() {
                    let what = match kind {
                        0 => What::Own(0, false),
                        1 => What::Shared(self.objects.len() - 1, i),
                        2 => What::Shared(0, file_page + i),
                        _ => {
                            // Pages may be filled in, as writes would; or not, for want of memory.
                            let index = file_page + i;
                            let process = self.processes[who].as_ref().unwrap();
                            let status = process.page(Self::addr(from + i));
                            let own = !status.is_empty() && !status.contains(PageStatus::FILE);
                            let copy = self.objects[0].get(index).filter(|_| own);
                            What::Private(index, copy.copied())
                        }
                    };
                    *page = Some(Page { prot, what });
                }
            }
            Op::Unmap => pages[from..to].fill(None),
            Op::Protect(prot) => {
                let pages = pages[from..to].iter_mut().flatten();
                pages.for_each(|page| page.prot = prot);
            }
            Op::Advise(advice) => {
                let process = self.processes[who].as_ref().unwrap();
                for (number, page) in pages.iter_mut().enumerate().take(to).skip(from) {
                    let gone = || is_gone(process, Self::addr(number));
                    match &mut page.as_mut().unwrap().what {
                        What::Own(value, free) => match advice {
                            MADV_DONTNEED => (*value, *free) = (0, false),
                            MADV_FREE => {
                                *free = true;
                                // What is in swap goes at once.
                                if gone() {
                                    *value = 0;
                                }
                            }
                            // It may be dropped, and need not.
                            MADV_PAGEOUT if *free && gone() => *value = 0,
                            _ => {}
                        },
                        What::Private(_, copy) if advice == MADV_DONTNEED => *copy = None,
                        _ => {}
                    }
                }
            }
            Op::Move(there) => pages[there] = pages[from].take(),
            Op::Pin { .. } => {
                for (number, page) in pages.iter_mut().enumerate() {
                    let status = process_of(&self.processes, who).page(Self::addr(number));
                    let own = !status.is_empty() && !status.contains(PageStatus::FILE);
                    if let Some(Page {
                        what: What::Private(index, copy @ None),
                        ..
                    }) = page
                        && own
                    {
                        *copy = self.objects[0].get(*index).copied();
                    }
                }
            }
            Op::Write(value) => {
                let size = self.objects[0].len();
                let writable = |page: &&mut Page| page.prot & PROT_WRITE != 0;
                if let Some(page) = pages[from].as_mut().filter(writable) {
                    match &mut page.what {
                        What::Own(byte, free) => (*byte, *free) = (value, false),
                        What::Shared(object, index) => {
                            if let Some(byte) = self.objects[*object].get_mut(*index) {
                                *byte = value;
                            }
                        }
                        What::Private(index, copy) if *index < size => *copy = Some(value),
                        What::Private(..) => {}
                    }
                }
            }
            _ => {}
        }
    }
}
