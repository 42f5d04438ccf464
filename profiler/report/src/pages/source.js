// source.js - source files with the memory of each line beside it.
import { h } from '../dom.js';
import { figure, percent } from '../format.js';
import { change, link } from '../state.js';
import { absent, metricChoice, rangeChip } from '../controls.js';
import { table } from '../table.js';
import { TERMS } from '../terms.js';
import { treeTable } from './calltree.js';

export function source(model, state) {
  const sources = model.raw.sources ?? {};
  const { metric, element } = metricChoice(model, state, { tree: true });
  const total = model.total(metric.id, state.range);
  const file = state.file === undefined ? null : Number(state.file);
  const controls = h('div', { class: 'bar-controls' }, element, rangeChip(model, state));
  if (file === null || !sources[file]) {
    const rows = files(model, metric, state.range);
    if (rows.length === 0) return h('div', {}, controls, absent('Source lines', 'They need debug information (-g or separate debug files) where numalloc-dump runs.'));
    return h('div', {}, controls, table({
      label: 'files', rows, height: 560, sort: { id: 'below', down: true },
      columns: [
        { id: 'self', name: 'itself', unit: metric.unit, tip: TERMS.exclusive, value: (r) => r.self, width: '8rem', share: (r) => r.self / total },
        { id: 'below', name: 'with callees', unit: metric.unit, tip: TERMS.inclusive, value: (r) => r.below, width: '8rem', share: (r) => r.below / total },
        { id: 'file', name: 'file', value: (r) => model.string(r.file), cell: (r) => (sources[r.file] ? h('a', { href: link('source', { file: r.file }) }, model.string(r.file)) : model.string(r.file)), width: '4fr' },
      ],
    }).element, h('p', { class: 'quiet' }, 'Files whose text was found when the report was made can be opened.'));
  }
  const text = sources[file];
  const figures = model.lines(file, metric.id, state.range);
  const chosen = Number(state.line ?? 0);
  const code = h('div', { class: 'code', tabindex: 0 }, text.lines.map((line, i) => codeLine(file, line, text.first + i, figures.get(text.first + i), metric, chosen)));
  requestAnimationFrame(() => (code.querySelector('[data-chosen]') ?? code.querySelector('.hot'))?.scrollIntoView({ block: 'center' }));
  return h('div', {}, controls, h('h3', {}, model.string(file), ' ', h('a', { href: link('source') }, 'all files')),
    h('p', { class: 'quiet' }, `Left: what the line itself asked for; then with all that it calls; of ${figure(total, metric.unit)} in all. A line's number leads to its calls below.`), code,
    calls(model, metric, state, file, chosen));
}

/** Below the text: what the file, or the chosen line of it, calls, or who calls it. */
function calls(model, metric, state, file, line) {
  const { file: files, line: lines } = model.raw.frames;
  const callers = state.callers === '1';
  const root = model.tree(metric.id, state.range, { inverted: callers, recursion: true, grouped: true, through: (frame) => files[frame] === file && (!line || lines[frame] === line) });
  const where = line ? `line ${line}` : 'this file';
  return [h('h3', { id: 'calls' }, callers ? `Who calls ${where}` : `What ${where} calls`),
    h('div', { class: 'bar-controls' },
      h('button', { 'aria-pressed': String(callers), onclick: () => change({ callers: callers ? null : '1' }) }, 'Callers'),
      line > 0 && h('button', { onclick: () => change({ line: null }) }, 'Whole file'),
      h('span', { class: 'quiet' }, figure(root.value, metric.unit))),
    root.value > 0 ? treeTable(model, metric, root) : h('p', { class: 'note' }, `Nothing was asked for through ${where}.`)];
}

function codeLine(file, text, number, figures, metric, chosen) {
  return h('div', { class: figures ? 'hot' : null, 'data-chosen': number === chosen ? 'yes' : null },
    h('span', { class: 'number' }, figures?.self ? figure(figures.self, metric.unit) : ''),
    h('span', { class: 'number' }, figures?.below ? figure(figures.below, metric.unit) : ''),
    h('span', { class: 'number' }, figures ? h('a', { href: link('source', { file, line: number }) }, number) : number), h('span', {}, text));
}

function files(model, metric, range) {
  const rows = new Map();
  const values = model.values(metric.id, range);
  const { file: of } = model.raw.frames;
  for (let site = 0; site < model.siteCount; site++) {
    if (values[site] === 0) continue;
    const seen = new Set();
    const row = (file) => {
      if (!rows.has(file)) rows.set(file, { file, self: 0, below: 0 });
      return rows.get(file);
    };
    for (const frame of model.stack(site)) {
      if (of[frame] < 0 || seen.has(of[frame])) continue;
      seen.add(of[frame]);
      row(of[frame]).below += values[site];
    }
    const by = model.sites.by[site];
    if (by >= 0 && of[by] >= 0 && model.sites.id[site] !== 0) row(of[by]).self += values[site];
  }
  return [...rows.values()];
}

/** A few lines around a frame's, where the text is in the page. */
export function excerpt(model, frame) {
  const place = model.place(frame);
  const text = place && model.raw.sources?.[place.file];
  if (!text) return null;
  const from = Math.max(text.first, place.line - 4);
  const lines = text.lines.slice(from - text.first, place.line + 4 - text.first + 1);
  if (lines.length === 0) return null;
  return [h('h3', {}, 'Source'), h('div', { class: 'code', tabindex: 0 }, lines.map((line, i) =>
    h('div', { class: from + i === place.line ? 'hot' : null }, h('span', {}), h('span', {}), h('span', { class: 'number' }, from + i), h('span', {}, line)))),
  h('p', {}, h('a', { href: link('source', { file: place.file, line: place.line }) }, 'The whole file'), ' ', h('span', { class: 'quiet' }, percent(model.lines(place.file, model.metrics[0].id, null).get(place.line)?.below ?? 0, model.total(model.metrics[0].id))))];
}
