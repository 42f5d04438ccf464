// errors.mjs - memory errors of a run (--errors): listed, and marked at their sites in the summary, the list of sites, the
// page of a site and the flame graph.
import { check, usable, withPage } from './browser.mjs';

const [file, , artefact] = process.argv.slice(2);

await withPage(file, async (page, open) => {
  await open('summary?metric=count');
  const line = await page.locator('[data-finding="memory-errors"]').innerText();
  check(/^2 memory errors: /.test(line) && /use after free: read/.test(line) && /overflow: write/.test(line), `the summary says ${line}`);
  await page.locator('[data-finding="memory-errors"] a').click();
  await page.waitForSelector('main[data-page="errors"]');

  // Each with its stacks, once it is unfolded; that which was found twice comes first.
  const stale = page.locator('[data-error="use-after-free"]');
  const told = await stale.locator('.line > span').innerText();
  check(/^use after free: read of a block of 3\.91 KiB, 7 B into it, found 2 times, in 1 process, allocated by makes_order$/.test(told.trim()), `the first error is ${told}`);
  check(!(await stale.locator('.stack').first().isVisible()), 'its stacks are folded away');
  await stale.locator('.line strong').click();
  const stacks = await stale.locator('.stack').allInnerTexts();
  check(stacks.length === 3 && /reads_order errors\.c:\d+/.test(stacks[0]) && /main errors\.c:\d+/.test(stacks[1]) && /makes_order errors\.c:\d+/.test(stacks[2]), `its stacks are ${stacks.join(' | ')}`);
  const over = await page.locator('[data-error="overflow"] .line > span').innerText();
  check(/^overflow: write of a block of 112 B, 1 B behind its end, found once, allocated by makes_name$/.test(over.trim()), `the second error is ${over}`);
  await page.screenshot({ path: `${artefact}-errors.png` });

  // The site, by its mark in the list; nothing at a site without errors.
  await open('sites?metric=count');
  const rows = await page.locator('.vrow').allInnerTexts();
  const row = (name) => rows.find((text) => text.startsWith(name)) ?? '';
  check(/^makes_order\s*1 error/.test(row('makes_order')) && /^makes_name\s*1 error/.test(row('makes_name')), `the rows are ${rows}`);
  check(row('makes_table') !== '' && !/\d error/.test(row('makes_table')), `makes_table: ${row('makes_table')}`);
  await page.locator('.vrow .mark-error').first().click();
  await page.waitForSelector('main[data-page="site"]');
  check((await page.locator('main [data-error]').count()) === 1, 'the page of a site has its error');

  // The flame graph: a line below those boxes, up to main, in which an error is.
  await open('flame?metric=count');
  await page.screenshot({ path: `${artefact}-flame.png` });
  const marks = await page.evaluate(() => {
    const found = {};
    const pending = [window.numallocFlame.root()];
    const canvas = document.querySelector('canvas.flame');
    const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const ratio = window.devicePixelRatio;
    const pixel = (x, y) => [...image.data.slice(4 * (Math.round(y * ratio) * image.width + Math.round(x * ratio))).slice(0, 4)];
    while (pending.length > 0) {
      const node = pending.pop();
      pending.push(...node.children);
      const at = window.numallocFlame.boxOf(node);
      found[node.name] = [node.errors, ...pixel(at.left + 1, at.top + 16), ...pixel(at.left + 1, at.top + 3)];
    }
    return found;
  });
  const marked = (name) => marks[name].slice(1, 5).join() !== marks[name].slice(5, 9).join();
  check(marks.main[0] === 2 && marks.makes_order[0] === 1 && marks.makes_name[0] === 1 && marks.makes_table[0] === 0, `errors: ${JSON.stringify(marks)}`);
  check(marked('main') && marked('makes_order') && !marked('makes_table'), `marks: ${JSON.stringify(marks)}`);
  for (const view of ['errors', 'summary']) await usable(page, open, view);
});
