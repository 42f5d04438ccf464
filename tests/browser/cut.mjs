// cut.mjs - 60,000 sites, of which a page tells 20,000 apart: what a function is responsible for is the
// same on the page, in the text view `functions` and in the program (cut_sites.c), as it is in the
// other run of a comparison, which is the same run.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { check, near, withPage } from './browser.mjs';

const [file, jsonFile] = process.argv.slice(2);
const SITES = 60000;
const names = ['least', 'less', 'more', 'most'];
const truth = { least: 0, less: 0, more: 0, most: 0 };
for (let path = 0; path < SITES; path++) truth[names[Math.floor((path % 1000) / 250)]] += 16 + (path % 1000);

const [head, ...rows] = readFileSync(join(dirname(jsonFile), 'functions.csv'), 'utf8').trim().split('\n').map((line) => line.split(','));
const column = (name) => head.indexOf(name);
for (const name of names) {
  const row = rows.find((each) => each[column('function')] === name);
  check(Number(row[column('peak_bytes')]) === truth[name], `the view says ${row} of ${name}, which has ${truth[name]}`);
}

await withPage(file, async (page, open) => {
  await open('summary');
  const cut = await page.evaluate(() => window.numallocModel.raw.cut.sites);
  check(cut >= SITES - 20000, `${cut} sites are merged`);
  const shown = await page.locator('[aria-label="functions"] .vrow').allInnerTexts();
  for (const name of names) {
    const [self, before, change, below] = shown.map((text) => text.split('\n')).find((cells) => cells[4] === name) ?? [];
    check(self && near(self, truth[name]) && near(before, truth[name]) && near(below, truth[name]) && /^0/.test(change),
      `the page says ${self}, before ${before}, ${change}, with callees ${below} of ${name}, which has ${truth[name]}`);
  }
  const exact = await page.evaluate(() => {
    const model = window.numallocModel;
    return Object.fromEntries(model.byFunction().rows.map((row) => [model.functionName(row.fn), row.self]));
  });
  for (const name of names) check(exact[name] === truth[name], `${name}: ${exact[name]}, not ${truth[name]}`);

  // What is merged stays in every sum over the tree, and no page takes it for somebody else's.
  const tree = await page.evaluate(() => window.numallocModel.tree('peak', null).value);
  const total = names.reduce((sum, name) => sum + truth[name], 0);
  check(tree >= total && tree - total < 65536, `the tree holds ${tree} of ${total} bytes`);
  await page.locator('[aria-label="functions"] a', { hasText: /^least$/ }).click();
  await page.waitForSelector('main[data-page="sites"]');
  const note = await page.locator('.note', { hasText: 'Sites of least' }).innerText();
  check(near(note.match(/([\d.]+ \w+B) at the peak/)?.[1] ?? '', truth.least), `the sites of a function: ${note}`);
  await open('source');
  const lines = await page.evaluate(() => {
    const model = window.numallocModel;
    const place = model.raw.strings.findIndex((text) => text.endsWith('/cut_sites.c'));
    return [...model.lines(place, 'peak', null).values()].reduce((sum, line) => sum + line.self, 0);
  });
  const apart = await page.evaluate(() => {
    const { id, values } = window.numallocModel.sites;
    return id.reduce((sum, each, site) => sum + (each === 0 ? 0 : values.peak[site]), 0);
  });
  check(lines <= apart, `lines asked for ${lines} bytes, sites that are told apart for ${apart}`);
});
console.log('cut: ok');
