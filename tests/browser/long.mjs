// long.mjs - the page of a program whose names alone would take more than 10 MB: it stays below,
// its sums stay right, and it says what it left out.
import { readFileSync, statSync } from 'node:fs';
import { check, withPage } from './browser.mjs';

const [file, jsonFile] = process.argv.slice(2);
const profile = JSON.parse(readFileSync(jsonFile, 'utf8'));
const names = profile.functions.reduce((sum, each) => sum + each.name.length, 0);
check(names > 10e6, `the names have ${names} characters`);
const megabytes = statSync(file).size / 1e6;
check(megabytes < 10, `the page has ${megabytes} MB`);

await withPage(file, async (page, open) => {
  await open('sites');
  const { cut, total } = await page.evaluate(() => ({ cut: window.numallocModel.raw.cut, total: window.numallocModel.tree('total', null).value }));
  check(total === profile.total.total_bytes, `the tree holds ${total} of ${profile.total.total_bytes} bytes`);
  check(cut.halved > 0 && cut.sites > 0, `the page left out ${JSON.stringify(cut)}`);
  check(/Fewer than usual are told apart/.test(await page.locator('main').innerText()), 'the page says so');
});
console.log(`long: ok, ${megabytes.toFixed(2)} MB`);
