// names.mjs - names of names.cpp: short in cells, without losing a function's own name; whole in tooltips
// and for searches; told apart where they are alike; and never markup. And a stack that is deeper than a
// canvas can be tall.
import { check, usable, withPage } from './browser.mjs';

await withPage(process.argv[2], async (page, open) => {
  await open('summary');
  const cells = page.locator('[aria-label="functions"] .vrow .vcell:nth-child(3)');
  const rows = await cells.allInnerTexts();
  check(rows.includes('a_table_of_everything<…>::insert_row'), `templates are folded: ${rows.join('; ')}`);
  const long = await cells.filter({ hasText: 'insert_row' }).locator('[title]').getAttribute('title');
  check(/^a_table_of_everything<std::.*std::vector<.*>::insert_row\(int\)$/.test(long), `the tooltip says ${long}`);
  check(rows.includes('first_class::setup'), `of a class: ${rows.join('; ')}`);
  check(rows.filter((row) => /^setup \(names\.cpp:\d+\)$/.test(row)).length === 2 && new Set(rows).size === rows.length, `alike: ${rows.join('; ')}`);
  const markup = await cells.filter({ hasText: 'taken' }).locator('[title]').getAttribute('title');
  check(markup.includes("a<script>document.title='taken'</script>&amp;"), `markup is text: ${markup}`);

  // On a phone the own name is whole, too: what it lies in is cut.
  await page.setViewportSize({ width: 390, height: 844 });
  await open('summary');
  const own = await cells.filter({ hasText: 'insert_row' }).first().evaluate((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell.querySelector('.scope').nextSibling);
    const scope = cell.querySelector('.scope');
    return { cell: cell.getBoundingClientRect().right, own: range.getBoundingClientRect().right, cut: scope.scrollWidth > scope.clientWidth };
  });
  check(own.own <= own.cell && own.cut, `on a phone: ${JSON.stringify(own)}`);
  await page.setViewportSize({ width: 1280, height: 900 });

  // The whole name is searched for; sites of one function and line are told apart by their callers.
  await open('sites?search=' + encodeURIComponent('vector<'));
  const found = await page.locator('.vrow').allInnerTexts();
  check(found.length === 1 && /^a_table_of_everything<…>::insert_row/.test(found[0]), `the search finds ${found}`);
  await open('sites');
  const sites = (await page.locator('.vrow .vcell:first-child').allInnerTexts()).filter((row) => row.startsWith('twice'));
  check(sites.length === 2 && sites.some((row) => /from one_caller/.test(row)) && sites.some((row) => /from other_caller/.test(row)), `sites: ${sites}`);
  await open('timeline');
  const legend = await page.locator('.chart-legend button').allInnerTexts();
  const names = legend.map((text) => text.replace(/: –$/, ''));
  check(new Set(names).size === names.length && names.some((text) => /^twice \(from one_caller\)$/.test(text)), `the legends: ${names.join('; ')}`);
  check((await page.title()) !== 'taken', 'no name is markup');

  // Deeper than a canvas: what is drawn is there, and what is not is said.
  await open('flame');
  await page.waitForFunction(() => /^\d+ deeper rows left out/.test(document.getElementById('deeper').innerText));
  const flame = await page.evaluate(() => {
    const canvas = document.querySelector('canvas.flame');
    let most = 0;
    for (const pending = [window.numallocFlame.root()]; pending.length > 0;) {
      const node = pending.pop();
      most = Math.max(most, node.depth);
      pending.push(...node.children);
    }
    const column = canvas.getContext('2d').getImageData(8, 0, 1, canvas.height).data;
    const seen = (y) => column[4 * y + 3] > 0;
    return { rows: most + 1, left: parseInt(document.getElementById('deeper').innerText, 10), tall: canvas.height, shown: seen(5) && seen(canvas.height - 12) };
  });
  check(flame.rows > 3450 && flame.tall <= 32767 && flame.shown && Math.floor(flame.tall / 19) === flame.rows - flame.left, `the flame graph: ${JSON.stringify(flame)}`);
  await open('flame?merged=1');
  check(!(await page.locator('#deeper').isVisible()), 'merged, all rows are there');
  for (const view of ['summary', 'calltree']) await usable(page, open, view);
});
console.log('names: ok');
