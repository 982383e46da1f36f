"use strict";
// A list of which only what is seen is in the document.

const ROW = 24;

class List {
  /** `fill(row, index)` puts an item into an element; `choose(index)` is called when a person does. */
  constructor(element, fill, choose) {
    this.element = element;
    this.fill = fill;
    this.choose = choose;
    this.count = 0;
    this.chosen = -1;
    this.rows = document.createElement("div");
    this.rows.className = "rows";
    this.rows.tabIndex = 0;
    this.rows.setAttribute("role", "listbox");
    element.append(this.rows);
    this.pool = [];
    this.version = 0;
    // Asking the element for these would lay the page out again, at every step.
    this.top = 0;
    this.room = element.clientHeight;
    new ResizeObserver(() => this.resize()).observe(element);
    element.addEventListener("scroll", () => {
      if (element.scrollTop === this.top) return;
      this.top = element.scrollTop;
      this.show();
    });
    this.rows.addEventListener("click", event => {
      const row = event.target.closest(".row");
      if (row) this.choose(row.index);
    });
    this.rows.addEventListener("keydown", event => {
      const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!by || !this.count) return;
      event.preventDefault();
      event.stopPropagation();
      this.choose(Math.min(this.count - 1, Math.max(0, this.chosen + by)));
    });
  }

  name(text) { this.rows.setAttribute("aria-label", text); }

  /** Items, which are others if `key` is another; `chosen` is scrolled into view. */
  set(count, chosen, key) {
    if (key !== this.key) {
      this.key = key;
      this.version++;
    }
    if (count !== this.count) {
      this.count = count;
      this.rows.style.height = count * ROW + "px";
    }
    this.mark(chosen);
  }

  mark(chosen) {
    this.chosen = chosen;
    const at = chosen * ROW, last = Math.max(0, this.count * ROW - this.room);
    let top = Math.min(this.top, last);
    if (chosen >= 0 && (at < top || at + ROW > top + this.room)) top = Math.round(Math.min(last, Math.max(0, at - this.room / 2)));
    const moved = top !== this.top;
    this.top = top;
    this.show();
    // Last, since it lays the rows out.
    if (moved) this.element.scrollTop = top;
  }

  /** From the first item on. */
  rewind() {
    this.top = 0;
    this.element.scrollTop = 0;
  }

  /** The items look otherwise than before. */
  renew() {
    this.version++;
    this.show();
  }

  resize() {
    this.room = this.element.clientHeight;
    this.show();
  }

  show() {
    const from = Math.max(0, Math.floor(this.top / ROW));
    const until = Math.min(this.count, from + Math.ceil(this.room / ROW) + 1);
    for (let place = 0; place < Math.max(until - from, this.pool.length); place++) {
      let row = this.pool[place];
      const index = from + place;
      if (index >= until) { row.hidden = true; continue; }
      if (!row) {
        row = document.createElement("div");
        row.setAttribute("role", "option");
        this.pool.push(row);
        this.rows.append(row);
      }
      row.hidden = false;
      if (row.index !== index || row.version !== this.version) {
        row.index = index;
        row.version = this.version;
        row.id = "row" + index;
        row.className = "row";
        row.style.top = index * ROW + "px";
        row.setAttribute("aria-posinset", index + 1);
        row.setAttribute("aria-setsize", this.count);
        row.textContent = "";
        this.fill(row, index);
      }
      const selected = String(index === this.chosen);
      if (row.getAttribute("aria-selected") !== selected) row.setAttribute("aria-selected", selected);
    }
    if (this.chosen >= from && this.chosen < until) this.rows.setAttribute("aria-activedescendant", "row" + this.chosen);
    else this.rows.removeAttribute("aria-activedescendant");
  }
}
