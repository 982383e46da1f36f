//! Writes a trace while it is recorded.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use samara_conformance::checker::Evidence;
use samara_conformance::seed::Seed;
use samara_conformance::tally::Tally;
use samara_conformance::undecided::Unknown;
use samara_linux::maps::Map;
use samara_mm::heap::Weak;
use samara_mm::{Call, Config, Counted, File, Limits};
use samara_record::{
    SCHEMA, VERSION, head_of_chunk, head_of_file, put, put_call, put_config, put_file, put_layout,
    put_limits, put_ranges, put_seed_area, put_signed, put_text,
};

use crate::kernel::Kernel;
use crate::tell::unless_closed;

use super::format::Reason;
use super::map::put_map;
use super::sink::Sink;

/// Returns a file of this version whose records are these bytes, valid or not.
pub fn file_of(version: u32, description: &str, records: &[u8]) -> Vec<u8> {
    let mut file = head_of_file(version, description);
    file.extend(head_of_chunk(0, records));
    file.extend(records);
    file
}

/// A recording that is being written. An error is kept until [`finish`](Self::finish), so that the
/// traced program runs on.
#[derive(Debug)]
pub struct Writer {
    sink: Sink,
    /// The record that is being made, behind the files that it names.
    chunk: Vec<u8>,
    /// The numbers of files, by address. `seen` keeps each address from being reused, without
    /// keeping the file's contents.
    files: HashMap<*const File, u64>,
    seen: Vec<Weak<File>>,
    maps: HashMap<u32, Map>,
}

impl Writer {
    /// Creates or empties the file, and writes its description. With `outlives`, the file is
    /// readable even if this program is killed.
    ///
    /// # Errors
    /// The errors of creating and writing the file.
    pub fn create(
        path: &Path,
        program: &[String],
        kernel: &Kernel,
        outlives: bool,
    ) -> io::Result<Self> {
        let records: serde_json::Map<String, serde_json::Value> = SCHEMA
            .iter()
            .map(|(number, name, fields)| (number.to_string(), format!("{name}: {fields}").into()))
            .collect();
        let description = serde_json::json!({
            "format": "samara trace",
            "version": VERSION,
            "kernel": kernel.release,
            "kernel_version": kernel.version.to_string(),
            "program": program,
            "page_size": 4096,
            "records": records,
        })
        .to_string();
        let head = head_of_file(VERSION, &description);
        let mut file = fs::File::create(path)?;
        unless_closed(file.write_all(&head))?;
        Ok(Self {
            sink: Sink::new(file, head.len() as u64, outlives)?,
            chunk: Vec::new(),
            files: HashMap::new(),
            seen: Vec::new(),
            maps: HashMap::new(),
        })
    }

    fn number(&mut self, file: &Counted<File>) -> u64 {
        let address: *const File = &**file;
        if let Some(&number) = self.files.get(&address) {
            return number;
        }
        let number = self.seen.len() as u64;
        self.chunk.push(1);
        put_file(&mut self.chunk, file);
        self.files.insert(address, number);
        self.seen.push(file.downgrade());
        number
    }

    /// Hands over the finished record.
    fn end_record(&mut self) {
        self.sink.append(&mut self.chunk);
    }

    pub(crate) fn seed(&mut self, space: u32, reason: Reason, seed: &Seed) {
        let numbers: Vec<u64> = seed
            .areas
            .iter()
            .map(|area| area.file.as_ref().map_or(0, |file| self.number(file) + 1))
            .collect();
        let out = &mut self.chunk;
        out.push(2);
        put(out, u64::from(space));
        out.push(match reason {
            Reason::Exec => 0,
            Reason::Resync => 1,
            Reason::Adopted => 2,
        });
        put_config(out, &seed.config);
        put_limits(out, &seed.limits);
        put_layout(out, &seed.layout);
        put(out, seed.areas.len() as u64);
        for (area, number) in seed.areas.iter().zip(numbers) {
            put_seed_area(out, area, number);
        }
        if reason != Reason::Resync {
            self.maps.remove(&space);
        }
        self.end_record();
    }

    pub(crate) fn fork(&mut self, parent: u32, child: u32) {
        self.chunk.push(3);
        put(&mut self.chunk, u64::from(parent));
        put(&mut self.chunk, u64::from(child));
        if let Some(map) = self.maps.get(&parent) {
            let map = map.clone();
            self.maps.insert(child, map);
        }
        self.end_record();
    }

    pub(crate) fn written(&mut self, space: u32, start: u64, end: u64) {
        self.chunk.push(4);
        put(&mut self.chunk, u64::from(space));
        put(&mut self.chunk, start);
        put(&mut self.chunk, end - start);
        self.end_record();
    }

    pub(crate) fn grown(&mut self, space: u32, start: u64) {
        self.chunk.push(5);
        put(&mut self.chunk, u64::from(space));
        put(&mut self.chunk, start);
        self.end_record();
    }

    pub(crate) fn grown_meanwhile(&mut self, space: u32, start: u64) {
        self.chunk.push(14);
        put(&mut self.chunk, u64::from(space));
        put(&mut self.chunk, start);
        self.end_record();
    }

    pub(crate) fn nodes_meanwhile(&mut self, space: u32, nodes: u64) {
        self.chunk.push(15);
        put(&mut self.chunk, u64::from(space));
        put(&mut self.chunk, nodes);
        self.end_record();
    }

    pub(crate) fn perhaps_written(&mut self, space: u32, address: u64) {
        self.chunk.push(16);
        put(&mut self.chunk, u64::from(space));
        put(&mut self.chunk, address);
        self.end_record();
    }

    pub(crate) fn shown_late(&mut self, space: u32, start: u64, end: u64) {
        self.chunk.push(17);
        put(&mut self.chunk, u64::from(space));
        put(&mut self.chunk, start);
        put(&mut self.chunk, end - start);
        self.end_record();
    }

    pub(crate) fn unknown(&mut self, space: u32, (start, end): (u64, u64), unknown: Unknown) {
        self.chunk.push(21);
        put(&mut self.chunk, u64::from(space));
        put(&mut self.chunk, start);
        put(&mut self.chunk, end - start);
        put(&mut self.chunk, unknown.number());
        self.end_record();
    }

    pub(crate) fn poisoned(&mut self, space: u32, start: u64, end: u64) {
        self.chunk.push(19);
        put(&mut self.chunk, u64::from(space));
        put(&mut self.chunk, start);
        put(&mut self.chunk, end - start);
        self.end_record();
    }

    pub(crate) fn brought(&mut self, space: u32, start: u64, end: u64) {
        self.chunk.push(20);
        put(&mut self.chunk, u64::from(space));
        put(&mut self.chunk, start);
        put(&mut self.chunk, end - start);
        self.end_record();
    }

    pub(crate) fn limits(&mut self, space: u32, limits: &Limits) {
        self.chunk.push(6);
        put(&mut self.chunk, u64::from(space));
        put_limits(&mut self.chunk, limits);
        self.end_record();
    }

    pub(crate) fn call(
        &mut self,
        space: u32,
        thread: i32,
        returned: i64,
        evidence: Evidence<'_>,
        call: &Call,
    ) {
        // Files that the call names come first, as records of their own.
        let mut tail = Vec::with_capacity(64);
        put_call(&mut tail, call, &mut |file| self.number(file));
        let out = &mut self.chunk;
        out.push(7);
        put(out, u64::from(space));
        put(out, thread as u64);
        put_signed(out, returned);
        put_ranges(out, evidence.before);
        match evidence.after {
            None => out.push(0),
            Some(after) => {
                out.push(1);
                put_ranges(out, after);
            }
        }
        out.extend_from_slice(&tail);
        self.end_record();
    }

    pub(crate) fn unmodelled(&mut self, space: u32, thread: i32, returned: i64, name: &str) {
        let out = &mut self.chunk;
        out.push(8);
        put(out, u64::from(space));
        put(out, thread as u64);
        put_signed(out, returned);
        put_text(out, name.as_bytes());
        self.end_record();
    }

    pub(crate) fn map(&mut self, space: u32, map: &Map) {
        self.chunk.push(9);
        put(&mut self.chunk, u64::from(space));
        let before = self.maps.entry(space).or_default();
        put_map(&mut self.chunk, map, before);
        before.clone_from(map);
        self.end_record();
    }

    pub(crate) fn settings(&mut self, space: u32, config: &Config) {
        self.chunk.push(12);
        put(&mut self.chunk, u64::from(space));
        put_config(&mut self.chunk, config);
        self.end_record();
    }

    pub(crate) fn bases(&mut self, space: u32, mmap_base: u64, legacy_base: u64) {
        self.chunk.push(18);
        put(&mut self.chunk, u64::from(space));
        put(&mut self.chunk, mmap_base);
        put(&mut self.chunk, legacy_base);
        self.end_record();
    }

    pub(crate) fn gone(&mut self, space: u32, main: bool) {
        self.chunk.push(10);
        put(&mut self.chunk, u64::from(space));
        self.chunk.push(u8::from(main));
        self.maps.remove(&space);
        self.end_record();
    }

    /// Returns `true` if the file holds no record yet.
    pub fn is_empty(&self) -> bool {
        self.sink.is_empty()
    }

    /// Writes the last records. Returns the file's length in bytes.
    ///
    /// # Errors
    /// The first error of any record.
    pub fn finish(mut self, exit_code: i32, signal: i32, tally: &Tally) -> io::Result<u64> {
        self.chunk.push(13);
        put(&mut self.chunk, tally.processes);
        put(&mut self.chunk, tally.threads);
        put(&mut self.chunk, tally.not_followed.len() as u64);
        for (reason, count) in &tally.not_followed {
            put_text(&mut self.chunk, reason.as_bytes());
            put(&mut self.chunk, *count);
        }
        self.chunk.push(11);
        put_signed(&mut self.chunk, i64::from(exit_code));
        put_signed(&mut self.chunk, i64::from(signal));
        self.end_record();
        self.sink.finish()
    }
}
