// The living cluster: it is started, time is moved, and its start and acts are in the address.
import {$, hide, set, text} from './dom.js';
import * as actions from './actions.js';
import * as address from './address.js';
import {get, post, use} from './transport.js';

/** running is true while the page's source is a cluster. */
export let running = false;
let pace = {}, timer = 0, hidden = false, run = 0, instead;

/** otherwise sets what is called to leave a cluster that cannot run. */
export const otherwise = f => { instead = f; };

/** change makes a program the source; start is that of a cluster. A page that has stopped at a violation goes on. */
function change(program, start = '') {
  run++;
  clearInterval(timer);
  pace = {};
  use(new Worker(`worker.js?${program}#${encodeURIComponent(start)}`));
  if (!$('violation').hidden && !$('go-on').parentElement.hidden) $('go-on').click();
  sessionStorage.removeItem('seen');
}

/** begin starts a cluster of a start, see testbed/playground/start.go. It returns what went wrong. */
export async function begin(start) {
  running = true;
  address.set({recording: '', at: '', record: '', living: start});
  text($('living-says'), 'loading and starting; the recording has ended');
  $('recording').selectedIndex = -1; // so that each can be chosen
  text($('recording-about'), '');
  change('living', start);
  const mine = run, answer = await get('v1/pace');
  if (mine !== run) return 'Another one was started.';
  if (answer.error) return fail(answer.error);
  text($('living-start'), 'Start another one');
  hide($('living-pace'), false);
  actions.rights();
  show(answer);
  timer = setInterval(async () => { const now = await get('v1/pace'); if (mine === run) show(now); }, 500);
}

/** fail makes recordings the source again, and says why. */
function fail(error) {
  instead();
  const why = `No cluster runs here: ${error.message} The recordings are there.`;
  text($('living-says'), why);
  return why;
}

/** leave makes recordings the source again, and reports whether they were not. */
export function leave() {
  if (!running) return false;
  running = false;
  hide($('living-pace'), true);
  address.set({living: ''});
  text($('living-says'), '');
  change('player');
  actions.rights();
  return true;
}

/** guardless reports whether the cluster had a guard taken out. */
export const guardless = () => !!pace.start?.includes('*without*');

function show(answer) {
  if (!running) return;
  if (answer.error) return fail(answer.error);
  if (answer.start !== pace.start) address.set({living: answer.start});
  pace = answer;
  text($('living-at'), `${(pace.atMs / 1000).toFixed(pace.paused ? 6 : 1)} s`);
  text($('living-pause'), pace.paused ? 'Continue' : 'Pause');
  set($('living-pause'), 'data-paused', pace.paused && !pace.step && !pace.replays);
  $('living-speed').value = String(pace.speed);
  text($('living-reached'), pace.reached || '');
  text($('living-says'), `${pace.replays ? 'playing what the address says' : pace.step ? `on the way to the next ${pace.step}` : `${pace.heapMiB} MiB of memory`}${guardless() ? '; a guard is taken out' : ''}`);
}

/** move changes how time moves. */
export const move = async change => show(await post('v1/pace', change));

$('living-start').addEventListener('click', () => begin($('living-seed').value));
$('living-pause').addEventListener('click', () => move({paused: !pace.paused}));
$('living-speed').addEventListener('change', () => move({speed: Number($('living-speed').value)}));
for (const b of document.querySelectorAll('[data-living-step]')) b.addEventListener('click', () => move({step: b.dataset.livingStep}));
$('living-share').addEventListener('click', async () => {
  show(await get('v1/pace'));
  await navigator.clipboard.writeText(location.href).catch(() => {}); // the address bar has it too
});
/** A page that is not seen rests. */
document.addEventListener('visibilitychange', () => {
  if (!running || document.hidden === hidden || document.hidden && pace.paused) return;
  hidden = document.hidden;
  move({paused: hidden});
});

fetch('living.wasm.br', {method: 'HEAD'}).then(r => {
  const bytes = Number(r.headers.get('Content-Length'));
  if (bytes) text($('living-start'), `Start a cluster in this page (loads ${(bytes / 1e6).toFixed(1)} MB)`);
});
if (address.get('living')) begin(address.get('living'));
