// large.mjs - the page of a profile of 200,000 sites: its size, what it took to be usable, and how
// smoothly the flame graph zooms. The limits here tell a broken page from a slow machine; the
// figures are printed.
import { readFileSync, statSync } from 'node:fs';
import { check, withPage } from './browser.mjs';

const READY_MS = 3000;
const SMOOTH_FPS = 30;
const STRICT = process.env.NUMALLOC_BROWSER_STRICT === '1';

const [file, jsonFile, artefact] = process.argv.slice(2);
const profile = JSON.parse(readFileSync(jsonFile, 'utf8'));
check(profile.sites.length >= 200000, `the profile has ${profile.sites.length} sites`);
const megabytes = statSync(file).size / 1e6;
check(megabytes < 10, `the page has ${megabytes} MB`);

await withPage(file, async (page, open) => {
  const begin = Date.now();
  await open('flame');
  const ready = Date.now() - begin;
  const total = await page.evaluate(() => window.numallocModel.tree('total', null).value);
  check(total === profile.total.total_bytes, `the tree holds ${total} of ${profile.total.total_bytes} bytes`);
  const cut = await page.evaluate(() => window.numallocModel.raw.cut);
  check(cut.sites > 0, 'sites below the threshold are put together');

  const box = await page.locator('canvas.flame').boundingBox();
  let slowest = Infinity;
  for (const row of [6, 9, 12, 4]) {
    await page.mouse.click(box.x + box.width * 0.4, box.y + 19 * (row + 0.5));
    await page.waitForTimeout(600);
    slowest = Math.min(slowest, await page.evaluate(() => window.numallocFlame.fps()) ?? Infinity);
  }
  await page.screenshot({ path: `${artefact}-flame.png` });
  await open('sites');
  check((await page.locator('.empty').count()) === 0, 'sites are listed');
  check(/small sites/.test(await page.locator('main').innerText()), 'the page says what was put together');
  console.log(`large: ${profile.sites.length} sites, page ${megabytes.toFixed(2)} MB, usable after ${ready} ms, zoom at ${slowest.toFixed(0)} frames per second at the slowest`);
  check(ready < (STRICT ? READY_MS : 5 * READY_MS), `it took ${ready} ms to be usable`);
  check(slowest > (STRICT ? SMOOTH_FPS : SMOOTH_FPS / 5), `${slowest} frames per second`);
});
