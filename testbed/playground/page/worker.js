'use strict';
// Runs the Go program that answers the page: of what is behind the "#" of this worker's address, which the page's own has too, a living cluster or else a recording. The files are beside this one.
importScripts('wasm_exec.js');

const address = new URLSearchParams(self.location.hash.slice(1)), at = address.get('at');
const early = []; // messages that came before the program takes them
/** conclave is what the program gets and sets, see testbed/playground/glue. */
const conclave = self.conclave = {
  receive: m => early.push(m), begin: () => early.splice(0).forEach(m => conclave.receive(m)),
  start: address.get('living') || '', // of the cluster, see testbed/playground/start.go
  moment: 1000 * at >= 0 && at ? `${1000 * at}/${address.get('record') || ''}` : '', // of the recording: a position of the console
};
self.onmessage = e => conclave.receive(e.data);

/** load returns the bytes of a file. */
async function load(file) {
  const r = await fetch(file);
  if (!r.ok) throw Object.assign(new Error(`${file}: the host answers ${r.status}`), {status: r.status});
  return new Uint8Array(await r.arrayBuffer());
}

const isCode = bytes => bytes[0] === 0 && bytes[1] === 0x61; // some hosts send a file unpacked
const code = body => new Response(body, {headers: {'Content-Type': 'application/wasm'}});
/** compile returns a program that can be run by go. */
const compile = async (program, go) => (await WebAssembly.instantiateStreaming(program, go.importObject)).instance;

async function player() {
  const bytes = await load('player.wasm.gz'), {body} = new Response(bytes);
  return code(isCode(bytes) ? body : body.pipeThrough(new DecompressionStream('gzip')));
}

/** living is packed with brotli, a fifth smaller than with gzip; no browser unpacks that for a page, so the player does. */
async function living() {
  const go = new Go(), [bytes, unpacker] = await Promise.all([load('living.wasm.br'), compile(player(), go)]);
  if (isCode(bytes)) return code(bytes);
  conclave.packed = bytes;
  go.run(unpacker);
  delete conclave.packed;
  return code(new ReadableStream({pull(to) { const part = conclave.next(); if (part) to.enqueue(part); else to.close(); }}));
}

async function run() {
  if (typeof WebAssembly !== 'object' || typeof DecompressionStream !== 'function') {
    throw new Error('this browser is too old: it needs WebAssembly and DecompressionStream, as all have since 2023');
  }
  const go = new Go(), {start} = conclave;
  const first = 'recordings/leader-killed.rec', named = address.get('recording');
  const recording = start ? null : !named ? load(first) : load(`recordings/${encodeURIComponent(named)}.rec`).catch(e => {
    if (e.status !== 404) throw e;
    conclave.moment = ''; // it was one of another recording
    return load(first);
  });
  const [program, bytes] = await Promise.all([compile(start ? living() : player(), go), recording]);
  conclave.recording = bytes;
  let drawn = 1; // what is random in the program is the same each time, so that one start has one state
  Object.defineProperty(self.crypto, 'getRandomValues', {value: bytes => bytes.forEach((_, i) => { drawn = Math.imul(drawn, 1103515245) + 12345; bytes[i] = drawn >>> 16; })});
  await go.run(program);
  throw new Error('the program has ended; load the page again');
}

run().catch(e => self.postMessage({failed: `Nothing can be played here: ${conclave.failed || e.message}.`}));
