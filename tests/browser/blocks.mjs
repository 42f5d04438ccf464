// blocks.mjs - what the page knows of blocks one by one: who freed whose, how they grew, sizes over
// time, rounding; the subject is handover.c.
import { readFileSync } from 'node:fs';
import { check, drawn, near, withPage } from './browser.mjs';

const [file, jsonFile, artefact] = process.argv.slice(2);
const profile = JSON.parse(readFileSync(jsonFile, 'utf8'));
const trace = profile.mode === 'trace';

await withPage(file, async (page, open) => {
  await open('threads');
  const { handed, thread } = await page.evaluate(() => {
    const { threads, handed: pairs } = window.numallocModel.raw;
    return { handed: pairs, thread: Object.fromEntries(threads.name.map((name, i) => [name, threads.id[i]])) };
  });
  const given = handed.find(([from, to]) => from === thread.producer && to === thread.consumer);
  check(given?.[2] === 3000, `the consumer freed ${given} of the producer's blocks: ${JSON.stringify(handed)}`);
  check(/producer/.test(await page.locator('main').innerText()), 'threads have names');
  const calls = await page.locator('[aria-label="calls by entry point"]').innerText();
  check(/consumer/.test(calls) && /free/.test(calls) && /[µn]s/.test(calls), `calls by entry point: ${calls}`);
  await page.screenshot({ path: `${artefact}-threads.png`, fullPage: true });

  // The page of one site, found by its name.
  const site = async (name, of) => {
    const id = await page.evaluate(([wanted, metric]) => {
      const model = window.numallocModel;
      const values = model.values(metric);
      const all = [...model.sites.id.keys()].filter((s) => model.siteName(s) === wanted);
      return model.sites.id[all.sort((a, b) => values[b] - values[a])[0]];
    }, [name, of]);
    await open(`site?id=${id}`);
    return page.locator('main').innerText();
  };
  const message = await site('make_message', 'count');
  check(/all 200 B/.test(message), `sizes of a message: ${message}`);
  check(/3000 of 3000 frees \(100 %\) were by another thread/.test(message), `who frees messages: ${message}`);
  await page.screenshot({ path: `${artefact}-site.png`, fullPage: true });
  check(/All of 2000 frees were by/.test(await site('small', 'count')), 'what one thread allocates and frees');

  const grown = await site('grow', 'realloc');
  check(/Reallocs that ended here\s+50\b/.test(grown), `how arrays grow: ${grown}`);
  if (trace) {
    check(/5 blocks grew in 10\.0 steps on average, from 100 B to 100 KiB/.test(grown), `chains: ${grown}`);
    check(/Factor of a step\s+2\.00/.test(grown), `the factor of a step: ${grown}`);
    check(/^100 B → 200 B → 400 B .*→ 100 KiB$/.test(await page.locator('#chain').innerText()), 'the sizes of a chain');
  }
  await page.screenshot({ path: `${artefact}-growth.png`, fullPage: true });

  // Sizes over time: every allocation is in the map; small blocks come first, large ones last.
  await open('sizes');
  const map = await page.evaluate(() => window.numallocModel.raw.heat.find((heat) => heat.id === 'size-time'));
  const sum = (values) => values.reduce((all, value) => all + value, 0);
  const all = sum(map.values.map(sum));
  check(all === profile.total.allocations, `the map of sizes over time has ${all} of ${profile.total.allocations} allocations`);
  const middle = (from) => {
    const row = map.values[map.y.indexOf(from)];
    return sum(row.map((value, at) => value * at)) / sum(row);
  };
  // Mode sites notes allocations when their thread looks at the clock, which a small run does late.
  if (trace) check(middle('32 B') < middle('8.00 KiB'), `48 bytes at ${middle('32 B')}, 9,000 bytes at ${middle('8.00 KiB')} of ${map.x.length} columns`);
  check((await page.locator('[data-heat="size-time"] canvas').count()) === 1 && (await page.locator('[data-heat="lifetime-size"] canvas').count()) === 1, 'both maps are drawn');
  await drawn(page);
  await page.screenshot({ path: `${artefact}-sizes.png`, fullPage: true });

  await open('allocator');
  await drawn(page);
  const rows = await page.locator('[aria-label="Memory"] .vrow').allInnerTexts();
  const requested = rows.map((row) => row.split('\n')).find(([name]) => name === 'requested');
  check(near(requested[1], profile.total.peak_bytes) && near(requested[2], profile.total.live_bytes), `requested: ${requested}`);
  const classes = await page.evaluate(() => window.numallocModel.raw.allocator.find((part) => part.title.startsWith('Rounding')).rows);
  const of = (size) => classes.filter(([block]) => block >= size && block < size * 1.26);
  check(sum(of(9000).map((row) => row[5])) >= 500, `blocks for 9,000 bytes: ${JSON.stringify(of(9000))}`);
  if (trace) check(sum(classes.map((row) => row[2])) === profile.total.total_bytes, 'every block has its size in the table');
  // Spans at the end: the 500 blocks that stay are in them, full but for the last, and their site is named.
  const spans = await page.evaluate(() => window.numallocModel.raw.allocator.find((part) => part.title.startsWith('Spans')).rows);
  check(sum(spans.map((row) => row[4])) === profile.total.live_blocks, `blocks in spans: ${JSON.stringify(spans)}`);
  check(/large/.test(await page.locator('[aria-label="Sites whose live blocks keep memory"]').innerText()), 'sites that keep spans are named');
  check((await page.locator('[data-heat="filled"] canvas').count()) === 1, 'how full spans are is drawn');
  await page.screenshot({ path: `${artefact}-allocator.png`, fullPage: true });
});
console.log('blocks: ok');
