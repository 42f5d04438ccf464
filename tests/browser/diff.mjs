// diff.mjs - the page of a run that is compared with an earlier one: what grew, what shrank, what is
// new and what is gone, in the summary, the flame graph and the list of sites.
import { readFileSync } from 'node:fs';
import { check, drawn, near, withPage } from './browser.mjs';

const [file, jsonFile, artefact] = process.argv.slice(2);
const profile = JSON.parse(readFileSync(jsonFile, 'utf8'));

// function: bytes live at the end, before and now; subject.c
const LIVE = { keep_records: [2000 * 1000, 1000 * 1000], keep_index: [0, 250 * 4000], keep_cache: [100 * 3000, 0] };

await withPage(file, async (page, open) => {
  await open('summary?metric=live');
  const before = await page.evaluate(() => window.numallocModel.raw.base.totals.live);
  const told = await page.locator('[data-change="live"]').innerText();
  check(told.startsWith('-'), `the summary says ${told} of ${profile.total.live_bytes} against ${before} bytes`);
  check(near(told.match(/-([\d.]+ \w+)/)[1], before - profile.total.live_bytes), `the summary says ${told}`);

  // Every byte of the earlier run is in the tree, and each function has its own.
  const tree = await page.evaluate(() => {
    const root = window.numallocModel.tree('live', null);
    const found = {};
    const pending = [root];
    while (pending.length > 0) {
      const node = pending.pop();
      found[node.name] = [node.base, node.value];
      pending.push(...node.children);
    }
    return found;
  });
  check(tree.all[0] === before && tree.all[1] === profile.total.live_bytes, `the tree holds ${tree.all}`);
  for (const [name, figures] of Object.entries(LIVE))
    check(String(tree[name]) === String(figures), `${name}: ${tree[name]}, not ${figures}`);

  await open('sites?metric=live');
  const rows = await page.locator('.vrow').allInnerTexts();
  const row = (name) => rows.find((text) => text.startsWith(name))?.split('\n').slice(1); // the figures
  check(row('keep_records')[0] === row('keep_index')[0].replace(/^/, '-'), `sites changed by ${row('keep_records')[0]} and ${row('keep_index')[0]}`);
  check(near(row('keep_cache')[0].slice(1), 300000) && row('keep_cache')[0][0] === '-', `what is gone: ${row('keep_cache')}`);
  await page.screenshot({ path: `${artefact}-sites.png` });

  // Colours: blue where it is less, red where it is more.
  await open('flame?metric=live&widths=base');
  await page.screenshot({ path: `${artefact}-flame.png` });
  const colour = async (name) => page.evaluate((wanted) => {
    const model = window.numallocModel;
    const pending = [window.numallocFlame.root()];
    while (pending.length > 0) {
      const node = pending.pop();
      pending.push(...node.children);
      if (node.name !== wanted) continue;
      const at = window.numallocFlame.boxOf(node);
      const canvas = document.querySelector('canvas.flame');
      const ratio = window.devicePixelRatio;
      return [...canvas.getContext('2d').getImageData((at.left + 1) * ratio, (at.top + 2) * ratio, 1, 1).data];
    }
    return null;
  }, name);
  const gone = await colour('keep_cache');
  check(gone[2] > gone[0], `keep_cache is drawn ${gone}`);
  await page.click('#widths');
  await page.waitForFunction(() => !location.hash.includes('widths'));
  await drawn(page);
  const added = await colour('keep_index');
  check(added[0] > added[2], `keep_index is drawn ${added}`);
});
console.log('diff: ok');
