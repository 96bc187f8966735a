'use strict';
// Runs the Go program that is named behind the "?" of this worker's address: NAME.wasm.gz, beside this file.
importScripts('wasm_exec.js');

const early = []; // messages that came before the program takes them
/** conclave is what the program gets and sets, see testbed/playground/glue. */
self.conclave = {receive: m => early.push(m), begin: () => early.splice(0).forEach(m => self.conclave.receive(m))};
self.onmessage = e => self.conclave.receive(e.data);

/** code returns the program as it is compiled; some hosts send it unpacked. */
async function code(name) {
  const r = await fetch(name);
  if (!r.ok) throw new Error(`${name}: the host answers ${r.status}`);
  const packed = await r.arrayBuffer();
  const [a, b] = new Uint8Array(packed, 0, 2);
  const stream = new Response(packed).body;
  return new Response(a === 0x1f && b === 0x8b ? stream.pipeThrough(new DecompressionStream('gzip')) : stream, {headers: {'Content-Type': 'application/wasm'}});
}

async function run() {
  if (typeof WebAssembly !== 'object' || typeof DecompressionStream !== 'function') {
    throw new Error('this browser is too old: it needs WebAssembly and DecompressionStream, as all have since 2023');
  }
  const go = new Go();
  let drawn = 1; // what is random in the program is the same each time, so that one start has one state
  Object.defineProperty(self.crypto, 'getRandomValues', {value: bytes => bytes.forEach((_, i) => { drawn = Math.imul(drawn, 1103515245) + 12345; bytes[i] = drawn >>> 16; })});
  const {instance} = await WebAssembly.instantiateStreaming(code(`${self.location.search.slice(1)}.wasm.gz`), go.importObject);
  await go.run(instance);
  throw new Error('the program has ended; load the page again');
}

run().catch(e => self.postMessage({failed: `Nothing can be played here: ${e.message}.`}));
