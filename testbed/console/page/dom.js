// Small helpers: everything that is shown is changed only where it differs.

export const $ = id => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

/** make returns a new element with attributes and children. */
export function make(name, attrs = {}, ...children) {
  return fill(document.createElement(name), attrs, children);
}

/** draw returns a new element of an SVG. */
export function draw(name, attrs = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attrs, children);
}

function fill(el, attrs, children) {
  for (const [k, v] of Object.entries(attrs)) set(el, k, v);
  el.append(...children);
  return el;
}

/** set sets an attribute if it differs; null removes it. */
export function set(el, name, value) {
  if (value === null || value === undefined) {
    if (el.hasAttribute(name)) el.removeAttribute(name);
  } else if (el.getAttribute(name) !== String(value)) {
    el.setAttribute(name, value);
  }
}

/** text sets the text of an element if it differs. */
export function text(el, value) {
  value = String(value);
  if (el.textContent !== value) el.textContent = value;
}

/** hide shows or hides an element. */
export function hide(el, hidden) {
  if (el.hidden !== hidden) el.hidden = hidden;
}

/** keyed makes the children of a parent those of the keys, in order; it keeps what is there already. */
export function keyed(parent, keys, create, update, index = new Map()) {
  const wanted = new Set(keys);
  for (const [k, el] of index) {
    if (!wanted.has(k)) {
      el.remove();
      index.delete(k);
    }
  }
  let before = null;
  for (let i = keys.length - 1; i >= 0; i--) {
    const k = keys[i];
    let el = index.get(k);
    if (!el) index.set(k, el = create(k));
    if (el.parentNode !== parent || el.nextSibling !== before) parent.insertBefore(el, before);
    update(el, k);
    before = el;
  }
  return index;
}

const two = n => String(n).padStart(2, '0');

/** simulated is when a cluster in virtual time begins, by its own clock. */
const simulated = Date.UTC(2000, 0, 1);

/** clock formats a time: of the wall clock, or seconds since the beginning of a recording or of a simulated cluster. */
export function clock(ms, recording = false) {
  if (!recording && ms < simulated + 1e10) [ms, recording] = [ms - simulated, true];
  if (recording) return (ms / 1000).toFixed(3) + ' s';
  const d = new Date(ms);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, '0')}`;
}

/** span formats milliseconds. */
export function span(ms) {
  if (ms < 0) return '-';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

/** number formats a count: 1,024. Formatters and collators are made once, since making one takes longer than using it. */
export const number = new Intl.NumberFormat('en-US').format;

/** natural sorts data-10 after data-9. */
export const natural = new Intl.Collator('en', {numeric: true}).compare;
