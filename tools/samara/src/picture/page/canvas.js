"use strict";
// The picture: areas on one canvas, drawn when the view changes; marks on another above it, drawn at every step.

/** Colours that people with any colour vision tell apart (Okabe and Ito, and three more), by the numbers of kinds. */
const COLOURS = ["#0072b2", "#56b4e9", "#e69f00", "#d55e00", "#7b3fa0", "#e8d83a", "#cc79a7", "#8b5a2b", "#009e73", "#b4bbc4", "#8a8f98"];
/** How strong what is not in memory is, where that is known. */
const ABSENT = 0.4;
const BELOW = 22;

class Picture {
  constructor(areas, marks, all) {
    this.areas = areas;
    this.marks = marks;
    this.all = all;
    this.light = all.looks.map(look => fillOf(look, false));
    this.dark = all.looks.map(look => fillOf(look, true));
    this.isDark = false;
    this.life = null;
    this.step = 0;
    this.chosen = this.hovered = -1;
    this.trueDistances = false;
    this.drawn = new Float64Array(0);
    this.drawnCount = 0;
  }

  show(life) {
    this.life = life;
    this.byBands = Axis.ofBands(life.bands);
    this.byDistance = Axis.even(this.byBands.end);
    this.chosen = this.hovered = -1;
    this.fit();
  }

  get axis() { return this.trueDistances ? this.byDistance : this.byBands; }

  fit() { this.view = { low: 0, high: 1, from: 0, to: Math.max(1, this.life.steps) }; }

  /** Other heights for the same addresses in the middle. */
  toggle() {
    const { low, high } = this.view, was = this.axis;
    const addresses = [was.address(low), was.address(high)];
    this.trueDistances = !this.trueDistances;
    this.look(this.axis.height(addresses[0]), this.axis.height(addresses[1]), this.view.from, this.view.to);
  }

  /** Shows heights `low..high` and steps `from..to`, as far as there are any; at least a page and four steps. */
  look(low, high, from, to) {
    const axis = this.axis, middle = axis.address((low + high) / 2);
    const page = axis.height(Math.min(axis.end, middle + PAGE / 2)) - axis.height(Math.max(0, middle - PAGE / 2));
    [low, high] = within(low, high, page, 1);
    [from, to] = within(from, to, Math.min(4, this.life.steps), Math.max(1, this.life.steps));
    this.view = { low, high, from, to };
  }

  zoom(x, y, byAddress, byTime) {
    const { low, high, from, to } = this.view;
    const height = this.heightAt(y), time = this.timeAt(x);
    this.look(height - (height - low) * byAddress, height + (high - height) * byAddress,
      time - (time - from) * byTime, time + (to - time) * byTime);
  }

  move(dx, dy) {
    const { low, high, from, to } = this.view;
    const up = dy / this.plotHeight * (high - low), on = -dx / this.plotWidth * (to - from);
    this.look(low + up, high + up, from + on, to + on);
  }

  /** Fills most of the picture with one stay. */
  fill(stay) {
    const low = this.axis.height(this.life.start[stay]), high = this.axis.height(this.life.end[stay]);
    const room = (high - low) * 0.25;
    this.look(low - room, high + room, this.view.from, this.view.to);
  }

  resize() {
    const { clientWidth, clientHeight } = this.areas;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    for (const canvas of [this.areas, this.marks]) {
      canvas.width = Math.max(1, Math.round(clientWidth * ratio));
      canvas.height = Math.max(1, Math.round(clientHeight * ratio));
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.width = clientWidth;
    this.height = clientHeight;
    this.left = clientWidth < 560 ? 84 : 170;
    this.plotWidth = Math.max(1, clientWidth - this.left - 6);
    this.plotHeight = Math.max(1, clientHeight - BELOW);
  }

  x(step) { return this.left + (step - this.view.from) / (this.view.to - this.view.from) * this.plotWidth; }
  timeAt(x) { return this.view.from + (x - this.left) / this.plotWidth * (this.view.to - this.view.from); }
  y(height) { return (this.view.high - height) / (this.view.high - this.view.low) * this.plotHeight; }
  heightAt(y) { return this.view.high - y / this.plotHeight * (this.view.high - this.view.low); }

  /** The stay at a place of the canvas, or -1. */
  at(x, y) {
    const step = Math.floor(this.timeAt(x));
    if (x < this.left || y > this.plotHeight || step < 0 || step >= this.life.steps) return -1;
    return this.life.find(step, this.axis.address(this.heightAt(y)));
  }

  palette() {
    return this.isDark
      ? { back: "#101317", gap: "#1d2229", text: "#e8ebef", soft: "#9aa4b1", line: "#343b45", fills: this.dark, inside: "#ffffff" }
      : { back: "#ffffff", gap: "#eceef1", text: "#16191d", soft: "#5b636e", line: "#d5d9e0", fills: this.light, inside: "#10131a" };
  }

  drawAreas() {
    const { life, axis, plotWidth, plotHeight, left } = this;
    const colours = this.palette(), g = this.areas.getContext("2d");
    g.fillStyle = colours.back;
    g.fillRect(0, 0, this.width, this.height);
    g.save();
    g.beginPath();
    g.rect(left, 0, plotWidth, plotHeight);
    g.clip();
    g.fillStyle = colours.gap;
    if (this.trueDistances) g.fillRect(left, 0, plotWidth, plotHeight);
    else for (const band of life.bands) {
      const top = this.y(axis.height(band.end)), bottom = this.y(axis.height(band.start));
      if (!band.looks.length && bottom > 0 && top < plotHeight) g.fillRect(left, top, plotWidth, bottom - top);
    }
    this.rectangles(g, colours);
    this.writes(g, colours);
    g.restore();
    this.names(g, colours);
    this.ticks(g, colours);
  }

  /** All stays that are seen. Of those below a pixel, one for each pixel is drawn. */
  rectangles(g, colours) {
    const { life, axis, plotWidth, plotHeight, left, view } = this;
    const { start, end, from, until, look } = life;
    const lowest = axis.address(view.low), highest = axis.address(view.high);
    if (this.drawn.length < life.stays * 5) this.drawn = new Float64Array(life.stays * 5);
    const taken = new Uint8Array((Math.ceil(plotWidth) + 2) * (Math.ceil(plotHeight) + 2)), across = Math.ceil(plotWidth) + 2;
    const labels = [];
    let count = 0, fill = "";
    // Areas of one band often follow each other: what was found for one address serves the next.
    let lastAddress = -1, lastY = 0;
    const y = address => {
      if (address !== lastAddress) { lastAddress = address; lastY = this.y(axis.height(address)); }
      return lastY;
    };
    for (let i = 0; i < life.stays; i++) {
      if (end[i] <= lowest || start[i] >= highest || from[i] >= view.to || until[i] <= view.from) continue;
      const x0 = Math.max(left, this.x(from[i])), x1 = Math.min(left + plotWidth, this.x(Math.min(until[i], life.steps)));
      const bottom = Math.min(plotHeight, y(start[i])), top = Math.max(0, y(end[i]));
      let w = Math.max(x1 - x0, 0.75), h = Math.max(bottom - top, 1);
      if (w < 1.5 && h < 1.5) {
        const pixel = (x0 - left | 0) + (top | 0) * across;
        if (taken[pixel]) continue;
        taken[pixel] = 1;
      }
      const at = count++ * 5;
      this.drawn[at] = i;
      this.drawn[at + 1] = x0;
      this.drawn[at + 2] = top;
      this.drawn[at + 3] = w;
      this.drawn[at + 4] = h;
      const colour = colours.fills[look[i]];
      if (colour !== fill) g.fillStyle = fill = colour;
      const wide = w > 3 ? w - 0.5 : w, high = h > 3 ? h - 0.75 : h;
      if (life.held) {
        g.globalAlpha = ABSENT;
        g.fillRect(x0, top, wide, high);
        g.globalAlpha = 1;
        g.fillRect(x0, top, wide * Math.min(1, life.held[i].resident / (end[i] - start[i])), high);
      } else g.fillRect(x0, top, wide, high);
      if (h >= 14 && w >= 70) labels.push(at);
    }
    this.drawnCount = count;
    g.font = "11px ui-monospace, monospace";
    g.textBaseline = "middle";
    g.fillStyle = colours.inside;
    for (const at of labels) {
      const [i, x0, top, w, h] = this.drawn.subarray(at, at + 5);
      const { name, perms } = this.all.looks[look[i]];
      g.fillText(cut(perms + " " + base(name), w - 10, 6.7), x0 + 5, top + h / 2);
    }
  }

  /** Where, and before which step, pages were found written for the first time. */
  writes(g, colours) {
    const { life, axis, view } = this;
    g.fillStyle = colours.text;
    for (const { step, start, end } of life.written) {
      if (step < view.from || step >= view.to) continue;
      const top = this.y(axis.height(end)), bottom = this.y(axis.height(start));
      if (bottom > 0 && top < this.plotHeight) g.fillRect(this.x(step) - 0.75, top + 1, 1.5, Math.max(2, bottom - top - 2));
    }
  }

  /** At the left: what the bands are, or addresses. */
  names(g, colours) {
    const { life, axis, plotHeight, left } = this;
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.textAlign = "right";
    let free = Infinity;
    const write = (text, y, colour, more = "") => {
      if (y > free - 12 || y < 6) return;
      free = y;
      g.fillStyle = colour;
      g.fillText(cut(text, left - 10 - 6.4 * more.length, 6.4) + more, left - 6, y);
    };
    if (this.trueDistances) {
      const span = axis.address(this.view.high) - axis.address(this.view.low);
      const apart = Math.max(PAGE, 2 ** Math.ceil(Math.log2(span / 10)));
      for (let at = Math.ceil(axis.address(this.view.low) / apart) * apart; at <= axis.address(this.view.high); at += apart)
        write(hex(at), this.y(axis.height(at)), colours.soft);
    } else for (const band of life.bands) {
      const top = Math.max(0, this.y(axis.height(band.end))), bottom = Math.min(plotHeight, this.y(axis.height(band.start)));
      if (bottom - top < 9) continue;
      const look = this.all.looks[band.looks[0]], others = band.looks.length - 1;
      const text = look ? base(look.name) || this.all.kinds[look.kind] : "gap of " + size(band.end - band.start);
      write(text, (top + bottom) / 2, look ? colours.text : colours.soft, others > 0 ? ` and ${others} more` : "");
    }
    g.textAlign = "left";
  }

  /** All that was ever mapped in the band whose name is written at that height, the largest share first; of a gap, nothing. */
  tenants(y) {
    if (this.trueDistances) return [];
    const address = this.axis.address(this.heightAt(y));
    const band = this.life.bands.find(band => address < band.end);
    const names = (band ? band.looks : []).map(look => this.all.looks[look].name || this.all.kinds[this.all.looks[look].kind]);
    return names.length > 40 ? [...names.slice(0, 40), `and ${names.length - 40} more`] : names;
  }

  ticks(g, colours) {
    if (this.life.steps < 2) return;
    const { from, to } = this.view, { plotHeight, left, plotWidth } = this;
    const rough = (to - from) / Math.max(2, plotWidth / 90), power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
    const apart = Math.max(1, [1, 2, 5, 10].find(m => m * power >= rough) * power);
    g.fillStyle = colours.soft;
    g.strokeStyle = colours.line;
    g.textBaseline = "top";
    g.beginPath();
    g.moveTo(left, plotHeight + 0.5);
    g.lineTo(left + plotWidth, plotHeight + 0.5);
    for (let step = Math.ceil(from / apart) * apart; step < to; step += apart) {
      const x = this.x(step);
      g.moveTo(x, plotHeight);
      g.lineTo(x, plotHeight + 4);
      g.fillText(grouped(step), x + 3, plotHeight + 6);
    }
    g.stroke();
    g.textAlign = "right";
    g.fillText("step", left - 6, plotHeight + 6);
    g.textAlign = "left";
  }

  /** The step that is looked at, what it made, and what a person points at. */
  drawMarks() {
    const { life, axis, step, plotHeight, plotWidth, left } = this;
    const g = this.marks.getContext("2d"), colours = this.palette();
    g.clearRect(0, 0, this.width, this.height);
    g.save();
    g.beginPath();
    g.rect(left, 0, plotWidth, plotHeight);
    g.clip();
    const x0 = this.x(step), x1 = this.x(step + 1);
    g.fillStyle = this.isDark ? "rgb(255 255 255 / 25%)" : "rgb(0 0 0 / 18%)";
    g.fillRect(x0, 0, Math.max(1.5, x1 - x0), plotHeight);
    const outline = (stay, colour, wide) => {
      const left = this.x(life.from[stay]), right = this.x(Math.min(life.until[stay], life.steps));
      const top = this.y(axis.height(life.end[stay])), bottom = this.y(axis.height(life.start[stay]));
      g.strokeStyle = colour;
      g.lineWidth = wide;
      g.strokeRect(left - 1, top - 1, Math.max(2, right - left) + 2, Math.max(2, bottom - top) + 2);
    };
    if (life.steps) for (const stay of life.begun(step).subarray(0, 200)) outline(stay, colours.text, 1);
    if (this.hovered >= 0) outline(this.hovered, colours.text, 2);
    if (this.chosen >= 0) outline(this.chosen, "#ff2d78", 2);
    g.restore();
  }
}

/** `low..high`, at least `least` long and within 0 and `most`. */
function within(low, high, least, most) {
  const length = Math.min(most, Math.max(least, high - low));
  low = Math.min(most - length, Math.max(0, (low + high - length) / 2));
  return [low, low + length];
}

/** The colour of a look: its kind's, the fainter the less may be done. */
function fillOf(look, dark) {
  const [r, w, x] = look.perms;
  const strength = w === "w" ? 0.92 : x === "x" ? 0.78 : r === "r" ? 0.55 : 0.25;
  const colour = COLOURS[look.kind] || COLOURS.at(-1), back = dark ? [16, 19, 23] : [255, 255, 255];
  const part = i => Math.round(parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16) * strength + back[i] * (1 - strength));
  return `rgb(${part(0)} ${part(1)} ${part(2)})`;
}

const base = path => path.startsWith("/") ? path.slice(path.lastIndexOf("/") + 1) : path;

/** As much of a text as fits, with characters of about that width. */
function cut(text, width, each) {
  const room = Math.floor(width / each);
  return text.length <= room ? text : room > 1 ? text.slice(0, room - 1) + "…" : "";
}
