// The position in a recording: play, pause, steps, speed, and a time axis that can be dragged.
import {$, draw, hide, keyed, make, number, set, text} from './dom.js';
import {send} from './actions.js';

const kinds = ['message', 'event', 'fault', 'election', 'violation'], speeds = [0.001, 0.01, 0.1, 0.5, 1, 2, 5, 20];
const left = 9; // half of the slider's thumb
const dots = new Map();
let state, axis, slider, width = 600, dragging = false, waiting = null, busy = false;

/** ask sends a request; of several that wait only the newest is sent. */
async function ask(request) {
  if (busy) { waiting = request; return; }
  busy = true;
  const answer = await send(request);
  busy = false;
  text($('playback-says'), answer.error ? answer.error.message : '');
  if (waiting) { const next = waiting; waiting = null; ask(next); }
}

export function init(s) {
  state = s;
  slider = $('position');
  axis = draw('g');
  $('marks').append(axis);
  $('play-pause').addEventListener('click', () => ask({do: state.playback.paused ? 'play' : 'pause'}));
  for (const [id, what, sign] of [['steps-back', 'previous', '\u25c2 '], ['steps-on', 'next', ' \u25b8']]) {
    for (const kind of kinds) {
      const b = make('button', {type: 'button', 'data-step': `${what} ${kind}`, 'aria-label': `${what} ${kind}`}, what === 'next' ? kind + sign : sign + kind);
      b.addEventListener('click', () => ask({do: what, value: kind}));
      $(id).append(b);
    }
  }
  $('speed').append(...speeds.map(v => make('option', {value: v}, `${v} times`)));
  $('speed').addEventListener('change', () => ask({do: 'speed', value: $('speed').value}));
  slider.addEventListener('input', () => { dragging = true; where(Number(slider.value)); ask({do: 'seek', value: slider.value}); });
  slider.addEventListener('change', () => { dragging = false; });
  document.addEventListener('keydown', e => {
    if (state.mode !== 'recording' || e.ctrlKey || e.altKey || e.metaKey || /^(INPUT|SELECT|BUTTON)$/.test(e.target.tagName) || e.target.getAttribute('role') === 'gridcell') return;
    const request = {' ': {do: state.playback.paused ? 'play' : 'pause'}, '.': {do: 'next', value: 'message'}, ',': {do: 'previous', value: 'message'},
      n: {do: 'next', value: 'event'}, p: {do: 'previous', value: 'event'}, f: {do: 'next', value: 'fault'}, v: {do: 'next', value: 'violation'}}[e.key];
    if (request) { e.preventDefault(); ask(request); }
  });
  new ResizeObserver(() => { width = $('marks').clientWidth || 600; set($('marks'), 'viewBox', `0 0 ${width} 26`); marks(); }).observe($('marks'));
}

export function show(s, changed, all) {
  hide($('playback'), s.mode !== 'recording');
  set(document.documentElement, 'data-mode', s.mode);
  if (s.mode !== 'recording' || !s.playback) return;
  if (changed.has('marks') || all) marks();
  if (!changed.has('playback') && !all) return;
  const p = s.playback;
  set(slider, 'min', p.fromMs);
  set(slider, 'max', p.lastsMs);
  if (!dragging) slider.value = p.atMs;
  where(p.atMs);
  text($('play-pause'), p.paused ? '\u25b6 play' : '\u23f8 pause');
  set($('play-pause'), 'data-paused', String(p.paused));
  if (document.activeElement !== $('speed')) $('speed').value = String(p.speed);
  text($('record'), `record ${number(p.record)} of ${number(p.records)}`);
}

/** where shows a time, and where it is on the axis. */
function where(ms) {
  text($('position-at'), `${(ms / 1000).toFixed(3)} s`);
  set(slider, 'aria-valuetext', `${(ms / 1000).toFixed(3)} seconds`);
}

/** marks draws the faults, elections and violations above the slider. */
function marks() {
  const p = state?.playback;
  if (!p) return;
  const all = state.marks || [], x = ms => left + (width - 2 * left) * (ms - p.fromMs) / Math.max(1, p.lastsMs - p.fromMs);
  const shape = {fault: 'M0 4l4 8h-8z', election: 'M0 4l4 4-4 4-4-4z', violation: 'M-4 4l8 8m0-8l-8 8'};
  keyed(axis, all.map((_, i) => String(i)), i => draw('path', {class: all[i].kind, d: shape[all[i].kind], tabindex: -1}, draw('title')), (el, i) => {
    const m = all[i];
    set(el, 'class', m.kind);
    set(el, 'd', shape[m.kind]);
    set(el, 'transform', `translate(${x(m.atMs).toFixed(1)} ${{fault: 0, election: 10, violation: 5}[m.kind]})`);
    text(el.firstChild, `${(m.atMs / 1000).toFixed(3)} s: ${m.what}`);
    el.onclick = () => ask({do: 'seek', value: String(m.atMs)});
  }, dots);
}
