// others.js - the pages that are tables and charts of one part of the data each.
import { h } from '../dom.js';
import { baseName, figure, milliseconds } from '../format.js';
import { absent, facts, rangeChip } from '../controls.js';
import { bars, heatMap } from '../charts.js';
import { table } from '../table.js';
import { TERMS, term } from '../terms.js';

export function sizes(model, state) {
  const { histograms = [], heat = [] } = model.raw;
  if (histograms.length + heat.length === 0) return absent('The distribution of sizes and lifetimes', 'Modes sites and trace record it.');
  return h('div', {}, rangeChip(model, state, { whole: true }),
    heat.map((each) => heatMap(each)), histograms.map((each) => [h('h3', {}, term(each.term, each.name)), bars(each)]));
}

export function globals(model, state) {
  const all = model.raw.globals;
  if (!all) return absent('Global variables', 'They are read from the program\'s files where numalloc-dump runs.');
  return h('div', {}, rangeChip(model, state, { whole: true }), table({
    label: 'globals', rows: [...all.name.keys()], sort: { id: 'bytes', down: true }, height: 560,
    columns: [
      { id: 'bytes', name: 'bytes', unit: 'bytes', value: (i) => all.bytes[i], width: '8rem' },
      { id: 'tls', name: 'per thread', tip: TERMS.tls, value: (i) => (all.tls[i] ? 'yes' : ''), width: '7rem' },
      { id: 'name', name: 'variable', value: (i) => all.name[i], width: '3fr' },
      { id: 'module', name: 'module', tip: TERMS.module, value: (i) => all.module[i], cell: (i) => h('span', { title: all.module[i] }, baseName(all.module[i])), width: '2fr' },
    ],
  }).element);
}

export function run(model) {
  const { run: about } = model.raw;
  const list = (title, rows) => rows?.length > 0 && [h('h3', {}, title), h('table', { class: 'plain' }, rows.map((row) => h('tr', {}, [row].flat().map((cell) => h('td', {}, cell)))))];
  return h('div', {}, facts([...about.facts, ['Duration', milliseconds(about.duration_ms)], ['Ended', about.ended]]),
    about.lost?.length > 0 ? list('Not seen', about.lost.map(([n, what]) => [figure(n, 'count'), what])) : h('p', { class: 'note' }, `Nothing was lost: every ${model.run.mode === 'sample' ? 'block that was drawn' : 'event'} is in the figures.`),
    list('Without symbols', about.missing), list('Environment', about.environment), list('Modules', about.modules));
}
