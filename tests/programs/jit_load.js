// jit_load.js - 200,000 buffers, 1 GB, each allocated by keep_buffer, which node compiles on the way.
const kept = [];
function keep_buffer(size) {
    kept.push(Buffer.allocUnsafeSlow(size));
    if (kept.length > 50) kept.shift();
}
for (let i = 0; i < 200000; i++) keep_buffer(5000 + (i % 7));
console.log(kept.length);
