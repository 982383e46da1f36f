"use strict";
// Histories to watch: what the tree does by itself in each.

const EXAMPLES = [
  {
    name: "Splits: one entry after another",
    acts: () => Array.from({ length: 14 }, (_, i) => stored(i * 10, i * 10 + 9, i + 1)),
  },
  {
    name: "Joins: entries erased again",
    acts: () => [
      ...Array.from({ length: 12 }, (_, i) => stored(i * 10, i * 10 + 9, i + 1)),
      ...[1, 2, 4, 5, 6, 8, 9, 3, 7].map(i => erased(i * 10, i * 10 + 9)),
    ],
  },
  {
    name: "Spans: a store over many leaves",
    acts: () => [
      ...Array.from({ length: 20 }, (_, i) => stored(i * 10, i * 10 + 6, i + 1)),
      stored(35, 164, 99), stored(0, 34, 98), erased(0, 1000),
    ],
  },
  {
    name: "In the middle: an entry cut in three",
    acts: () => [stored(0, 99, 1), stored(40, 59, 2), erased(50, 54), stored(45, 52, 3)],
  },
  {
    name: "Room: areas mapped and unmapped",
    acts: () => [
      ...[0, 1, 2, 3, 4, 5, 6, 7].map(i => stored(i * 16, i * 16 + 15, i + 1)),
      erased(32, 47), { what: "gap", size: 16n, highest: false }, stored(32, 39, 20), { what: "gap", size: 16n, highest: false },
      { what: "gap", size: 8n, highest: false }, stored(40, 47, 21), { what: "gap", size: 8n, highest: true },
    ],
  },
];

function stored(first, last, value) { return { what: "store", first: BigInt(first), last: BigInt(last), value }; }
function erased(first, last) { return { what: "erase", first: BigInt(first), last: BigInt(last) }; }

/** What the tree told of a write, in words. */
function eventInWords(event) {
  const field = name => new RegExp(`\\b${name}=(\\S+)`).exec(event)?.[1];
  const count = Number(field("nodes"));
  const made = count === 1 ? "one node is made" : `${count} nodes are made`;
  const kinds = {
    Split: `split: a leaf is full; ${made}`,
    Rebalance: `join: a leaf has too little left and joins or shares with a neighbour; ${made}`,
    Spanning: `span: the range covers slots of several leaves; ${made}`,
    Node: `a node is written anew; ${made}`,
    Root: `the first node; ${made}`,
  };
  if (event.startsWith("nodes")) return kinds[field("kind")] || `${field("kind")}; ${made}`;
  if (event.startsWith("height")) return `height ${field("from")} → ${field("to")}`;
  return event;
}
