// usable.mjs - every view of a page: for everybody, and on a phone.
import { usable, withPage } from './browser.mjs';

await withPage(process.argv[2], async (page, open) => {
  await open('summary');
  const site = await page.evaluate(() => window.numallocModel.sites.id.find((id) => id > 0));
  const file = await page.evaluate(() => Object.keys(window.numallocModel.raw.sources)[0]);
  const views = await page.locator('nav a').evaluateAll((all) => all.map((each) => each.getAttribute('href').slice(1)));
  for (const view of [...views, `site?id=${site}`, ...(file ? [`source?file=${file}`] : [])]) await usable(page, open, view);
});
console.log('usable: ok');
