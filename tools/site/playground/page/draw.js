"use strict";
// The nodes as a drawing: a row for each level, a cell for each slot.

const CELL = 80, HEAD = 18, ROWS = { leaf: 34, range: 24, gap: 38 }, APART = 14, LEVEL = 104;
const SVG = "http://www.w3.org/2000/svg";

/** Draws `now`, with what is other than in `before`, into an element. Gives what was drawn. */
function drawTree(stage, now, before) {
  const svg = make("svg", { role: "img", "aria-label": inWords(now) });
  const drawn = [];
  stage.replaceChildren(svg);
  if (!now.root) {
    svg.setAttribute("width", 360);
    svg.setAttribute("height", 60);
    const text = make("text", { x: 180, y: 34, "text-anchor": "middle" });
    text.textContent = now.single === undefined ? "an empty tree has no node" : `${now.single} at index 0, kept in the root pointer: no node`;
    svg.append(text);
    return drawn;
  }
  const old = new Map([...nodes(before?.root)].map(node => [node.address, node]));
  const way = wayOf(now);
  let leaves = 0;
  const place = (node, depth) => {
    node.depth = depth;
    node.width = node.slots.length * CELL + 8;
    const children = node.slots.map(slot => slot.child).filter(Boolean);
    if (!children.length) { node.x = leaves; leaves += node.width + APART; return; }
    for (const child of children) place(child, depth + 1);
    const from = children[0].x, to = children.at(-1).x + children.at(-1).width;
    node.x = (from + to - node.width) / 2;
  };
  place(now.root, 0);
  // Inner nodes may be wider than what is below them: each level is moved apart from the left.
  const ends = [];
  let least = 0, most = 0;
  for (const node of nodes(now.root)) {
    node.x = Math.max(node.x, (ends[node.depth] ?? -Infinity) + APART);
    ends[node.depth] = node.x + node.width;
    least = Math.min(least, node.x);
    most = Math.max(most, ends[node.depth]);
  }
  const width = most - least + 24, height = (now.height - 1) * LEVEL + 92;
  // Made smaller to be seen at once, but not beyond what can be read.
  const scale = Math.max(0.6, Math.min(1, (stage.clientWidth - 4) / width));
  svg.setAttribute("width", width * scale);
  svg.setAttribute("height", height * scale);
  svg.setAttribute("viewBox", `${least - 12} -10 ${width} ${height}`);

  for (const node of nodes(now.root)) {
    const y = node.depth * LEVEL, known = old.get(node.address), high = HEAD + ROWS[node.kind] + 6;
    const same = known && known.kind === node.kind;
    const group = make("g", { class: "node" + (same ? "" : before ? " new" : "") + (way.has(node) ? " path" : "") });
    group.append(make("rect", { class: "box", x: node.x, y, width: node.width, height: high, rx: 6 }));
    write(group, node.x + 6, y + 13, `${node.kind === "leaf" ? "leaf" : node.kind === "gap" ? "inner, with gaps" : "inner"} · ${node.slots.length} of ${node.capacity}`, "soft");
    const item = { address: node.address, kind: node.kind, depth: node.depth, isNew: !same, slots: [] };
    node.slots.forEach((slot, i) => {
      const was = same ? known.slots[i] : null;
      const changed = same && (!was || was.first !== slot.first || was.last !== slot.last || was.value !== slot.value || was.hole !== slot.hole || was.child?.address !== slot.child?.address);
      const hole = slot.value === null, inner = Boolean(slot.child);
      const x = node.x + 4 + i * CELL, at = y + HEAD;
      const cell = make("g", { class: "slot" + (inner ? " inner" : hole ? " hole" : "") + (changed ? " changed" : "") + (way.has(slot) ? " path" : "") });
      cell.append(make("rect", { x, y: at, width: CELL - 2, height: ROWS[node.kind], rx: 3 }));
      const range = slot.first === slot.last ? index(slot.first) : `${index(slot.first)}–${index(slot.last)}`;
      const title = make("title", {});
      title.textContent = `slot ${i}: ${slot.first} to ${slot.last} (pivot ${slot.last})${inner ? slot.hole === null ? "" : `, largest hole ${slot.hole}` : hole ? ": hole" : `: value ${slot.value}`}`;
      cell.append(title);
      write(cell, x + CELL / 2 - 1, at + 14, short(range), "", "middle");
      if (inner && slot.hole !== null) write(cell, x + CELL / 2 - 1, at + 29, "hole " + index(slot.hole), "soft", "middle");
      if (!inner) write(cell, x + CELL / 2 - 1, at + 28, hole ? "hole" : String(slot.value), hole ? "soft" : "", "middle");
      group.append(cell);
      if (inner) {
        const fromX = x + CELL / 2 - 1, fromY = at + ROWS[node.kind], toX = slot.child.x + slot.child.width / 2, toY = (node.depth + 1) * LEVEL;
        const line = make("path", { d: `M${fromX} ${fromY}C${fromX} ${(fromY + toY) / 2} ${toX} ${(fromY + toY) / 2} ${toX} ${toY}` });
        if (way.has(slot)) line.setAttribute("class", "path");
        svg.prepend(line);
      }
      item.slots.push({ first: String(slot.first), last: String(slot.last), value: slot.value ?? null, hole: slot.hole === null || slot.hole === undefined ? null : String(slot.hole), changed: Boolean(changed) });
    });
    drawn.push(item);
    svg.append(group);
  }
  return drawn;
}

/** Nodes and slots that a search went through: down to the index that was looked up, or to the place that was found. */
function wayOf(now) {
  const way = new Set(), { act } = now;
  const found = act.what === "get" ? act.key : act.what === "gap" ? /^room for \d+ at (\d+)/.exec(now.said)?.[1] : undefined;
  if (found === undefined) return way;
  const key = BigInt(found);
  for (let node = now.root; node;) {
    const slot = node.slots.find(slot => slot.first <= key && key <= slot.last);
    way.add(node);
    if (slot) way.add(slot);
    node = slot?.child;
  }
  return way;
}

/** The tree for who does not see it. */
function inWords(now) {
  const parts = [...nodes(now.root)].map(node => `${node.kind === "leaf" ? "Leaf" : "Inner node"} ${index(node.first)} to ${index(node.last)}: ` +
    node.slots.map(slot => `${index(slot.first)} to ${index(slot.last)} ${slot.child ? "" : slot.value === null ? "hole" : "is " + slot.value}`.trim()).join(", "));
  return parts.join(". ") || "An empty tree";
}

const short = text => text.length > 12 ? text.slice(0, 5) + "…" + text.slice(-6) : text;

function make(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function write(parent, x, y, text, name, anchor) {
  const made = make("text", { x, y });
  if (name) made.setAttribute("class", name);
  if (anchor) made.setAttribute("text-anchor", anchor);
  made.textContent = text;
  parent.append(made);
}
