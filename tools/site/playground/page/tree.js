"use strict";
// The tree in WebAssembly, and its answers as objects.

const MAX = 18446744073709551615n;

class Tree {
  /** Compiled at once: it is small enough, and nothing can be shown before. */
  static load(base64) {
    const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
    return new Tree(new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports);
  }

  constructor(exports) {
    this.exports = exports;
    this.decoder = new TextDecoder();
  }

  /** Does one thing, and gives what the tree says of itself afterwards. */
  do(act) {
    const { exports } = this;
    switch (act.what) {
      case "begin": exports.begin(act.slots, act.gaps ? 1 : 0); break;
      case "store": exports.store(act.first, act.last, act.value); break;
      case "erase": exports.erase(act.first, act.last); break;
      case "get": exports.get(act.key); break;
      case "gap": exports.gap(0n, MAX - 1n, act.size, act.highest ? 1 : 0); break;
    }
    const text = this.decoder.decode(new Uint8Array(exports.memory.buffer, exports.answer(), exports.answer_length()));
    return { act, ...read(text) };
  }
}

/** What an answer says. */
function read(text) {
  const lines = text.split("\n");
  const answer = { said: lines[0], events: [], entries: [], figures: null, check: "", root: null, dump: "" };
  let at = 1;
  for (; !lines[at].startsWith("tree: "); at++) {
    const [word, ...rest] = lines[at].split(" ");
    if (word === "event") answer.events.push(rest.join(" "));
    else if (word === "figures") { const [entries, nodes, bytes, fill] = rest.map(Number); answer.figures = { entries, nodes, bytes, fill }; }
    else if (word === "check") answer.check = rest.join(" ");
    else if (word === "entry") answer.entries.push({ first: BigInt(rest[0]), last: BigInt(rest[1]), value: Number(rest[2]) });
  }
  answer.dump = lines.slice(at).join("\n");
  answer.height = Number(/height (\d+)/.exec(lines[at])[1]);
  const reader = { lines, at: at + 1 };
  answer.root = /^\d+-\d+ (leaf|range|gap)/.test(lines[at + 1] || "") ? node(reader) : null;
  // A single entry at index 0, which needs no node.
  if (!answer.root && /^0: /.test(lines[at + 1] || "")) answer.single = wordOf(lines[at + 1].slice(3));
  return answer;
}

/** A node of a dump: its line, then its slots, each deeper by two spaces. */
function node(reader) {
  const [, first, last, kind, address, used, capacity] = /^ *(\d+)-(\d+) (leaf|range|gap) (0x[0-9a-f]+), (\d+) of (\d+) slots$/.exec(reader.lines[reader.at++]);
  const made = { first: BigInt(first), last: BigInt(last), kind, address, capacity: Number(capacity), slots: [] };
  for (let slot = 0; slot < Number(used); slot++) {
    if (kind === "leaf") {
      const [, from, to, word] = /^ *(\d+)-(\d+): (.*)$/.exec(reader.lines[reader.at++]);
      made.slots.push({ first: BigInt(from), last: BigInt(to), value: word === "hole" ? null : wordOf(word) });
    } else {
      const hole = kind === "gap" ? BigInt(/(\d+)$/.exec(reader.lines[reader.at++])[1]) : null;
      const child = node(reader);
      made.slots.push({ first: child.first, last: child.last, hole, child });
    }
  }
  return made;
}

/** A value's word: the number in its upper half (of 32 bits), beside a tag. */
const wordOf = word => Number(BigInt(word) >> 16n & 0xffffn);

/** All nodes, from above. */
function* nodes(root) {
  if (!root) return;
  yield root;
  for (const slot of root.slots) if (slot.child) yield* nodes(slot.child);
}

/** An index as people write it: the largest is `max`, large ones are hexadecimal. */
function index(number) {
  if (number === MAX) return "max";
  if (number > MAX - 4096n) return "max-" + (MAX - number);
  return number > 99999n ? "0x" + number.toString(16) : number.toString();
}

/** And back; throws with what is wrong. */
function parse(text, name) {
  const word = text.trim().toLowerCase();
  if (word === "max") return MAX;
  if (!/^(\d{1,20}|0x[0-9a-f]{1,16})$/.test(word) || BigInt(word) > MAX) throw new Error(`${name}: a number from 0 to max, decimal or behind 0x`);
  return BigInt(word);
}
