"use strict";
// The data of the page: what src/picture/encode.rs wrote. Addresses are doubles, which are exact for all of them.

const PAGE = 4096;
const TOP = 0x7ffffffff000;
/** Bits of a step's flags. */
const FAILED = 1, DIFFERS = 2, HAPPENING = 4;
/** A stay that nothing ended. */
const FOREVER = 0xffffffff;

class Bytes {
  constructor(base64) {
    const text = atob(base64);
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) this.bytes[i] = text.charCodeAt(i);
    this.at = 0;
    this.decoder = new TextDecoder();
  }
  byte() { return this.bytes[this.at++]; }
  number() {
    let value = 0, scale = 1, byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte & 128);
    return value;
  }
  raw(length) { return this.decoder.decode(this.bytes.subarray(this.at, this.at += length)); }
  text() { return this.raw(this.number()); }
  list(read) { return Array.from({ length: this.number() }, () => read()); }
}

/** Everything that was recorded. */
function readAll(base64) {
  const from = new Bytes(base64);
  const title = from.text(), kernel = from.text();
  const kinds = from.list(() => from.text());
  const looks = from.list(() => ({ kind: from.byte(), perms: from.raw(4), name: from.text(), flags: from.text() }));
  const forms = from.list(() => splitForm(from.text()));
  const lives = from.list(() => new Life(from, forms));
  return { title, kernel, kinds, looks, lives };
}

/** A form of texts as its pieces and the marks of the numbers between them. */
function splitForm(form) {
  return { pieces: form.split(/[\u0001\u0002]/), marks: form.replace(/[^\u0001\u0002]/g, "") };
}

/** One address space from its beginning to its end. */
class Life {
  constructor(from, forms) {
    this.number = from.number();
    this.parent = from.number() - 1;
    this.born = from.number();
    this.gone = from.number() - 1;
    this.program = from.text();
    this.forms = forms;

    let start = 0;
    this.bands = from.list(() => {
      const band = { start, end: start + from.number() * PAGE, height: from.number(), looks: from.list(() => from.number()) };
      start = band.end;
      return band;
    });

    const steps = this.steps = from.number();
    this.call = new Float64Array(steps);
    this.thread = new Float64Array(steps);
    this.flags = new Uint8Array(steps);
    this.form = new Uint32Array(steps);
    this.numbersFrom = new Uint32Array(steps);
    const numbers = [];
    let call = 0;
    for (let i = 0; i < steps; i++) {
      const since = from.number();
      this.call[i] = since ? call += since : 0;
      this.thread[i] = from.number();
      this.flags[i] = from.byte();
      this.form[i] = from.number();
      this.numbersFrom[i] = numbers.length;
      for (let n = forms[this.form[i]].marks.length; n > 0; n--) numbers.push(from.number());
    }
    this.numbers = Float64Array.from(numbers);

    const stays = this.stays = from.number();
    this.start = new Float64Array(stays);
    this.end = new Float64Array(stays);
    this.offset = new Float64Array(stays);
    this.look = new Uint32Array(stays);
    this.from = new Uint32Array(stays);
    this.until = new Uint32Array(stays);
    let at = 0;
    for (let i = 0; i < stays; i++) {
      this.start[i] = at += from.number() * PAGE;
      this.end[i] = at + from.number() * PAGE;
      this.offset[i] = from.number() * PAGE;
      this.look[i] = from.number();
      this.from[i] = from.number();
      const lasted = from.number();
      this.until[i] = lasted ? this.from[i] + lasted - 1 : FOREVER;
    }
    let when = 0;
    this.written = from.list(() => {
      const step = when += from.number(), start = from.number() * PAGE;
      return { step, start, end: start + from.number() * PAGE };
    });
    // What of each stay is in memory, where that is known.
    const held = from.list(() => ({ resident: from.number() * PAGE, dirty: from.number() * PAGE, swapped: from.number() * PAGE }));
    this.held = held.length ? held : null;
    this.begun = byStep(this.from, steps);
    this.ended = byStep(this.until, steps);
  }

  /** What happened, in words. */
  text(step) {
    const { pieces, marks } = this.forms[this.form[step]];
    let at = this.numbersFrom[step], out = pieces[0];
    for (let i = 0; i < marks.length; i++) {
      const number = this.numbers[at++];
      out += (marks[i] === "\u0001" ? number.toString() : "0x" + number.toString(16)) + pieces[i + 1];
    }
    return out;
  }

  /** The same behind its number, by which `samara show RECORD@NUMBER` knows it. */
  numbered(step) { return (this.call[step] ? "#" + this.call[step] + " " : "") + this.text(step); }

  /** The stays that are there after a step, ascending. */
  at(step) {
    const found = [];
    for (let i = 0; i < this.stays; i++) if (this.from[i] <= step && step < this.until[i]) found.push(i);
    return found;
  }

  /** The stay at an address after a step, or -1. */
  find(step, address) {
    for (let i = 0; i < this.stays && this.start[i] <= address; i++)
      if (address < this.end[i] && this.from[i] <= step && step < this.until[i]) return i;
    return -1;
  }

  /** What a step did to give a stay its shape: a word, and the stay that most of it was before (or -1). */
  origin(stay) {
    const step = this.from[stay], start = this.start[stay], end = this.end[stay];
    let most = 0, before = -1, count = 0;
    for (const old of this.ended(step)) {
      const common = Math.min(end, this.end[old]) - Math.max(start, this.start[old]);
      if (common <= 0) continue;
      count++;
      if (common > most) { most = common; before = old; }
    }
    if (before < 0) return { word: this.flags[step] & HAPPENING && !step ? "there from" : "made by", before };
    const same = this.start[before] === start && this.end[before] === end;
    const within = this.start[before] <= start && this.end[before] >= end;
    const around = this.start[before] >= start && this.end[before] <= end;
    const word = count > 1 ? "joined by" : same ? "changed by" : within ? "cut by" : around ? "grown by" : "reshaped by";
    return { word, before };
  }

  /** What a step did to end a stay. */
  ending(stay) {
    const step = this.until[stay];
    if (step === FOREVER) return "";
    for (const next of this.begun(step))
      if (this.start[next] < this.end[stay] && this.start[stay] < this.end[next]) return this.origin(next).word;
    return "unmapped by";
  }
}

/** Numbers 0.. by a step of each, as a function from a step to those. */
function byStep(step, steps) {
  const first = new Uint32Array(steps + 2);
  for (const s of step) if (s < steps) first[s + 1]++;
  for (let s = 0; s <= steps; s++) first[s + 1] += first[s];
  const all = new Uint32Array(first[steps]), next = first.slice();
  for (let i = 0; i < step.length; i++) if (step[i] < steps) all[next[step[i]]++] = i;
  return s => all.subarray(first[s], first[s + 1]);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A size as people read it. */
function size(bytes) {
  let unit = 0;
  while (bytes >= 1024 && unit < 4) { bytes /= 1024; unit++; }
  return (bytes >= 100 || Number.isInteger(bytes) ? bytes.toFixed(0) : bytes.toPrecision(3)) + " " + UNITS[unit];
}

/** Making one of these anew for each number takes as long as all else of a step. */
const DIGITS = new Intl.NumberFormat("en");
const grouped = number => DIGITS.format(number);

const many = (count, thing) => (count ? grouped(count) : "no") + " " + thing + (count === 1 ? "" : "s");

const hex = address => address.toString(16).padStart(8, "0");

/** The gaps between areas (ascending stays), from 0 to the end of user addresses. */
function gapsOf(life, areas) {
  const gaps = [];
  let at = 0;
  for (const stay of areas) {
    if (life.start[stay] > at) gaps.push({ start: at, end: life.start[stay] });
    at = life.end[stay];
  }
  if (at < TOP) gaps.push({ start: at, end: TOP });
  return gaps;
}
