"use strict";
// What a person does, and what is shown of it.

{
  const opened = performance.now();
  const $ = id => document.getElementById(id);
  const all = readAll($("data").textContent);
  const picture = new Picture($("areas"), $("marks"), all);
  let life = all.lives[0], step = 0, tab = "calls", areas = [], gaps = [], playing = 0;
  let redrawAreas = true, redrawMarks = true, asked = false;

  document.title = all.title ? all.title + " · Samara" : "Samara";
  $("title").textContent = all.title;

  // ── drawing, at most once a frame ──

  function ask(areasToo) {
    redrawMarks = true;
    redrawAreas ||= areasToo;
    if (!asked) { asked = true; requestAnimationFrame(draw); }
  }

  function draw() {
    asked = false;
    if (!life || !picture.view) return;
    if (redrawAreas) picture.drawAreas();
    if (redrawMarks) picture.drawMarks();
    redrawAreas = redrawMarks = false;
  }

  // ── the lists ──

  const list = new List($("list"), (row, index) => {
    if (tab === "calls") {
      const flags = life.flags[index];
      row.append(span("number", life.call[index] || ""), life.text(index));
      if (flags & DIFFERS) row.append("  ≠ kernel");
      if (flags & (FAILED | DIFFERS)) row.classList.add("bad");
      if (flags & HAPPENING) row.classList.add("soft");
    } else if (tab === "areas") {
      const stay = areas[index], look = all.looks[life.look[stay]];
      const colour = document.createElement("i");
      colour.style.background = picture.palette().fills[life.look[stay]];
      row.append(colour, `${range(life.start[stay], life.end[stay])} ${look.perms} ${size(life.end[stay] - life.start[stay]).padStart(9)}  ${base(look.name)}`);
    } else {
      const gap = gaps[index];
      row.append(`${range(gap.start, gap.end)} ${size(gap.end - gap.start).padStart(9)}`);
    }
  }, index => {
    if (tab === "calls") go(index);
    else if (tab === "areas") { choose(areas[index]); list.mark(index); }
    else {
      const gap = gaps[index], { axis, view } = picture;
      picture.look(axis.height(gap.start), axis.height(gap.end), view.from, view.to);
      list.mark(index);
      ask(true);
    }
  });

  function span(name, text) {
    const made = document.createElement("span");
    made.className = name;
    made.textContent = text;
    return made;
  }

  const range = (start, end) => `${hex(start)}-${hex(end)}`;

  function fillList(keep) {
    const counts = { calls: life.steps, areas: areas.length, gaps: gaps.length };
    const chosen = { calls: step, areas: areas.indexOf(picture.chosen), gaps: keep ? list.chosen : -1 };
    list.name({ calls: "Calls", areas: "Areas at this step", gaps: "Gaps at this step" }[tab]);
    list.set(counts[tab], chosen[tab], { calls: life, areas, gaps }[tab]);
  }

  let due = 0, waiting = 0;

  /** The list follows the steps as fast as it can within a third of the time, so that the picture stays smooth where text is slow. */
  function followList() {
    clearTimeout(waiting);
    const begun = performance.now();
    if (begun < due) { waiting = setTimeout(followList, due - begun); return; }
    fillList(true);
    const ended = performance.now();
    due = ended + 2 * (ended - begun);
  }

  function open(name) {
    tab = name;
    for (const other of ["calls", "areas", "gaps"]) {
      const button = $("tab-" + other);
      button.setAttribute("aria-selected", other === name);
      button.tabIndex = other === name ? 0 : -1;
    }
    $("list").setAttribute("aria-labelledby", "tab-" + name);
    list.rewind();
    fillList(false);
  }

  // ── the step ──

  let announce = 0;

  function go(to) {
    step = Math.max(0, Math.min(life.steps - 1, to));
    picture.step = step;
    areas = life.at(step);
    gaps = gapsOf(life, areas);
    $("step").value = step;
    $("step").setAttribute("aria-valuetext", `step ${step}: ${life.text(step)}`);
    $("where").textContent = `${step + 1} of ${life.steps}`;
    const mapped = areas.reduce((sum, stay) => sum + life.end[stay] - life.start[stay], 0);
    const largest = gaps.reduce((most, gap) => Math.max(most, gap.end - gap.start), 0);
    const widest = gaps.length > 1 ? `, the largest ${size(largest)}` : gaps.length ? ` of ${size(largest)}` : "";
    const figures = `${many(areas.length, "area")} · ${size(mapped)} mapped · ${many(gaps.length, "gap")}${widest}`;
    const what = document.createElement("b");
    what.textContent = life.text(step);
    const who = life.call[step] ? `call ${life.call[step]} · thread ${life.thread[step]} · ` : "";
    $("now").replaceChildren(what, who + figures);
    clearTimeout(announce);
    announce = setTimeout(() => { $("status").textContent = `Step ${step}: ${life.text(step)}. ${figures}.`; }, 400);
    const { from, to: until } = picture.view;
    if (step < from || step >= until) {
      const half = (until - from) / 2;
      picture.look(picture.view.low, picture.view.high, step - half, step + half);
      redrawAreas = true;
    }
    followList();
    ask(false);
  }

  /** What is known of a stay, line by line. */
  function story(stay) {
    const look = all.looks[life.look[stay]];
    const lines = [
      `${range(life.start[stay], life.end[stay])} ${look.perms}  ${size(life.end[stay] - life.start[stay])}`,
      `${all.kinds[look.kind]}${look.name ? " " + look.name : ""}${life.offset[stay] ? " from " + size(life.offset[stay]) : ""}`,
      `flags ${look.flags}`,
    ];
    if (life.held) {
      const { resident, dirty, swapped } = life.held[stay];
      lines.push(`in memory ${size(resident)}, of it changed ${size(dirty)}; swapped out ${size(swapped)}`);
    }
    if (life.steps < 2) return lines;
    const events = [];
    let at = stay, made = 0;
    while (at >= 0) {
      const { word, before } = life.origin(at);
      events.push(`${word} ${life.numbered(life.from[at])}`);
      made = life.from[at];
      at = before;
    }
    const written = life.written.find(({ step, start, end }) => start < life.end[stay] && end > life.start[stay] && step > made && step <= life.until[stay]);
    if (written) lines.push(`found written before ${life.numbered(written.step)}`);
    if (events.length > 5) events.splice(3, events.length - 4, `… ${events.length - 4} more changes …`);
    if (life.until[stay] !== FOREVER) lines.push(`then ${life.ending(stay)} ${life.numbered(life.until[stay])}`);
    return lines.concat(events);
  }

  function choose(stay) {
    picture.chosen = stay;
    $("detail").textContent = stay < 0 ? life.steps < 2 ? "Choose an area to read what it is." : "Choose an area to read which calls made, cut, joined and ended it." : story(stay).join("\n");
    ask(false);
  }

  function show(chosen) {
    life = chosen;
    picture.show(life);
    $("step").max = Math.max(0, life.steps - 1);
    const calls = life.flags.reduce((sum, flags) => sum + !(flags & HAPPENING), 0);
    const moment = life.steps < 2 && life.stays;
    $("time").hidden = $("tab-calls").hidden = moment;
    if (moment) open("areas");
    $("about").textContent = moment ? `${many(life.stays, "area")} at one moment · Linux ${all.kernel}` : `${many(calls, "call")} · ${many(life.stays, "shape")} of areas · Linux ${all.kernel}`;
    $("marks").setAttribute("aria-label", `Address space of ${life.program || all.title}: addresses upwards, ${many(life.steps, "step")} across`);
    choose(-1);
    // Behind the end there is nothing to see.
    go(life.gone >= 0 && life.steps > 1 ? life.steps - 2 : life.steps - 1);
    ask(true);
  }

  // ── tools ──

  all.lives.forEach((life, index) => {
    const option = document.createElement("option");
    option.value = index;
    option.textContent = `${life.number}: ${base(life.program) || "?"} (${many(life.steps, "step")}${life.parent >= 0 ? ", child of " + life.parent : ""})`;
    $("lives").append(option);
  });
  $("lives").addEventListener("change", () => show(all.lives[$("lives").value]));
  $("lives").parentElement.hidden = all.lives.length < 2;

  function toggleScale() {
    picture.toggle();
    $("scale").setAttribute("aria-pressed", picture.trueDistances);
    ask(true);
  }
  function fit() { picture.fit(); ask(true); }

  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  function dress(dark) {
    picture.isDark = dark;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    $("theme").setAttribute("aria-pressed", dark);
    const legend = all.kinds.map((name, kind) => {
      const item = document.createElement("li"), colour = document.createElement("i");
      colour.style.background = COLOURS[kind];
      item.append(colour, name);
      return item;
    });
    const gap = document.createElement("li"), colour = document.createElement("i");
    colour.style.background = picture.palette().gap;
    colour.style.border = "1px solid var(--line)";
    gap.append(colour, "gap (fainter: less access)");
    const written = document.createElement("li"), line = document.createElement("i");
    line.style.width = "2px";
    line.style.background = "var(--text)";
    written.append(line, "first found written");
    if (all.lives.some(life => life.held)) written.replaceChildren("strong: as much of it as is in memory");
    $("legend").replaceChildren(...legend, gap, written);
    if (life) { list.renew(); ask(true); }
  }
  prefersDark.addEventListener("change", event => dress(event.matches));

  $("scale").addEventListener("click", toggleScale);
  $("fit").addEventListener("click", fit);
  $("theme").addEventListener("click", () => dress(!picture.isDark));
  $("save").addEventListener("click", () => save("address-space.svg", "image/svg+xml", svgOf(picture)));
  $("back").addEventListener("click", () => go(step - 1));
  $("on").addEventListener("click", () => go(step + 1));
  $("step").addEventListener("input", () => go(Number($("step").value)));

  function play(on) {
    playing = on ? performance.now() : 0;
    $("play").setAttribute("aria-pressed", on);
    if (!on) return;
    if (step >= life.steps - 1) go(0);
    const begun = playing, first = step, pace = Math.max(8, life.steps / 20) / 1000;
    const tick = now => {
      if (playing !== begun) return;
      const to = first + Math.floor(Math.max(0, now - begun) * pace);
      if (to !== step) go(to);
      if (step >= life.steps - 1) play(false); else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }
  $("play").addEventListener("click", () => play(!playing));

  for (const name of ["calls", "areas", "gaps"]) {
    $("tab-" + name).addEventListener("click", () => open(name));
    $("tab-" + name).addEventListener("keydown", event => {
      const by = { ArrowLeft: 2, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      const names = ["calls", "areas", "gaps"], next = names[(names.indexOf(name) + by) % 3];
      open(next);
      $("tab-" + next).focus();
    });
  }

  // ── keys ──

  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey || !life) return;
    const target = event.target.tagName;
    if (target === "SELECT" || (target === "BUTTON" || target === "SUMMARY") && (event.key === " " || event.key === "Enter")) return;
    const middle = [picture.left + picture.plotWidth / 2, picture.plotHeight / 2];
    const far = event.shiftKey ? 10 : 1;
    const doing = {
      ArrowLeft: () => go(step - far), ArrowRight: () => go(step + far),
      PageUp: () => go(step - 100), PageDown: () => go(step + 100), Home: () => go(0), End: () => go(life.steps - 1),
      ArrowUp: () => { picture.move(0, 40); ask(true); }, ArrowDown: () => { picture.move(0, -40); ask(true); },
      "+": () => { picture.zoom(...middle, 1 / 1.4, 1); ask(true); }, "=": () => { picture.zoom(...middle, 1 / 1.4, 1); ask(true); },
      "-": () => { picture.zoom(...middle, 1.4, 1); ask(true); },
      ".": () => { picture.zoom(picture.x(step), middle[1], 1, 1 / 1.4); ask(true); },
      ",": () => { picture.zoom(picture.x(step), middle[1], 1, 1.4); ask(true); },
      "0": fit, l: toggleScale, t: () => dress(!picture.isDark), " ": () => play(!playing), Escape: () => choose(-1),
    }[event.key];
    if (!doing) return;
    event.preventDefault();
    doing();
  });

  // ── pointers ──

  const stage = $("marks"), tip = $("tip"), down = new Map();
  let dragged = false;
  const place = event => { const box = stage.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };

  function point(at) {
    const stay = picture.at(at.x, at.y);
    if (stay !== picture.hovered) { picture.hovered = stay; ask(false); }
    const tenants = at.x < picture.left ? picture.tenants(at.y) : [];
    tip.hidden = at.x < picture.left && !tenants.length || at.y > picture.plotHeight;
    if (tip.hidden) return;
    const address = picture.axis.address(picture.heightAt(at.y)), when = Math.floor(picture.timeAt(at.x));
    tip.textContent = tenants.length ? tenants.join("\n") : stay >= 0 ? story(stay).join("\n") : `${hex(Math.floor(address / PAGE) * PAGE)}: nothing is mapped after step ${when}`;
    const right = at.x > picture.width / 2, low = at.y > picture.height / 2;
    tip.style.left = right ? "" : at.x + 16 + "px";
    tip.style.right = right ? picture.width - at.x + 16 + "px" : "";
    tip.style.top = low ? "" : at.y + 12 + "px";
    tip.style.bottom = low ? picture.height - at.y + 12 + "px" : "";
  }

  stage.addEventListener("pointerdown", event => {
    stage.setPointerCapture(event.pointerId);
    down.set(event.pointerId, place(event));
    dragged = false;
  });
  stage.addEventListener("pointermove", event => {
    const at = place(event), was = down.get(event.pointerId);
    if (!was) { if (event.pointerType === "mouse") point(at); return; }
    if (!dragged && Math.hypot(at.x - was.x, at.y - was.y) < 4) return;
    dragged = true;
    tip.hidden = true;
    if (down.size === 1) picture.move(at.x - was.x, at.y - was.y);
    else {
      const other = [...down.entries()].find(([id]) => id !== event.pointerId)[1];
      const part = (a, b, c) => Math.abs(a - c) > 30 && Math.abs(b - c) > 30 ? Math.abs(a - c) / Math.abs(b - c) : 1;
      picture.zoom(other.x, other.y, part(was.y, at.y, other.y), part(was.x, at.x, other.x));
    }
    down.set(event.pointerId, at);
    ask(true);
  });
  const up = event => {
    const was = down.get(event.pointerId);
    down.delete(event.pointerId);
    if (!was || dragged || event.type === "pointercancel") return;
    const at = place(event);
    choose(picture.at(at.x, at.y));
    if (at.x >= picture.left) go(Math.floor(picture.timeAt(at.x)));
  };
  stage.addEventListener("pointerup", up);
  stage.addEventListener("pointercancel", up);
  stage.addEventListener("pointerleave", () => { tip.hidden = true; picture.hovered = -1; ask(false); });
  stage.addEventListener("dblclick", () => { if (picture.chosen >= 0) { picture.fill(picture.chosen); ask(true); } });
  stage.addEventListener("wheel", event => {
    event.preventDefault();
    const at = place(event), by = Math.exp((event.deltaY || event.deltaX) * 0.0015);
    picture.zoom(at.x, at.y, event.shiftKey ? 1 : by, event.shiftKey || event.ctrlKey ? by : 1);
    point(at);
    ask(true);
  }, { passive: false });

  // ── beginning ──

  function resize() {
    picture.resize();
    redrawAreas = redrawMarks = true;
    if (life) list.resize();
    // At once: the canvases are empty now.
    draw();
  }
  new ResizeObserver(resize).observe($("stage"));
  picture.resize();
  dress(prefersDark.matches);
  if (life) {
    // The program itself, or what has most to show of it.
    const busiest = all.lives.reduce((most, life, index) => life.steps > all.lives[most].steps ? index : most, 0);
    $("lives").value = busiest;
    show(all.lives[busiest]);
    const [chosen, at] = location.hash.slice(1).split(".").map(Number);
    if (all.lives[chosen] && location.hash) { $("lives").value = chosen; show(all.lives[chosen]); if (at >= 0) go(at); }
  } else {
    $("about").textContent = "Nothing was recorded.";
    $("picture").hidden = $("side").hidden = true;
  }
  draw();

  // What is drawn, for whoever asks: tests do.
  const describe = stay => {
    const look = all.looks[life.look[stay]];
    return { start: life.start[stay], end: life.end[stay], perms: look.perms, name: look.name, kind: all.kinds[look.kind], from: life.from[stay], until: life.until[stay] === FOREVER ? null : life.until[stay] };
  };
  window.samara = {
    all, picture, go, open, fit, toggleScale, draw, story,
    choose: index => show(all.lives[index]),
    get step() { return step; },
    get life() { return life; },
    areas: () => areas.map(describe),
    drawn: () => Array.from({ length: picture.drawnCount }, (_, n) => {
      const [stay, x, y, width, height] = picture.drawn.subarray(n * 5, n * 5 + 5);
      return { ...describe(stay), x, y, width, height };
    }),
    svg: () => svgOf(picture),
    /** Milliseconds from the start of the page to its first picture, and of these in its own scripts. */
    opening: { whole: performance.now(), scripts: performance.now() - opened },
  };
}
