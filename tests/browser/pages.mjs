// pages.mjs - every page of the report of a known program: figures, brush, metric, search, links.
import { readFileSync } from 'node:fs';
import { check, drawn, near, withPage } from './browser.mjs';

const [file, jsonFile, artefact] = process.argv.slice(2);
const profile = JSON.parse(readFileSync(jsonFile, 'utf8'));

/** Drags over the middle of the first chart, in parts of its width. */
async function brush(page, from, to) {
  const box = await page.locator('.chart-plot').first().boundingBox();
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

  // One line a finding: the site, its share, the change, what it saves; more when it is unfolded.
  const finding = page.locator('[data-finding="not-freed"]');
  const line = await finding.locator('.line > span').innerText();
  check(/^keep_records\s+subject\.c:\d+ has 87 % of what was not freed: free it, .*; saves at most 1\.91 MiB, \d\d % of the peak$/.test(line.trim()), `the finding is ${line}`);
  check(!(await finding.locator('dl').isVisible()), 'the reason is folded away');
  await finding.locator('.line').click({ position: { x: 600, y: 8 } });
  check(/a leak looks like this/.test(await finding.locator('dl').innerText()), 'the reason unfolds');
  await finding.locator('.line a').click();
  await page.waitForSelector('main[data-page="site"]');
  check(/keep_records/.test(await page.locator('.stack').innerText()), 'the finding leads to its site');
  await page.goBack();
  await page.waitForSelector('main[data-page="summary"]');

  // Largest sites: each with its line and its caller.
  const largest = await page.locator('ol li').first().innerText();
  check(/^keep_records subject\.c:\d+ from main 1\.91 MiB/.test(largest), `the largest site is ${largest}`);

  // On a phone: what there is to choose takes little of the screen, findings come on the first one, before the figures, a
  // function's name has room, and nothing but tables is wider than the screen.
  await page.setViewportSize({ width: 390, height: 800 });
  const nav = await page.locator('nav').boundingBox();
  const card = await page.locator('.card').first().boundingBox();
  const found = await page.locator('.finding').first().boundingBox();
  check(nav.height < 240 && found.y + found.height < 500, `on a phone: navigation of ${nav.height}, first finding at ${found.y}`);
  check((await page.locator('.finding').last().boundingBox()).y < card.y, `on a phone: first figure at ${card.y}`);
  const cell = await page.locator('.vrow .vcell:nth-child(3)').first().boundingBox();
  check(cell.width >= 150, `on a phone a function's name has ${cell.width}`);
  check(await page.evaluate(() => document.documentElement.scrollWidth <= 390), 'the page is wider than a phone');
  await page.setViewportSize({ width: 1280, height: 900 });

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
  await drawn(page);
  check(!(await told()).startsWith('all:'), 'a click zooms into a frame');
  await page.keyboard.press('Escape');

  // Timeline: a brush sets the range, and the figures are those of that stretch.
  await open('timeline');
  await page.waitForSelector('.chart-plot');
  await drawn(page);
  await page.screenshot({ path: `${artefact}-timeline.png`, fullPage: true });
  // The legend has the figures under the pointer, and a click on a name hides its line.
  const plot = await page.locator('.chart-plot').first().boundingBox();
  await page.mouse.move(plot.x + plot.width - 1, plot.y + 10);
  const legend = page.locator('.chart-legend').first();
  const atEnd = (await legend.innerText()).match(/requested: ([\d.]+ \w+)/)?.[1];
  const last = await page.evaluate(() => window.numallocModel.raw.timeline.series.find((s) => s.name === 'requested').values.at(-1));
  check(atEnd && near(atEnd, last), `the legend says ${atEnd} at the end, for ${last} bytes`);
  await legend.locator('button', { hasText: 'requested' }).click();
  check((await legend.locator('button', { hasText: 'requested' }).getAttribute('aria-pressed')) === 'false', 'a line can be hidden');
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

  // A click on the jump where the table has grown lists what grew there.
  await open('timeline');
  const jump = await page.evaluate(() => {
    const model = window.numallocModel;
    const { growth, timeline } = model.raw;
    const live = growth.live[growth.site.findIndex((s) => model.siteName(s) === 'build_table')];
    const most = Math.max(...live);
    const points = timeline.series[0].values.length;
    return (live.indexOf(most) * growth.interval_ms) / ((points - 1) * timeline.interval_ms);
  });
  const chart = await page.locator('.chart-plot').first().boundingBox();
  await page.mouse.click(chart.x + Math.min(0.99, jump) * chart.width, chart.y + chart.height / 2);
  await page.waitForSelector('[aria-label="sites that grew"] .vrow');
  check(/build_table/.test(await page.locator('[aria-label="sites that grew"]').innerText()), 'the click on a jump names build_table');

  // The source of a file, with the calls of one of its lines below it.
  await open('source');
  await page.locator('.vrow a', { hasText: 'subject.c' }).first().click();
  await page.waitForSelector('.code');
  await page.locator('.code .hot', { hasText: 'build_table();' }).locator('a').click();
  await page.waitForFunction(() => /line=\d+/.test(location.hash));
  check(/main[\s\S]*build_table/.test(await page.locator('[role="treegrid"]').innerText()), 'the line calls build_table');
  await page.screenshot({ path: `${artefact}-source.png` });
  await page.locator('button', { hasText: 'Callers' }).click();
  await page.waitForFunction(() => location.hash.includes('callers=1'));
  check(/_start/.test(await page.locator('[role="treegrid"]').innerText()), 'its callers go back to where the program began');

  // A link to a frame that is zoomed to, to an order, to a search; keys; paper.
  await open('flame?metric=total');
  const at = await page.evaluate(() => {
    let node = window.numallocFlame.root();
    const path = [];
    while (node.name !== 'build_table') {
      const next = node.children.find((child) => child.name === 'build_table') ?? node.children[0];
      path.push(next.fn);
      node = next;
    }
    return path.join('.');
  });
  await open('summary');
  await open(`flame?metric=total&at=${at}`);
  check((await told()).startsWith('build_table:'), `a link to a frame shows ${await told()}`);
  await open('sites?sort=count,up');
  const counts = await page.evaluate(() => document.querySelector('[aria-sort="ascending"]').innerText);
  check(/allocations/.test(counts), `a link to an order sorts by ${counts}`);
  await page.keyboard.press('?');
  check(/Flame graph/.test(await page.locator('#help').innerText()), 'the keys are listed');
  await page.keyboard.press('Escape');
  check((await page.locator('#help').count()) === 0, 'and go away');
  await page.locator('.vtitle', { hasText: 'temporary' }).hover();
  check(/next one/.test(await page.locator('#tip').innerText()), 'a column explains itself');
  const paper = await page.pdf();
  check(paper.length > 10000, `on paper the page has ${paper.length} bytes`);

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
