"use strict";
// Helpers for the scripts of tests.

/**
 * Runs a script and leaves what it returns in the document, without any character of HTML. The document has not loaded until then: it contains another that is open
 * for writing. A limit of time, virtual or not, would run out while the script waits for frames that a busy machine has not drawn.
 */
function ask(script) {
  const loading = document.createElement("iframe");
  loading.hidden = true;
  document.body.append(loading);
  loading.contentDocument.open();
  window.failures = [];
  addEventListener("error", event => failures.push(event.message));
  const leave = answer => {
    const place = document.createElement("pre");
    place.id = "answer";
    place.textContent = JSON.stringify(answer).replace(/[<>&\u00a0]/g, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
    document.body.append(place);
    loading.contentDocument.close();
  };
  script().then(value => leave({ value: value === undefined ? null : value, error: failures[0] || null }),
    error => leave({ error: String(error && error.stack || error) }));
}

const frame = () => new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));

/** Presses a key, on what has the focus. */
function press(key, options = {}) {
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...options }));
}

/** The colour of a pixel of a canvas, as the style says it. */
function pixel(canvas, x, y) {
  const ratio = canvas.width / canvas.clientWidth;
  const [r, g, b] = canvas.getContext("2d").getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1).data;
  return `rgb(${r} ${g} ${b})`;
}

/** Everything that can be worked by hand and has no name for those who cannot see it. */
function nameless() {
  return [...document.querySelectorAll("button, input, select, canvas[tabindex], [role=tab], [role=listbox]")]
    .filter(element => !element.closest("[hidden]"))
    .filter(element => !(element.getAttribute("aria-label") || element.labels?.[0]?.textContent || element.textContent).trim())
    .map(element => element.outerHTML.slice(0, 80));
}
