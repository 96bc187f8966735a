// The living cluster: it is started, time is moved, and its start and acts are in the address.
import {$, hide, set, text} from './dom.js';
import * as actions from './actions.js';
import * as address from './address.js';
import {get, post, use} from './transport.js';

/** running is true while the page's source is a cluster. */
export let running = false;
let pace = {}, timer = 0, hidden = false;

/** begin starts a cluster of a start, see testbed/playground/start.go. */
async function begin(start) {
  running = true;
  address.set({recording: '', at: '', record: '', living: start});
  text($('living-says'), 'loading and starting; the recording has ended');
  use(new Worker('worker.js?living'));
  const answer = await post('v1/start', start);
  if (answer.error) {
    text($('living-says'), `No cluster runs here: ${answer.error.message} Choose a recording.`);
    return;
  }
  text($('living-start'), 'Start another one');
  hide($('living-pace'), false);
  actions.rights();
  show(answer);
  clearInterval(timer);
  timer = setInterval(async () => show(await get('v1/pace')), 500);
}

/** leave makes recordings the source again. */
export function leave() {
  if (!running) return;
  running = false;
  clearInterval(timer);
  hide($('living-pace'), true);
  address.set({living: ''});
  use(new Worker('worker.js?player'));
  actions.rights();
}

function show(answer) {
  if (!running) return;
  if (answer.error) return text($('living-says'), answer.error.message);
  if (answer.start !== pace.start) address.set({living: answer.start});
  pace = answer;
  text($('living-at'), `${(pace.atMs / 1000).toFixed(pace.paused ? 6 : 1)} s`);
  text($('living-pause'), pace.paused ? 'Continue' : 'Pause');
  set($('living-pause'), 'data-paused', pace.paused && !pace.step && !pace.replays);
  text($('living-reached'), pace.reached || '');
  text($('living-says'), pace.replays ? 'playing what the address says' : pace.step ? `on the way to the next ${pace.step}` : `${pace.heapMiB} MiB of memory`);
}

const move = async change => show(await post('v1/pace', change));

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
