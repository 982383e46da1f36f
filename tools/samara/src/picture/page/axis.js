"use strict";
// From addresses to heights and back. A height of 0 is address 0, one of 1 is the end.

/** Straight between `addresses[i]` at `heights[i]` and the next ones; both ascend. */
class Axis {
  constructor(addresses, heights) {
    this.addresses = addresses;
    this.heights = heights;
  }

  /** True distances. */
  static even(end) { return new Axis([0, end], [0, 1]); }

  /** Heights of a life's bands. */
  static ofBands(bands) {
    const addresses = [0], heights = [0];
    const whole = bands.reduce((sum, band) => sum + band.height, 0) || 1;
    let sum = 0;
    for (const band of bands) {
      addresses.push(band.end);
      heights.push((sum += band.height) / whole);
    }
    return new Axis(addresses, heights);
  }

  height(address) { return between(this.addresses, this.heights, address); }
  address(height) { return between(this.heights, this.addresses, height); }
  get end() { return this.addresses[this.addresses.length - 1]; }
}

function between(from, to, value) {
  let low = 0, high = from.length - 1;
  if (value <= from[0]) return to[0];
  if (value >= from[high]) return to[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle] <= value) low = middle; else high = middle;
  }
  return to[low] + (value - from[low]) / (from[high] - from[low]) * (to[high] - to[low]);
}
