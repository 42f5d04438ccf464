// screenshots.mjs - pictures of pages of a report, for docs/: node screenshots.mjs REPORT.html OUT
// PAGE=NAME.. writes OUT-NAME.png of each PAGE (what stands after # in the address). A page that
// complains fails here as it fails in the tests. `@TEXT` after the name presses the link or button of
// that text first.
import { resolve } from 'node:path';
import { withPage } from './browser.mjs';

const [file, out, ...pages] = process.argv.slice(2);
if (pages.length === 0) {
  console.error('usage: node screenshots.mjs REPORT.html OUT PAGE=NAME[@TEXT]..');
  process.exit(2);
}
await withPage(resolve(file), async (page, open) => {
  await page.setViewportSize({ width: 1100, height: 620 });
  for (const each of pages) {
    const [, hash, name, text] = each.match(/^(.*)=(\w+)(?:@(.*))?$/);
    await open(hash);
    if (text) await page.getByText(text, { exact: true }).first().click();
    await page.waitForTimeout(500);
    await page.screenshot({ path: `${out}-${name}.png` });
  }
});
