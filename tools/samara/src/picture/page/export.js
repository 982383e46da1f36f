"use strict";
// The picture as it is seen, as SVG. The document model writes it, which escapes what programs called things.

const SVG = "http://www.w3.org/2000/svg";

function svgOf(picture) {
  const colours = picture.palette(), { life, all } = picture;
  const root = element("svg", { xmlns: SVG, viewBox: `0 0 ${picture.width} ${picture.height}`, "font-family": "sans-serif", "font-size": 11 });
  root.append(element("rect", { width: picture.width, height: picture.height, fill: colours.back }));
  for (let n = 0; n < picture.drawnCount; n++) {
    const [stay, x, y, width, height] = picture.drawn.subarray(n * 5, n * 5 + 5);
    const look = all.looks[life.look[stay]];
    const rect = element("rect", { x: short(x), y: short(y), width: short(width), height: short(height), fill: colours.fills[life.look[stay]] });
    const title = element("title", {});
    title.textContent = `${hex(life.start[stay])}-${hex(life.end[stay])} ${look.perms} ${look.name}`;
    rect.append(title);
    root.append(rect);
  }
  // The names at the left are written as on the canvas, by something that takes them down.
  const taker = { fillStyle: "", textAlign: "left", font: "", textBaseline: "", fillText(text, x, y) {
    const item = element("text", { x: short(x), y: short(y), fill: this.fillStyle, "text-anchor": this.textAlign === "right" ? "end" : "start", "dominant-baseline": "central" });
    item.textContent = text;
    root.append(item);
  } };
  picture.names(taker, colours);
  return new XMLSerializer().serializeToString(root);
}

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (key !== "xmlns") made.setAttribute(key, value);
  return made;
}

const short = number => Math.round(number * 100) / 100;

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
