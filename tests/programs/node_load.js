// node_load.js - what real_programs.sh has node run: native memory in every way a server uses it. All output depends on
// the work alone, never on time or on the order in which threads finish.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const assert = require('assert');
const crypto = require('crypto');
const fs = require('fs');
const zlib = require('zlib');
const { pipeline } = require('stream/promises');
const { Readable } = require('stream');

function random(seed) {
    let x = seed >>> 0;
    return () => (x = (Math.imul(x, 1664525) + 1013904223) >>> 0);
}

// Buffers of mixed sizes, most short-lived, some kept: the backing stores come from malloc.
function churn(seed, rounds) {
    const next = random(seed);
    const kept = new Map();
    const sum = crypto.createHash('sha256');
    for (let i = 0; i < rounds; i++) {
        const size = 1 + next() % (i % 50 === 0 ? 2000000 : 20000);
        const buffer = Buffer.allocUnsafeSlow(size).fill(next() & 255);
        buffer.writeUInt8(i & 255, next() % size);
        if (next() % 4 === 0) kept.set(next() % 500, buffer);
        if (i % 100 === 0) sum.update(buffer);
    }
    for (const key of [...kept.keys()].sort((a, b) => a - b)) sum.update(kept.get(key));
    return sum.digest('hex');
}

function documents(seed, count) {
    const next = random(seed);
    const all = [];
    for (let i = 0; i < count; i++) {
        const tags = Array.from({ length: next() % 20 }, () => 'tag' + (next() % 1000));
        all.push({ id: i, name: 'document ' + next(), tags, nested: { a: [next(), { b: next() / 7 }], text: 'é€😀'.repeat(next() % 30) } });
    }
    const text = JSON.stringify(all);
    const again = JSON.parse(text);
    assert.deepStrictEqual(again, all);
    return crypto.createHash('sha256').update(text).digest('hex');
}

if (!isMainThread) {
    const { seed, scale } = workerData;
    const shared = new SharedArrayBuffer(1 << 20);
    new Uint32Array(shared).fill(seed);
    const moved = new ArrayBuffer(3 << 20); // given to the main thread: freed by another than its maker
    new Uint8Array(moved).fill(seed);
    const result = { seed, churn: churn(seed, 200 * scale), documents: documents(seed, 40 * scale), moved, shared };
    parentPort.postMessage(result, [moved]);
} else {
    main({ small: 1, full: 20 }[process.argv[2]] ?? 3);
}

async function main(scale) {
    console.log('main', churn(1, 300 * scale), documents(2, 60 * scale));
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => new Promise((resolve, reject) => {
        const worker = new Worker(__filename, { workerData: { seed: i + 10, scale }, resourceLimits: { maxOldGenerationSizeMb: 256 } });
        worker.once('message', resolve);
        worker.once('error', reject);
    })));
    for (const a of answers) {
        const moved = new Uint8Array(a.moved);
        console.log(a.seed, a.churn, a.documents, moved.length, moved.every(v => v === a.seed), new Uint32Array(a.shared)[77]);
    }
    // A worker that is ended in the middle of its work.
    const doomed = new Worker('const k = []; for (;;) { k.push(Buffer.alloc(10000)); if (k.length > 500) k.length = 0; }', { eval: true });
    await new Promise(r => doomed.once('online', r));
    await new Promise(r => setTimeout(r, 100));
    console.log('terminated', await doomed.terminate());

    // The thread pool: zlib, key derivation, files.
    const plain = Buffer.from(Array.from({ length: 20000 * scale }, (_, i) => i * i & 255));
    const packed = await Promise.all([1, 3, 6, 9].map(level => new Promise((resolve, reject) =>
        zlib.deflate(plain, { level }, (e, b) => e ? reject(e) : resolve(b)))));
    for (const p of packed) assert(zlib.inflateSync(p).equals(plain));
    console.log('deflated', packed.map(p => p.length).join(' '));
    console.log('brotli', zlib.brotliDecompressSync(zlib.brotliCompressSync(plain.subarray(0, 100000), { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } })).length);
    const keys = await Promise.all(Array.from({ length: 8 }, (_, i) => new Promise((resolve, reject) =>
        crypto.scrypt('secret' + i, 'salt', 32, { N: 1024 }, (e, k) => e ? reject(e) : resolve(k.toString('hex'))))));
    console.log(keys.join('\n'));
    const lines = Array.from({ length: 5000 * scale }, (_, i) => `line ${i} ${'x'.repeat(i % 80)}\n`);
    await pipeline(Readable.from(lines), zlib.createGzip(), fs.createWriteStream('lines.gz'));
    let back = 0;
    const hash = crypto.createHash('md5');
    await pipeline(fs.createReadStream('lines.gz'), zlib.createGunzip(), async function* (source) {
        for await (const chunk of source) { back += chunk.length; hash.update(chunk); }
    });
    console.log('streamed', back, hash.digest('hex'));

    // WebAssembly memory that grows, and a regular expression that backtracks.
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 200 });
    for (let i = 0; i < 20; i++) memory.grow(5);
    console.log('wasm', memory.buffer.byteLength);
    const table = new Map();
    for (let i = 0; i < 20000 * scale; i++) table.set('k' + (i * 7919 % 100003), 'v' + i);
    console.log('map', table.size, [...table.keys()].sort().slice(0, 5).join());
    console.log('text', 'abc def '.repeat(10000).replace(/(\w+) (\w+)/g, '$2 $1').length);
}
