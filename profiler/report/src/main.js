// main.js - loads the data, shows the page that the address names, and keeps the keyboard.
import { h, replace } from './dom.js';
import { load } from './model.js';
import { link, read, start } from './state.js';
import { startTips } from './terms.js';
import { summary } from './pages/summary.js';
import { timeline } from './pages/timeline.js';
import { flame } from './pages/flame.js';
import { sites } from './pages/sites.js';
import { site } from './pages/site.js';
import { source } from './pages/source.js';
import { calltree } from './pages/calltree.js';
import { threads } from './pages/threads.js';
import { allocator } from './pages/allocator.js';
import { numa } from './pages/numa.js';
import { flow } from './pages/flow.js';
import { errors } from './pages/errors.js';
import { globals, run, sizes } from './pages/others.js';

// key: typed after g. has: what of the data the page cannot do without; only: it is not there without.
const PAGES = [
  { id: 'summary', key: 'h', title: 'Summary', show: summary },
  { id: 'timeline', key: 't', title: 'Timeline', show: timeline, has: 'timeline' },
  { id: 'flame', key: 'f', title: 'Flame graph', show: flame },
  { id: 'sites', key: 's', title: 'Sites', show: sites },
  { id: 'site', title: 'Site', show: site, under: 'sites' },
  { id: 'source', key: 'c', title: 'Source', show: source },
  { id: 'calltree', key: 'k', title: 'Call tree', show: calltree },
  { id: 'sizes', key: 'z', title: 'Sizes', show: sizes, has: 'histograms' },
  { id: 'threads', key: 'd', title: 'Threads', show: threads, has: 'threads' },
  { id: 'globals', key: 'b', title: 'Globals', show: globals, has: 'globals' },
  { id: 'allocator', key: 'a', title: 'Allocator', show: allocator, has: 'allocator' },
  { id: 'numa', key: 'n', title: 'NUMA', show: numa, only: 'access' },
  { id: 'flow', key: 'o', title: 'Object flow', show: flow, only: 'access' },
  { id: 'errors', key: 'e', title: 'Memory errors', show: errors, only: 'errors' },
  { id: 'run', key: 'r', title: 'Run', show: run },
];

const nav = document.querySelector('nav');
const main = document.querySelector('main');

function offered(model) {
  return PAGES.filter((each) => !each.only || model.raw[each.only]);
}

function theme(wanted) {
  const dark = wanted ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  document.documentElement.dataset.theme = dark;
}

function drawNav(model, page) {
  const name = model.run.program.split('/').pop();
  replace(nav, h('h1', { title: model.run.command }, name),
    offered(model).filter((each) => !each.under).map((each) => h('a', {
      href: link(each.id), 'aria-current': each.id === (page.under ?? page.id) ? 'page' : null,
      'data-empty': each.has && !model.raw[each.has] ? 'yes' : null, title: each.key ? `g ${each.key}` : null,
    }, each.title)),
    h('p', { style: { padding: '0 1rem' } }, h('button', {
      class: 'quiet', onclick: () => {
        theme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
        show(model);
      },
    }, 'Light or dark'), ' ', h('button', { class: 'quiet', onclick: () => window.print() }, 'Print'), ' ',
    h('button', { class: 'quiet', onclick: help }, 'Keys')));
}

function show(model) {
  const state = read();
  const page = offered(model).find((each) => each.id === state.page) ?? PAGES[0];
  drawNav(model, page);
  document.title = `${page.title} - ${model.run.program.split('/').pop()}`;
  const begin = performance.now();
  let content;
  try {
    content = page.show(model, state);
  } catch (error) {
    console.error(error);
    content = h('p', { class: 'note' }, `This page cannot be shown: ${error.message}`);
  }
  content = h('div', {}, content);
  replace(main, h('h2', {}, page.title), content);
  main.dataset.drawn = String(Math.round(performance.now() - begin));
  // Tables and drawings want the size that they got: they draw in the next frame. Tests wait for it.
  delete main.dataset.page;
  requestAnimationFrame(() => requestAnimationFrame(() => {
    if (main.lastChild === content) main.dataset.page = page.id;
  }));
}

/** What the keyboard does; ? shows and hides it. */
function help() {
  const open = document.getElementById('help');
  if (open) {
    open.remove();
    return;
  }
  const rows = [['/', 'search'], ['?', 'this list'], ['↑ ↓ Page Home End', 'rows of a table, frames of the flame graph'], ['Enter', 'open the row, zoom into the frame'], ['← →', 'neighbours in the flame graph'], ['Esc', 'zoom out, close'],
    ...offered(window.numallocModel).filter((each) => each.key).map((each) => [`g ${each.key}`, each.title])];
  document.body.append(h('div', { id: 'help', role: 'dialog', 'aria-label': 'Keys' }, h('h3', {}, 'Keys'),
    h('dl', { class: 'facts' }, rows.map(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)])),
    h('button', { onclick: help }, 'Close')));
}

function keys() {
  let after = false;
  document.addEventListener('keydown', (event) => {
    if (event.target.matches('input, select, textarea') || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/') {
      event.preventDefault();
      document.getElementById('search')?.focus();
    } else if (event.key === '?' || (event.key === 'Escape' && document.getElementById('help'))) {
      help();
    } else if (after) {
      const page = offered(window.numallocModel).find((each) => each.key === event.key);
      if (page) location.hash = link(page.id);
    }
    after = event.key === 'g';
  });
}

theme();
startTips();
load().then((model) => {
  window.numallocModel = model;
  start(() => show(model));
  keys();
  show(model);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    theme();
    show(model);
  });
}).catch((error) => {
  console.error(error);
  replace(main, h('p', { class: 'note' }, `The data of this page cannot be read: ${error.message}`));
});
