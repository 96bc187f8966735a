// What the page shows, as its address says: a recording at a moment, or a living cluster with its start and acts, whose time is moved.
import {$, hide, set, text} from './dom.js';
import * as actions from './actions.js';
import * as address from './address.js';
import {parts} from './main.js';
import {get, post, use} from './transport.js';

/** living is true while the page's source is a cluster. */
export let living = false;
const offer = $('living-says').textContent, share = $('living-share').textContent;
let pace = {}, position = {}, timer = 0, run = 0, hidden = false, asked = -1;

/** open shows what the address says, in a worker that reads it too; transport.js has begun the first one. It returns what went wrong. */
async function open() {
  const mine = ++run;
  clearTimeout(timer);
  timer = 0;
  pace = {};
  living = !!address.get('living');
  if (mine > 1) use(new Worker(`worker.js${location.hash}`));
  // A page that has stopped at a violation goes on.
  if (!$('violation').hidden && !$('go-on').parentElement.hidden) $('go-on').click();
  sessionStorage.removeItem('seen');
  $('recording').value = living ? '' : address.get('recording'); // of a cluster none, so that each can be chosen
  if (!living && !$('recording').value) $('recording').value = $('recording').options[0].value;
  text($('recording-about'), (living ? '' : ignored()) + ($('recording').selectedOptions[0]?.dataset.about || ''));
  text($('living-says'), living ? 'loading and starting; the recording has ended' : offer);
  hide($('living-pace'), true);
  const {error} = await actions.rights();
  if (mine !== run) return 'Another one was started.';
  if (!living) return error?.message;
  if (error) return fail(error);
  text($('living-start'), 'Start another one');
  hide($('living-pace'), false);
  timer = setInterval(look, 500);
  return look();
}

/** ignored says what of an address the worker does not follow. */
function ignored() {
  const recording = address.get('recording'), at = address.get('at');
  if (recording && recording !== $('recording').value) return `There is no recording ${recording}; this is the first one. `;
  return at && !(1000 * at >= 0) ? `${at} is no time in seconds; it is played from its beginning. ` : '';
}

/** turn shows something else. It returns what went wrong. */
function turn(to) {
  address.set({recording: '', at: '', record: '', living: '', ...to});
  return open();
}

/** begin starts a cluster of a start, see testbed/playground/start.go. It returns what went wrong. */
export const begin = start => turn({living: start || '1'});

/** choose plays a recording from its beginning, '' the first. It returns what went wrong. */
export const choose = recording => turn({recording});

/** fail makes recordings the source again, and says why. */
function fail(error) {
  const why = `No cluster runs here: ${error.message} The recordings are there.`;
  choose('');
  text($('living-says'), why);
  return why;
}

/** guardless reports whether the cluster had a guard taken out. */
export const guardless = () => !!pace.start?.includes('*without*');

function show(answer) {
  if (!living) return;
  if (answer.error) return fail(answer.error);
  if (answer.start !== pace.start) address.set({living: answer.start});
  pace = answer;
  text($('living-at'), `${(pace.atMs / 1000).toFixed(pace.paused ? 6 : 1)} s`);
  text($('living-pause'), pace.paused ? 'Continue' : 'Pause');
  set($('living-pause'), 'data-paused', pace.paused && !pace.step);
  $('living-speed').value = String(pace.speed);
  text($('living-reached'), pace.atMs === asked ? 'What you have asked for happens when the cluster continues.' : pace.reached || '');
  text($('living-says'), `${pace.step === 'moment' ? 'playing what the address says' : pace.step ? `on the way to the next ${pace.step}` : `${pace.heapMiB} MiB of memory`}${guardless() ? '; a guard is taken out' : ''}`);
}

const look = async () => show(await get('v1/pace'));

/** move changes how time moves. */
export const move = async change => show(await post('v1/pace', change));

$('recording').addEventListener('change', () => choose($('recording').value));
$('living-start').addEventListener('click', () => begin($('living-seed').value));
$('living-pause').addEventListener('click', () => move({paused: !pace.paused}));
$('living-speed').addEventListener('change', () => move({speed: Number($('living-speed').value)}));
for (const b of document.querySelectorAll('[data-living-step]')) b.addEventListener('click', () => move({step: b.dataset.livingStep}));
$('living-share').addEventListener('click', async () => {
  await look();
  await navigator.clipboard.writeText(location.href).then(() => 'Copied', () => 'Copy it from the address bar').then(said => text($('living-share'), said));
  setTimeout(() => text($('living-share'), share), 1000);
});
$('confirm-do').addEventListener('click', async () => {
  await look();
  asked = pace.paused && !pace.step ? pace.atMs : -1;
  show(pace);
});
$('go-on').addEventListener('click', () => { if (pace.paused) move({paused: false}); }); // open, which clicks it too, knows no pace yet
addEventListener('hashchange', e => {
  const was = new URLSearchParams(new URL(e.oldURL).hash.slice(1));
  if ((address.get('recording') || address.get('living')) && ['recording', 'at', 'record', 'living'].some(name => (was.get(name) || '') !== address.get(name))) open();
});
/** A page that is not seen rests. */
document.addEventListener('visibilitychange', async () => {
  if (!living || document.hidden === hidden || document.hidden && pace.paused) return;
  hidden = document.hidden;
  await move({paused: hidden});
  if (pace.step === 'moment') hidden = false; // it pauses there, and does not go on when the page is seen
});

/** The address follows the position in a recording, not more often than browsers permit. */
parts.push({show(s, changed) {
  const recording = $('recording').value;
  if (living || s.title !== `recording of ${recording}` || !s.playback || !changed.has('playback')) return;
  position = {recording, at: String(Number((s.playback.atMs / 1000).toFixed(9))), record: String(s.playback.record)};
  timer ||= setTimeout(() => { timer = 0; address.set(position); }, 500);
}});

fetch('living.wasm.br', {method: 'HEAD'}).then(r => {
  const bytes = Number(r.headers.get('Content-Length'));
  if (bytes) text($('living-start'), `Start a cluster in this page (loads ${(bytes / 1e6).toFixed(1)} MB)`);
});
open();
