// pages.mjs - every page of the report of a known program: figures, brush, metric, search, links.
import { readFileSync } from 'node:fs';
import { check, near, withPage } from './browser.mjs';

const [file, jsonFile, artefact] = process.argv.slice(2);
const profile = JSON.parse(readFileSync(jsonFile, 'utf8'));

/** Drags over the middle of the first chart, in parts of its width. */
async function brush(page, from, to) {
  const box = await page.locator('.u-over').first().boundingBox();
  await page.mouse.move(box.x + from * box.width, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + to * box.width, box.y + box.height / 2, { steps: 8 });
  await page.mouse.up();
}

await withPage(file, async (page, open) => {
  // Summary: the figures are those of the JSON export, and the largest function is known.
  await open('summary');
  for (const [metric, figure] of [['peak', 'peak_bytes'], ['live', 'live_bytes'], ['total', 'total_bytes']]) {
    const text = await page.locator(`[data-metric="${metric}"]`).innerText();
    check(near(text, profile.total[figure]), `summary says ${text} for ${profile.total[figure]} bytes ${metric}`);
  }
  const first = await page.locator('.vtable .vrow').first().innerText();
  check(/keep_records/.test(first) && near(first.split('\n')[0], 2000 * 1000), `the first function is ${first}`);
  await page.screenshot({ path: `${artefact}-summary.png` });

  const findings = await page.locator('.finding').allInnerTexts();
  check(findings.some((text) => /freed before their thread allocated again/.test(text) && /parse/.test(text)), `findings: ${findings.join('; ')}`);

  // A link leads to the sites of that function, and to the site with its source.
  await page.locator('.vtable a', { hasText: 'keep_records' }).first().click();
  await page.waitForSelector('main[data-page="sites"]');
  check((await page.locator('.vrow').count()) === 1, 'keep_records has one site');
  await page.locator('.vrow a', { hasText: 'keep_records' }).click();
  await page.waitForSelector('main[data-page="site"]');
  const code = await page.locator('.code').innerText();
  check(/kept\[i\] = malloc\(1000\)/.test(code), 'the site page shows its source line');
  const stack = await page.locator('.stack').innerText();
  check(/keep_records[\s\S]*main/.test(stack), `the stack is ${stack}`);
  await page.goBack();
  await page.waitForSelector('main[data-page="sites"]');

  // Flame graph: the metric switches, the search finds.
  await open('flame');
  const told = () => page.locator('.flame-told').innerText();
  check(near((await told()).match(/all: ([\d.]+ \w+)/)[1], profile.total.peak_bytes), `flame graph: ${await told()}`);
  await page.selectOption('#metric', 'count');
  await page.waitForFunction(() => location.hash.includes('metric=count'));
  await page.fill('#search', '^parse$');
  const matched = await page.locator('#matched').innerText();
  const share = 30000 / profile.total.allocations;
  check(Math.abs(parseFloat(matched.match(/([\d.]+) %/)[1]) / 100 - share) < 0.01, `search says ${matched}, of 30,000 in ${profile.total.allocations}`);
  await page.screenshot({ path: `${artefact}-flame.png` });
  const width = await page.evaluate(() => document.querySelector('canvas.flame').getBoundingClientRect().width);
  await page.mouse.click(240 + width / 3, (await page.locator('canvas.flame').boundingBox()).y + 19 * 2.5);
  await page.waitForTimeout(300);
  check(!(await told()).startsWith('all:'), 'a click zooms into a frame');
  await page.keyboard.press('Escape');

  // Timeline: a brush sets the range, and the figures are those of that stretch.
  await open('timeline');
  await page.waitForSelector('.u-over');
  await page.waitForTimeout(200);
  await page.screenshot({ path: `${artefact}-timeline.png`, fullPage: true });
  await brush(page, 0.55, 0.95);
  await page.waitForFunction(() => /range=\d+,\d+|range=\d+%2C\d+/.test(location.hash));
  check(await page.locator('button', { hasText: 'Whole run' }).isVisible(), 'the range is shown, with a way out of it');
  check(await page.evaluate(() => Boolean(window.numallocModel.raw.growth)), 'the profile has the course of sites');
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.waitForSelector('main[data-page="sites"]');
  // The records were all kept before: in the second part of the run only the table grew.
  const site = await page.evaluate(() => {
    const model = window.numallocModel;
    const range = new URLSearchParams(location.hash.split('?')[1]).get('range').split(',').map(Number);
    const values = model.values('range-live', range);
    const most = [...values.keys()].sort((a, b) => values[b] - values[a])[0];
    return { most: model.siteName(most), grown: Object.fromEntries([...model.sites.node.keys()].map((s) => [model.siteName(s), model.values('range-grown', range)[s]])) };
  });
  check(site.most === 'keep_records' && site.grown.keep_records === 0, `in the range: ${JSON.stringify(site)}`);

  // Every page opens, light and dark, also where the profile has nothing for it.
  for (const name of ['summary', 'timeline', 'flame', 'sites', 'source', 'calltree', 'sizes', 'threads', 'globals', 'allocator', 'run'])
    await open(name);
  await open('globals');
  const globals = await page.locator('main').innerText();
  check(/kept/.test(globals) && /15\.6 KiB/.test(globals), 'the array of pointers is among the globals');
  await page.locator('button', { hasText: 'Light or dark' }).click();
  check((await page.evaluate(() => document.documentElement.dataset.theme)) === 'dark', 'the page turns dark');
  await open('calltree');
  await page.screenshot({ path: `${artefact}-calltree-dark.png` });
  const tree = await page.locator('[role="treegrid"]').innerText();
  check(/main/.test(tree) && /keep_records/.test(tree), 'the call tree is unfolded to where most memory is');
});
console.log('pages: ok');
