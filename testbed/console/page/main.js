// The stream of the server and what is drawn when a part of the state changes.
import {$, clock, hide, number, set, text} from './dom.js';
import * as map from './map.js';
import * as slots from './slots.js';
import * as terms from './terms.js';
import * as promises from './promises.js';
import * as plot from './plot.js';
import * as events from './events.js';
import * as actions from './actions.js';
import * as play from './play.js';
import * as playback from './playback.js';
import * as sequence from './sequence.js';
import * as why from './why.js';
import * as services from './services.js';
import {events as listen} from './transport.js';

const maps = ['nodes', 'clients', 'links', 'slots', 'terms', 'believed', 'promises', 'points', 'outcomes'];
/** cleared are the other parts, which a snapshot leaves out when there is nothing. */
const cleared = ['offers', 'play', 'load', 'broken', 'checking', 'watching'];
/** parts show something each; a page that has more adds its own. */
export const parts = [map, slots, terms, promises, plot, events, actions, play, playback, sequence, why, services];

/** state is what the server shows; entries of maps are replaced, never changed. */
const state = {};
/** stats are read by tests: the milliseconds that each update took. */
const stats = window.consoleStats = {updates: 0, took: []};
let close, stopped = false;

function empty() {
  for (const k of Object.keys(state)) delete state[k];
  for (const k of maps) state[k] = {};
  state.events = [];
  state.now = 0; // the beginning of a recording
}

/** apply takes a message and draws what has changed. */
function apply(kind, change) {
  const began = performance.now();
  if (kind === 'snapshot') empty();
  for (const [k, v] of Object.entries(change)) {
    if (k === 'events') {
      state.events = v;
    } else if (maps.includes(k)) {
      for (const [name, entry] of Object.entries(v || {})) {
        if (entry === null) delete state[k][name];
        else state[k][name] = entry;
      }
    } else {
      state[k] = v;
    }
  }
  if (kind === 'snapshot') for (const k of [...maps, ...cleared]) if (!(k in change)) change[k] = null;
  const changed = new Set(Object.keys(change));
  for (const part of parts) part.show(state, changed, kind === 'snapshot', change);
  head();
  if (changed.has('broken')) violation();
  stats.updates++;
  stats.took.push(performance.now() - began);
  if (stats.took.length > 1000) stats.took.shift();
}

/** head shows the facts of the first line. */
function head() {
  text($('title'), state.title || '');
  text($('leader'), state.leader && state.nodes[state.leader]?.leads !== false ? state.leader : state.term ? 'none' : '-');
  text($('term'), state.term || '-');
  const checks = Object.values(state.promises).reduce((n, p) => n + p.checks, 0);
  const broken = Object.values(state.promises).reduce((n, p) => n + p.broken, 0);
  text($('checks'), checks ? number(checks) : '-');
  text($('broken'), checks ? broken : '-');
  set($('broken'), 'class', broken ? 'bad' : checks ? 'ok' : null);
  const load = state.term && state.load; // before the first term nothing can be published
  text($('missing'), load ? load.missing : '-');
  set($('missing'), 'class', load ? (load.missing ? 'bad' : 'ok') : null);
}

/** violation stops the page at the first violation, once. */
function violation() {
  const b = state.broken;
  const known = b && sessionStorage.getItem('seen') === String(b.at);
  hide($('violation'), !b);
  set(document.documentElement, 'data-broken', b ? b.id : null);
  if (!b) return;
  text($('violation-what'), `${b.id}: ${b.what}`);
  text($('violation-at'), clock(b.at));
  $('violation-at').disabled = !state.why;
  text($('violation-evidence'), (b.evidence || []).join('\n'));
  text($('violation-before'), (b.before || []).join('\n'));
  hide($('go-on').parentElement, known || state.mode === 'recording');
  if (known || state.mode === 'recording') return;
  stopped = true;
  close();
  status('stopped at a violation');
}

$('violation-at').addEventListener('click', () => why.ask(''));
$('go-on').addEventListener('click', () => {
  sessionStorage.setItem('seen', String(state.broken.at));
  stopped = false;
  hide($('go-on').parentElement, true);
  connect();
});

function status(what) {
  text($('link'), what);
}

/** connect opens the stream, which connects again by itself. */
function connect() {
  const take = kind => change => {
    if (stopped) return;
    apply(kind, change);
    if (!stopped) status(state.mode === 'recording' ? 'a recording' : 'live');
  };
  close = listen('v1/stream', {snapshot: take('snapshot'), change: take('change')}, why => { if (!stopped) status(why); });
}

empty();
actions.start(state);
for (const part of parts) part.init?.(state);
connect();
