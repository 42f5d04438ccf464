// access.mjs - the pages of accesses, of the profile `handed` that tests/programs/access_made.c
// writes: thread 1 on node 0 makes a block of 1 MiB, thread 2 on node 1 uses it.
import { check, drawn, usable, withPage } from './browser.mjs';

const [file, , artefact] = process.argv.slice(2);

await withPage(file, async (page, open) => {
  await open('numa');
  check((await page.locator('[data-access="remote"]').innerText()) === '45 %', 'the share of remote accesses');
  const cells = await page.locator('table.matrix tr').allInnerTexts();
  const row = cells.find((text) => text.startsWith('node 1')).split(/\s+/).join(' ');
  check(/^node 1 45 % 400 cycles 50 % 150 cycles/.test(row), `from node 1: ${row}`);
  const verdict = page.locator('[data-verdict="remote_after_allocation"]');
  const text = await verdict.innerText();
  check(/object 0 of 1\.00 MiB/.test(text) && /100 % of all remote cost/.test(text), `the verdict: ${text}`);
  check(/100 % after the hand-off, from one node that is not the page's \(at least 80 %\)/.test(text), 'its evidence');
  check(/numalloc_alloc_onnode\(size, 1\)/.test(text) && /40\.0 % of all accesses become local/.test(text), 'what to do, and what it may gain');
  check(/below 10\.0 k small shares are uncertain|below 10 k small shares are uncertain/.test(await page.locator('main').innerText()), 'the page says that samples are few');
  const objects = await page.locator('[aria-label="objects"] .vrow').allInnerTexts();
  check(objects.length === 2 && /remote after allocation/.test(objects[0]) && objects[0].split('\n')[1] === '100 %', `objects: ${objects}`);
  await drawn(page);
  await page.screenshot({ path: `${artefact}-numa.png`, fullPage: true });

  // The flow: 200 accesses, the first 20 by the maker on its own node, then remote ones.
  await verdict.locator('a', { hasText: 'Its flow' }).click();
  await page.waitForSelector('main[data-page="flow"]');
  const events = await page.evaluate(() => window.numallocModel.raw.access.flows[0].events);
  check(events.ms.length === 200 && new Set(events.thread.slice(0, 20)).size === 1, 'its accesses are there');
  check(events.from.filter((from, i) => from !== events.home[i]).length === 180, 'those that are remote');
  await drawn(page);
  const box = await page.locator('#flow-drawing').boundingBox();
  await page.mouse.move(box.x + box.width * 0.8, box.y + 33);
  const told = await page.locator('.heat-told').innerText();
  check(/by thread 2 102 from node 1 to node 0, 400 cycles/.test(told), `over the second thread: ${told}`);
  const inks = await page.evaluate(() => {
    const canvas = document.getElementById('flow-drawing');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
    return [...seen];
  });
  check(inks.includes('31,111,235') && inks.includes('227,98,9'), 'local and remote accesses are drawn');
  await page.screenshot({ path: `${artefact}-flow.png`, fullPage: true });
  await page.keyboard.press('g');
  await page.keyboard.press('n');
  await page.waitForSelector('main[data-page="numa"]');
  for (const view of ['numa', 'flow', 'summary']) await usable(page, open, view); // the last with empty tables
});

// Estimates of watchpoints have their interval: in the table, and on the object's own page.
await withPage(`${artefact}-watched.html`, async (page, open) => {
  await open('numa');
  const row = await page.locator('[aria-label="objects"] .vrow').first().innerText();
  check(/40(\.0)? k \(31(\.\d+)? k to 51\.4 k\)/.test(row), `an estimate: ${row}`);
  await open('flow');
  check(/40(\.0)? k \(31(\.\d+)? k to 51\.4 k\)/.test(await page.locator('dl.facts').innerText()), 'the same for the object');
});
console.log('access: ok');
