// nameless.mjs - functions without symbols are one row for each library, which unfolds.
import { readFileSync } from 'node:fs';
import { check, withPage } from './browser.mjs';

const [file, jsonFile, artefact] = process.argv.slice(2);
const profile = JSON.parse(readFileSync(jsonFile, 'utf8'));
const address = /^(\S+)\+0x[0-9a-f]+$/;

/** Rows of a table as [text of each cell..], all of them: the table is made tall first. */
function rowsOf(page, label) {
  return page.locator(`[aria-label="${label}"] .vrow`).evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.innerText.trim())));
}

await withPage(file, async (page, open) => {
  await page.setViewportSize({ width: 1280, height: 2400 });
  await open('summary');
  const table = page.locator('[aria-label="functions"]');
  const rows = await rowsOf(page, 'functions');
  const at = rows.findIndex((row) => /^[▸▾]?\s*python3\.\d+ \(\d+ functions without symbols\)$/.test(row[2]));
  check(at >= 0, `the functions without symbols are one row: ${rows.map((row) => row[2]).join('; ')}`);
  const count = Number(rows[at][2].match(/\((\d+)/)[1]);
  check(!rows.some((row) => address.exec(row[2])?.[1].startsWith('python3')), 'and none of them is by itself');
  check(rows.some((row) => /^_?Py/.test(row[2])), 'those with names are by themselves');

  // Its figures: the sum of its functions, and with callees each stack once.
  const expected = await page.evaluate(() => {
    const model = window.numallocModel;
    const { rows: all, groups } = model.byFunction();
    const inside = all.filter((row) => model.groupOf(row.fn) !== null && model.functionModule(row.fn).includes('/python3'));
    const shown = inside.filter((row) => row.self > 0);
    return { self: shown.reduce((sum, row) => sum + row.self, 0), below: groups.get(model.groupOf(inside[0].fn)), most: Math.max(...inside.map((row) => row.below)), count: shown.length };
  });
  check(expected.count === count, `${count} functions, the model has ${expected.count}`);
  check(expected.below >= expected.most && expected.below <= profile.total.peak_bytes, `with callees ${JSON.stringify(expected)} of ${profile.total.peak_bytes}`);
  await page.screenshot({ path: `${artefact}-summary.png` });

  // It unfolds to its functions, in the order of the table, and folds again.
  const before = Number(await table.getAttribute('aria-rowcount'));
  const group = table.locator('.vrow').nth(at);
  await group.click();
  const after = await rowsOf(page, 'functions');
  const inner = after.slice(at + 1).filter((row) => address.test(row[2]));
  check(inner.length > 0 && address.test(after[at + 1][2]) && (await group.locator('.twist').getAttribute('aria-expanded')) === 'true', `unfolded: ${after.slice(at, at + 3).join(' | ')}`);
  check(Number(await table.getAttribute('aria-rowcount')) === before + count, 'all of its functions are there');
  await group.click();
  check((await rowsOf(page, 'functions'))[at + 1]?.[2] === rows[at + 1]?.[2], 'and folds again');

  // In the call tree those that call each other are one node; their addresses are a click away.
  await open('calltree');
  const tree = page.locator('[role="treegrid"]');
  check(/python3\.\d+ \(without symbols\)/.test(await tree.innerText()) && !/python3\.\d+\+0x/.test(await tree.innerText()), `call tree: ${await tree.innerText()}`);
  const largest = await page.evaluate(() => {
    const model = window.numallocModel;
    const sums = [true, false].map((grouped) => model.tree('peak', null, { grouped }));
    return sums.map((root) => [root.value, root.children.reduce((sum, child) => sum + child.value, 0)]);
  });
  check(JSON.stringify(largest[0]) === JSON.stringify(largest[1]), `sums of both trees: ${JSON.stringify(largest)}`);
  await page.locator('button', { hasText: 'Addresses' }).click();
  await page.waitForFunction(() => /python3\.\d+\+0x/.test(document.querySelector('[role="treegrid"]').innerText));

  // And in the flame graph.
  const names = () => page.evaluate(() => {
    const all = [];
    const pending = [window.numallocFlame.root()];
    while (pending.length > 0) {
      const node = pending.pop();
      all.push(node.name);
      pending.push(...node.children);
    }
    return [all.filter((name) => /^python3\.\d+ \(without symbols\)$/.test(name)).length, all.filter((name) => /^python3\.\d+\+0x/.test(name)).length];
  });
  await open('flame');
  let [together, alone] = await names();
  check(together > 0 && alone === 0, `flame graph: ${together} nodes of the library, ${alone} of addresses`);
  await page.locator('button', { hasText: 'Addresses' }).click();
  await page.waitForFunction(() => /addresses=1/.test(location.hash));
  [together, alone] = await names();
  check(together === 0 && alone > 0, `flame graph with addresses: ${together} nodes of the library, ${alone} of addresses`);

  // The same with sites; whoever searches has them one by one.
  await open('sites');
  const sites = await rowsOf(page, 'sites');
  const of = sites.find((row) => /python3\.\d+ \(\d+ sites without symbols\)/.test(row[0]));
  check(of && !sites.some((row) => /python3\.\d+\+0x/.test(row[0])), `sites: ${sites.map((row) => row[0]).join('; ')}`);
  await page.fill('#search', 'python3');
  await page.waitForFunction(() => /→ python3\.\d+\+0x/.test(document.querySelector('[aria-label="sites"]').innerText));
  const found = await rowsOf(page, 'sites');
  check(!found.some((row) => /without symbols/.test(row[0])), 'a search has each site, below the nearest caller that has a name');
});
console.log('nameless: ok');
