// others.js - the pages that are tables and charts of one part of the data each.
import { h } from '../dom.js';
import { figure, milliseconds } from '../format.js';
import { absent, facts, rangeChip } from '../controls.js';
import { bars, heatMap } from '../charts.js';
import { csvButton, table } from '../table.js';
import { term } from '../terms.js';

export function sizes(model, state) {
  const { histograms = [], heat = [] } = model.raw;
  if (histograms.length + heat.length === 0) return absent('The distribution of sizes and lifetimes', 'Modes sites and trace record it.');
  return h('div', {}, rangeChip(model, state, { whole: true }),
    histograms.map((each) => [h('h3', {}, term(each.term, each.name)), bars(each)]), heat.map((each) => heatMap(each)));
}

export function threads(model, state) {
  const { threads: all, run } = model.raw;
  if (!all) return absent('A list of threads', 'Every mode records it.');
  const rows = [...all.id.keys()];
  const shown = table({
    label: 'threads', rows, sort: { id: 'bytes', down: true },
    columns: [
      { id: 'name', name: 'name', value: (i) => all.name[i] || '?', width: '2fr' },
      { id: 'tid', name: 'tid', unit: 'count', value: (i) => all.tid[i], cell: (i) => all.tid[i], width: '6rem' },
      { id: 'start', name: 'began', unit: 'ms', value: (i) => all.start_ms[i] },
      { id: 'life', name: 'lived', unit: 'ms', tip: 'Until it ended, or the profile did.', value: (i) => (all.end_ms[i] ?? run.duration_ms) - all.start_ms[i] },
      { id: 'allocations', name: 'allocations', unit: 'count', value: (i) => all.allocations[i] },
      { id: 'frees', name: 'frees', unit: 'count', value: (i) => all.frees[i] },
      { id: 'bytes', name: 'requested', unit: 'bytes', value: (i) => all.bytes[i] },
    ],
  });
  return h('div', {}, rangeChip(model, state, { whole: true }), h('div', { class: 'bar-controls' }, csvButton(shown, 'threads.csv')), shown.element, handed(model));
}

/** Frees by another thread than the allocating one. */
function handed(model) {
  const { handed: pairs, threads: all } = model.raw;
  if (!pairs || pairs.length === 0) return null;
  const ids = [...new Set(pairs.flatMap(([from, to]) => [from, to]))].slice(0, 64);
  const name = (id) => all.name[all.id.indexOf(id)] ?? String(id);
  return heatMap({
    name: 'Blocks by allocating thread (rows) and freeing thread (columns)', x: ids.map(name), y: ids.map(name), xName: 'freed by', yName: 'allocated by',
    values: ids.map((from) => ids.map((to) => pairs.find(([a, b]) => a === from && b === to)?.[2] ?? 0)),
  });
}

export function globals(model, state) {
  const all = model.raw.globals;
  if (!all) return absent('Global variables', 'They are read from the program\'s files where numalloc-dump runs.');
  return h('div', {}, rangeChip(model, state, { whole: true }), table({
    label: 'globals', rows: [...all.name.keys()], sort: { id: 'bytes', down: true }, height: 560,
    columns: [
      { id: 'bytes', name: 'bytes', unit: 'bytes', value: (i) => all.bytes[i], width: '8rem' },
      { id: 'tls', name: 'per thread', value: (i) => (all.tls[i] ? 'yes' : ''), width: '7rem' },
      { id: 'name', name: 'variable', value: (i) => all.name[i], width: '3fr' },
      { id: 'module', name: 'module', value: (i) => all.module[i], width: '2fr' },
    ],
  }).element);
}

export function allocator(model, state) {
  const parts = model.raw.allocator;
  if (!parts || parts.length === 0) return absent('The allocator\'s own state', 'This profile holds none of it.');
  return h('div', {}, rangeChip(model, state, { whole: true }), parts.map((part) => [
    h('h3', {}, part.title), part.note && h('p', { class: 'quiet' }, part.note),
    table({
      label: part.title, rows: part.rows,
      columns: part.columns.map((name, i) => ({ id: String(i), name, unit: part.units[i] || undefined, value: (row) => row[i] })),
    }).element]));
}

export function run(model) {
  const { run: about } = model.raw;
  const list = (title, rows) => rows?.length > 0 && [h('h3', {}, title), h('table', { class: 'plain' }, rows.map((row) => h('tr', {}, [row].flat().map((cell) => h('td', {}, cell)))))];
  return h('div', {}, facts([...about.facts, ['Duration', milliseconds(about.duration_ms)], ['Ended', about.ended]]),
    about.lost?.length > 0 ? list('Not seen', about.lost.map(([n, what]) => [figure(n, 'count'), what])) : h('p', { class: 'note' }, 'Nothing was lost: every event is in the figures.'),
    list('Without symbols', about.missing), list('Environment', about.environment), list('Modules', about.modules));
}
