// browser.mjs - what the tests share: a browser, a page that may not complain, assertions.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import axe from 'axe-core';
import { chromium } from 'playwright-core';

const patience = 300000; // ms: a machine may be busy

export function check(condition, text) {
  if (!condition) throw new Error(text);
}

/** What was begun is drawn: the page's own timers have come, and then two frames. */
export function drawn(page) {
  return page.evaluate(() => new Promise((done) => { setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 200); }));
}

/** 1.91 MiB as bytes; the page rounds to three digits. */
export function near(text, bytes) {
  const [, number, unit] = text.match(/^([\d.]+) (B|KiB|MiB|GiB)$/) ?? [];
  const shown = Number(number) * { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 }[unit];
  return Math.abs(shown - bytes) <= Math.max(1, bytes * 0.006);
}

/**
 * Opens a view as everybody must be able to use it: axe-core has no complaint, light and dark, and a phone
 * need not scroll it sideways.
 */
export async function usable(page, open, hash) {
  const complaints = [];
  await open(hash);
  await page.evaluate(axe.source);
  // All rules once; then those that depend on colours, and on room.
  for (const [theme, width, rules] of [['light', 1280], ['dark', 1280, ['color-contrast']], ['light', 390, ['scrollable-region-focusable']]]) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: 844 });
    await page.waitForFunction((wanted) => document.documentElement.dataset.theme === wanted && document.querySelector('main').dataset.page, theme);
    const { violations } = await page.evaluate((runOnly) => window.axe.run(document, runOnly ? { runOnly } : {}), rules);
    for (const { id, nodes } of violations)
      complaints.push(`${theme}, ${width} pixels: ${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? node.all[0]?.message ?? ''}`).join(' | ')}`);
  }
  const wide = await page.evaluate(() => (document.documentElement.scrollWidth <= 390 ? [] : [`${document.documentElement.scrollWidth} pixels`, ...[...document.querySelectorAll('main *')].filter((each) => each.getBoundingClientRect().right > 390 && !each.closest('.vtable, .code, figure, .scroll')).slice(0, 5).map((each) => each.outerHTML.slice(0, 160))]));
  if (wide.length > 0) complaints.push(`wider than a phone: ${wide.join(' | ')}`);
  await page.setViewportSize({ width: 1280, height: 900 });
  check(complaints.length === 0, `${hash}: ${complaints.join('\n')}`);
}

/** Runs test(page, open) with a page that has opened the file; anything on the console fails it. */
export async function withPage(file, test) {
  const profile = mkdtempSync(join(tmpdir(), 'numalloc-browser-'));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: '/usr/bin/chromium', headless: true, timeout: patience, viewport: { width: 1280, height: 900 },
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  const complaints = [];
  try {
    browser.setDefaultTimeout(patience);
    const page = await browser.newPage();
    page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('request', (request) => !/^(file|data|blob):/.test(request.url()) && complaints.push(`asked for ${request.url()}`));
    // The page says its name when it has drawn; what it said before must not count.
    const open = async (hash) => {
      await page.evaluate(() => document.querySelector('main')?.removeAttribute('data-page'));
      const address = `file://${file}#${hash}`;
      await (page.url() === address ? page.reload() : page.goto(address));
      await page.waitForSelector(`main[data-page="${hash.split('?')[0]}"]`);
    };
    await test(page, open);
    check(complaints.length === 0, `the page complained: ${complaints.join('; ')}`);
  } finally {
    await browser.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 50 }); // its processes may still write there
  }
}
