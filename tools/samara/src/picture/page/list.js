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
    element.addEventListener("scroll", () => this.show());
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

  /** Other items; `chosen` is scrolled into view. */
  set(count, chosen) {
    this.count = count;
    this.rows.style.height = count * ROW + "px";
    this.mark(chosen);
  }

  mark(chosen) {
    this.chosen = chosen;
    const top = chosen * ROW, { scrollTop, clientHeight } = this.element;
    if (chosen >= 0 && (top < scrollTop || top + ROW > scrollTop + clientHeight))
      this.element.scrollTop = Math.max(0, top - clientHeight / 2);
    this.show();
  }

  show() {
    const from = Math.max(0, Math.floor(this.element.scrollTop / ROW));
    const until = Math.min(this.count, from + Math.ceil(this.element.clientHeight / ROW) + 1);
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
      row.index = index;
      row.id = "row" + index;
      row.className = "row";
      row.style.top = index * ROW + "px";
      row.setAttribute("aria-posinset", index + 1);
      row.setAttribute("aria-setsize", this.count);
      row.setAttribute("aria-selected", index === this.chosen);
      row.textContent = "";
      this.fill(row, index);
    }
    if (this.chosen >= from && this.chosen < until) this.rows.setAttribute("aria-activedescendant", "row" + this.chosen);
    else this.rows.removeAttribute("aria-activedescendant");
  }
}
