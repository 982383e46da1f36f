"use strict";
// What a person does, and the steps so far.

{
  const $ = id => document.getElementById(id);
  let tree;
  try { tree = Tree.load($("wasm").textContent); } catch (error) {
    $("error").textContent = "The tree could not be started: " + error.message;
    throw error;
  }
  let steps = [], at = 0, drawn = [], playing = 0;

  const settings = () => ({ what: "begin", slots: Number($("slots").value), gaps: $("gaps").checked });

  /** Begins anew, does these things, and shows the last. */
  function run(acts) {
    play(false);
    steps = [tree.do(settings())];
    for (const act of acts) steps.push(tree.do(act));
    list();
    go(steps.length - 1);
  }

  /** One more thing, behind the last one. */
  function add(act) {
    play(false);
    steps.push(tree.do(act));
    list();
    go(steps.length - 1);
  }

  function list() {
    $("steps").replaceChildren(...steps.map((step, number) => {
      const item = document.createElement("li");
      item.textContent = step.said;
      const told = step.events.map(eventInWords).join(" · ");
      if (told) {
        const small = document.createElement("small");
        small.textContent = told;
        item.append(small);
      }
      item.addEventListener("click", () => go(number));
      return item;
    }));
    $("step").max = steps.length - 1;
  }

  function go(to) {
    at = Math.max(0, Math.min(steps.length - 1, to));
    const step = steps[at];
    drawn = drawTree($("stage"), step, steps[at - 1]);
    const told = step.events.map(eventInWords);
    if (!told.length && at && /^(stored|erased)/.test(step.said)) told.push("in place: no node is made");
    $("said").textContent = [step.said, ...told].join(" · ");
    const { entries, nodes, bytes, fill } = step.figures;
    $("figures").textContent = `${entries} entries · ${nodes} nodes of 256 bytes (${bytes} bytes) · height ${step.height} · leaves ${fill} % full · the tree's own check: ${step.check}`;
    $("text").textContent = step.dump;
    $("step").value = at;
    $("step").setAttribute("aria-valuetext", `step ${at}: ${step.said}`);
    $("where").textContent = `${at} of ${steps.length - 1}`;
    [...$("steps").children].forEach((item, number) => {
      if (number === at) { item.setAttribute("aria-current", "step"); item.scrollIntoView({ block: "nearest" }); } else item.removeAttribute("aria-current");
    });
  }

  function play(on) {
    clearInterval(playing);
    playing = 0;
    $("play").setAttribute("aria-pressed", on);
    if (!on) return;
    if (at >= steps.length - 1) go(0);
    playing = setInterval(() => { go(at + 1); if (at >= steps.length - 1) play(false); }, 900);
  }

  /** Does what needs numbers from the form; a wrong one is told. */
  function tell(doing) {
    try { $("error").textContent = ""; doing(); } catch (error) { $("error").textContent = error.message; }
  }
  const number = id => parse($(id).value, $(id).parentElement.textContent.trim());
  const value = () => {
    const given = number("value");
    if (given > 65535n) throw new Error("value: from 0 to 65535");
    return Number(given);
  };

  $("form").addEventListener("submit", event => {
    event.preventDefault();
    tell(() => add({ what: "store", first: number("first"), last: number("last"), value: value() }));
  });
  $("erase").addEventListener("click", () => tell(() => add({ what: "erase", first: number("first"), last: number("last") })));
  $("get").addEventListener("click", () => tell(() => add({ what: "get", key: number("key") })));
  for (const which of ["lowest", "highest"])
    $(which).addEventListener("click", () => tell(() => add({ what: "gap", size: number("size"), highest: which === "highest" })));
  $("random").addEventListener("click", () => tell(() => {
    const first = Math.floor(Math.random() * 200), last = first + Math.floor(Math.random() * (Math.random() < 0.2 ? 60 : 8));
    add(Math.random() < 0.3 ? erased(first, last) : stored(first, last, 1 + Math.floor(Math.random() * 999)));
  }));
  $("clear").addEventListener("click", () => run([]));
  // Another kind of tree has the same history.
  for (const id of ["slots", "gaps"]) $(id).addEventListener("change", () => { const was = at; run(steps.slice(1).map(step => step.act)); go(was); });

  EXAMPLES.forEach(({ name }, number) => {
    const option = document.createElement("option");
    option.value = number;
    option.textContent = name;
    $("example").append(option);
  });
  $("watch").addEventListener("click", () => { run(EXAMPLES[$("example").value].acts()); go(0); play(true); });
  $("load").addEventListener("click", () => tell(() => {
    const areas = [...$("maps").value.matchAll(/^\s*([0-9a-f]{1,16})-([0-9a-f]{1,16})\s/gm)].map(([, start, end]) => [BigInt("0x" + start) >> 12n, (BigInt("0x" + end) >> 12n) - 1n]);
    if (!areas.length) throw new Error("no line of /proc/PID/maps was found");
    run(areas.map(([first, last], number) => ({ what: "store", first, last, value: (number + 1) % 65536 })));
  }));

  $("back").addEventListener("click", () => { play(false); go(at - 1); });
  $("on").addEventListener("click", () => { play(false); go(at + 1); });
  $("play").addEventListener("click", () => play(!playing));
  $("step").addEventListener("input", () => { play(false); go(Number($("step").value)); });

  function dress(dark) {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    $("theme").setAttribute("aria-pressed", dark);
  }
  const isDark = () => document.documentElement.dataset.theme === "dark";
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  prefers.addEventListener("change", event => dress(event.matches));
  $("theme").addEventListener("click", () => dress(!isDark()));
  dress(prefers.matches);

  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (/^(BUTTON|SUMMARY)$/.test(event.target.tagName) && (event.key === " " || event.key === "Enter")) return;
    const doing = {
      ArrowLeft: () => { play(false); go(at - 1); }, ArrowRight: () => { play(false); go(at + 1); }, Home: () => go(0), End: () => go(steps.length - 1),
      " ": () => play(!playing), t: () => dress(!isDark()),
    }[event.key];
    if (doing) { event.preventDefault(); doing(); }
  });

  // #2.5: the fifth step of the third example.
  const [example, step] = location.hash.slice(1).split(".").map(Number);
  const first = location.hash && EXAMPLES[example] ? example : 0;
  $("example").value = first;
  run(EXAMPLES[first].acts());
  if (step >= 0) go(step);

  // What is drawn and what the tree said, for whoever asks: tests do.
  window.playground = { add, run, go, tree, EXAMPLES, get drawn() { return drawn; }, get step() { return steps[at]; }, get steps() { return steps; }, get at() { return at; } };
}
