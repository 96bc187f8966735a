'use strict';
// Runs the Go program that is named behind the "?" of this worker's address: player, or living with a start behind the "#". They are beside this file.
importScripts('wasm_exec.js');

const early = []; // messages that came before the program takes them
/** conclave is what the program gets and sets, see testbed/playground/glue. */
self.conclave = {start: decodeURIComponent(self.location.hash.slice(1)), receive: m => early.push(m), begin: () => early.splice(0).forEach(m => self.conclave.receive(m))};
self.onmessage = e => self.conclave.receive(e.data);

/** load returns the bytes of a file. */
async function load(file) {
  const r = await fetch(file);
  if (!r.ok) throw new Error(`${file}: the host answers ${r.status}`);
  return new Uint8Array(await r.arrayBuffer());
}

const isCode = bytes => bytes[0] === 0 && bytes[1] === 0x61; // some hosts send a file unpacked
const code = body => new Response(body, {headers: {'Content-Type': 'application/wasm'}});

/** programs returns each program, as it is compiled. */
const programs = {
  async player() {
    const bytes = await load('player.wasm.gz'), {body} = new Response(bytes);
    return code(isCode(bytes) ? body : body.pipeThrough(new DecompressionStream('gzip')));
  },
  /** living is packed with brotli, a fifth smaller than with gzip; no browser unpacks that for a page, so the player does. */
  async living() {
    const [bytes, player] = await Promise.all([load('living.wasm.br'), programs.player()]);
    if (isCode(bytes)) return code(bytes);
    const go = new Go(), parts = [];
    self.conclave.unpack = {packed: bytes, take: part => parts.push(part), failed: ''};
    const {instance} = await WebAssembly.instantiateStreaming(player, go.importObject);
    await go.run(instance);
    const {failed} = self.conclave.unpack;
    delete self.conclave.unpack;
    if (failed) throw new Error(`living.wasm.br: ${failed}`);
    return code(new Blob(parts).stream());
  },
};

async function run() {
  if (typeof WebAssembly !== 'object' || typeof DecompressionStream !== 'function') {
    throw new Error('this browser is too old: it needs WebAssembly and DecompressionStream, as all have since 2023');
  }
  const go = new Go();
  let drawn = 1; // what is random in the program is the same each time, so that one start has one state
  Object.defineProperty(self.crypto, 'getRandomValues', {value: bytes => bytes.forEach((_, i) => { drawn = Math.imul(drawn, 1103515245) + 12345; bytes[i] = drawn >>> 16; })});
  const {instance} = await WebAssembly.instantiateStreaming(programs[self.location.search.slice(1)](), go.importObject);
  await go.run(instance);
  throw new Error('the program has ended; load the page again');
}

run().catch(e => self.postMessage({failed: `Nothing can be played here: ${e.message}.`}));
