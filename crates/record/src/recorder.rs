//! [`Recorder`]: a record that an engine writes of itself.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use samara_mm::{AddressSpace, Call, Counted, Errno, File, KernelVersion, Limits, SeedVma};

use crate::{
    VERSION, head_of_chunk, head_of_file, kind, put, put_call, put_config, put_file, put_layout,
    put_limits, put_ranges, put_seed_area, put_signed, put_text,
};

/// The number of bytes of records after which a chunk is sent.
const CHUNK: usize = 8 << 10;

/// A writer of the record of address spaces that [`AddressSpace`] itself performs, for example a
/// kernel's or an emulator's. `samara replay` performs the record again and so checks the results
/// with another program.
///
/// The caller reports every event in order, with a number of its choice for each address space. The
/// recorder finds the effects of faults since the address space's last event (first private pages,
/// grown stacks) by comparing its areas with the ones of that event. So each event takes time
/// linear in the number of areas.
///
/// ```
/// use samara_mm::{AddressSpace, Call, Config, Layout, Limits};
/// use samara_record::Recorder;
///
/// let mut file = Vec::new();
/// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
/// let mut recorder = Recorder::new(&[b"example"], space.config().kernel, |bytes| file.extend(bytes));
/// recorder.started(1, &space);
/// let call = Call::Brk { addr: 0 };
/// recorder.before_call(1, &space);
/// let result = space.perform(&call);
/// recorder.call(1, &space, 100, &call, result);
/// recorder.gone(1, true);
/// recorder.end(0, 0);
/// assert!(file.starts_with(samara_record::MAGIC));
/// # Ok::<(), samara_mm::Errno>(())
/// ```
pub struct Recorder<S> {
    send: S,
    /// Whole records that have not been sent.
    records: Vec<u8>,
    chunks: u32,
    /// The numbers by which records refer to files, keyed by the encoded file.
    files: BTreeMap<Vec<u8>, u64>,
    spaces: BTreeMap<u64, Space>,
    /// The number of the next address space, which is also the number of those so far.
    next_number: u64,
}

struct Space {
    number: u64,
    /// The areas as of the last record of the map.
    areas: Vec<Area>,
}

#[derive(Clone)]
struct Area {
    start: u64,
    end: u64,
    has_private_pages: bool,
    /// The area as a record of the map contains it.
    encoded: Vec<u8>,
}

impl<S: FnMut(&[u8])> Recorder<S> {
    /// Begins the record of a program, given as its arguments, on an engine with the rules of
    /// `kernel`. `send` receives the parts of the file, in order.
    pub fn new(program: &[&[u8]], kernel: KernelVersion, mut send: S) -> Self {
        let words = program.iter().map(|word| {
            let text = String::from_utf8_lossy(word);
            let plain = text.replace(|c: char| c.is_control() || c == '"' || c == '\\', "?");
            format!("\"{plain}\"")
        });
        let words: Vec<String> = words.collect();
        let description = format!(
            "{{\"format\":\"samara trace\",\"version\":{VERSION},\"kernel\":\"{kernel}-samara\",\"kernel_version\":\"{kernel}\",\"program\":[{}],\"page_size\":4096}}",
            words.join(",")
        );
        send(&head_of_file(VERSION, &description));
        Recorder {
            send,
            records: Vec::new(),
            chunks: 0,
            files: BTreeMap::new(),
            spaces: BTreeMap::new(),
            next_number: 0,
        }
    }

    /// Records that an address space has the areas with which a program starts. An earlier address
    /// space with the same number has ended.
    pub fn started(&mut self, id: u64, space: &AddressSpace) {
        self.add_space(id, Vec::new());
        self.append(id, kind::SEED, |recorder, out| {
            out.push(0);
            recorder.put_seed(out, space);
        });
        self.append_map(id, space);
    }

    /// Records that `child` was created as a copy of `parent`.
    pub fn forked(&mut self, parent: (u64, &AddressSpace), child: (u64, &AddressSpace)) {
        self.before_call(parent.0, parent.1);
        self.append_map(parent.0, parent.1);
        let areas = self.spaces.get(&parent.0).map(|space| space.areas.clone());
        let number = self.add_space(child.0, areas.unwrap_or_default());
        self.append(parent.0, kind::FORK, |_, out| put(out, number));
        self.append_map(child.0, child.1);
    }

    /// Records the effects of faults before a call. Must be called before each call is performed.
    pub fn before_call(&mut self, id: u64, space: &AddressSpace) {
        let Some(known) = self.spaces.get(&id) else {
            return;
        };
        let before = known.areas.clone();
        for (now, before) in areas(space).iter().zip(&before) {
            if now.start < before.start {
                self.append(id, kind::GROWN, |_, out| put(out, now.start));
            }
            if now.has_private_pages && !before.has_private_pages {
                self.append(id, kind::WRITTEN, |_, out| {
                    put(out, now.start);
                    put(out, now.end - now.start);
                });
            }
        }
    }

    /// Records a thread's call and its result, after it was performed.
    pub fn call(
        &mut self,
        id: u64,
        space: &AddressSpace,
        thread: u64,
        call: &Call,
        result: Result<u64, Errno>,
    ) {
        let returned = result.map_or_else(|error| -i64::from(error.0), |value| value as i64);
        self.append(id, kind::CALL, |recorder, out| {
            put(out, thread);
            put_signed(out, returned);
            put_ranges(out, &[]);
            out.push(0);
            put_call(out, call, &mut |file| recorder.file_number(file));
        });
        self.append_map(id, space);
    }

    /// Records new resource limits.
    pub fn limits(&mut self, id: u64, limits: &Limits) {
        self.append(id, kind::LIMITS, |_, out| put_limits(out, limits));
    }

    /// Records the end of an address space. `main` is `true` for that of the program's first
    /// process.
    pub fn gone(&mut self, id: u64, main: bool) {
        self.append(id, kind::GONE, |_, out| out.push(main.into()));
        self.spaces.remove(&id);
    }

    /// Records that the program has ended with a code, or by a signal, and sends the rest of the
    /// file.
    pub fn end(&mut self, code: i32, signal: i32) {
        let out = &mut self.records;
        out.push(kind::TOTALS);
        [self.next_number, 0, 0]
            .iter()
            .for_each(|&number| put(out, number));
        out.push(kind::END);
        [code, signal]
            .iter()
            .for_each(|&number| put_signed(out, number.into()));
        self.flush();
    }

    fn add_space(&mut self, id: u64, areas: Vec<Area>) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.spaces.insert(id, Space { number, areas });
        number
    }

    /// Appends a record about an address space.
    fn append(&mut self, id: u64, kind: u8, fields: impl FnOnce(&mut Self, &mut Vec<u8>)) {
        let Some(space) = self.spaces.get(&id) else {
            return;
        };
        let mut out = alloc::vec![kind];
        put(&mut out, space.number);
        // The records of files that this record refers to come first.
        fields(self, &mut out);
        self.records.append(&mut out);
        if self.records.len() >= CHUNK {
            self.flush();
        }
    }

    fn file_number(&mut self, file: &Counted<File>) -> u64 {
        // The key is everything known about the file: the caller may not distinguish open files,
        // and the seals of one may have changed.
        let mut known = Vec::new();
        put_file(&mut known, file);
        if let Some(&number) = self.files.get(&known) {
            return number;
        }
        self.records.push(kind::FILE);
        self.records.extend_from_slice(&known);
        let number = self.files.len() as u64;
        self.files.insert(known, number);
        number
    }

    /// Appends the map, as its difference from the last one.
    fn append_map(&mut self, id: u64, space: &AddressSpace) {
        let Some(known) = self.spaces.get_mut(&id) else {
            return;
        };
        let now = areas(space);
        let before = core::mem::replace(&mut known.areas, now.clone());
        let same = |(a, b): &(&Area, &Area)| a.encoded == b.encoded;
        let front = now.iter().zip(&before).take_while(same).count();
        let rest = now[front..].iter().rev().zip(before[front..].iter().rev());
        let behind = rest.take_while(same).count();
        self.append(id, kind::MAP, |_, out| {
            let new = &now[front..now.len() - behind];
            [front, behind, new.len()]
                .iter()
                .for_each(|&count| put(out, count as u64));
            new.iter()
                .for_each(|area| out.extend_from_slice(&area.encoded));
        });
    }

    /// Appends the settings and areas with which a program starts.
    fn put_seed(&mut self, out: &mut Vec<u8>, space: &AddressSpace) {
        put_config(out, space.config());
        put_limits(out, &space.limits());
        put_layout(out, &space.layout());
        put(out, space.area_count() as u64);
        for (area, line) in space.areas().zip(space.maps()) {
            let [read, write, execute, _] = line.perms.map(|letter| u64::from(letter != b'-'));
            let special = line.name.starts_with('[') && !matches!(line.name, "[heap]" | "[stack]");
            let file = area.vma.file().cloned();
            let number = file.as_ref().map_or(0, |file| self.file_number(file) + 1);
            let area = SeedVma {
                start: line.start,
                end: line.end,
                prot: read | write << 1 | execute << 2,
                shared: line.perms[3] == b's',
                offset: line.offset,
                file,
                flags: Some(line.flags),
                name: special.then(|| Box::from(line.name)),
                touched: area.vma.anon().is_some(),
            };
            put_seed_area(out, &area, number);
        }
    }

    fn flush(&mut self) {
        if !self.records.is_empty() {
            let head = head_of_chunk(self.chunks, &self.records);
            self.chunks += 1;
            (self.send)(&[&head, &self.records[..]].concat());
            self.records.clear();
        }
    }
}

impl<S> fmt::Debug for Recorder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("spaces", &self.spaces.len())
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}

fn areas(space: &AddressSpace) -> Vec<Area> {
    let areas = space.areas().zip(space.maps()).map(|(area, map)| {
        let mut encoded = Vec::new();
        put(&mut encoded, map.start);
        put(&mut encoded, map.end - map.start);
        encoded.extend_from_slice(&map.perms);
        put(&mut encoded, map.offset);
        put(&mut encoded, map.id.major.into());
        put(&mut encoded, map.id.minor.into());
        put(&mut encoded, map.id.inode);
        put_text(&mut encoded, map.name.as_bytes());
        let has_private_pages = area.vma.anon().is_some();
        Area {
            start: map.start,
            end: map.end,
            has_private_pages,
            encoded,
        }
    });
    areas.collect()
}
