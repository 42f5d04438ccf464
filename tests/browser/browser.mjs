// browser.mjs - what the tests share: a browser, a page that may not complain, assertions.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

export function check(condition, text) {
  if (!condition) throw new Error(text);
}

/** 1.91 MiB as bytes; the page rounds to three digits. */
export function near(text, bytes) {
  const [, number, unit] = text.match(/^([\d.]+) (B|KiB|MiB|GiB)$/) ?? [];
  const shown = Number(number) * { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 }[unit];
  return Math.abs(shown - bytes) <= Math.max(1, bytes * 0.006);
}

/** Runs test(page, open) with a page that has opened the file; anything on the console fails it. */
export async function withPage(file, test) {
  const profile = mkdtempSync(join(tmpdir(), 'numalloc-browser-'));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: '/usr/bin/chromium', headless: true, viewport: { width: 1280, height: 900 },
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  const complaints = [];
  try {
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
    rmSync(profile, { recursive: true, force: true });
  }
}
