// threads.js - what each thread did, and which of them freed whose blocks.
import { h } from '../dom.js';
import { figure, percent } from '../format.js';
import { absent, rangeChip } from '../controls.js';
import { heatMap } from '../charts.js';
import { csvButton, table } from '../table.js';
import { TERMS, term } from '../terms.js';

const MOST = 48; // threads of a matrix

export function threads(model, state) {
  const { threads: all, run } = model.raw;
  if (!all) return absent('A list of threads', 'Every mode records it.');
  const rows = [...all.id.keys()];
  const calls = model.raw.thread_calls ?? [];
  const time = rows.map(() => null);
  for (const [thread, , , , ms] of calls) if (ms !== null) time[thread] = (time[thread] ?? 0) + ms;
  const shown = table({
    label: 'threads', rows, sort: { id: 'bytes', down: true },
    columns: [
      { id: 'name', name: 'name', value: (i) => all.name[i] || '?', width: '2fr' },
      { id: 'tid', name: 'tid', unit: 'count', tip: 'The kernel\'s number of the thread.', value: (i) => all.tid[i], cell: (i) => all.tid[i], width: '6rem' },
      { id: 'start', name: 'began', unit: 'ms', tip: TERMS.began, value: (i) => all.start_ms[i] },
      { id: 'life', name: 'lived', unit: 'ms', tip: TERMS.lived, value: (i) => (all.end_ms[i] ?? run.duration_ms) - all.start_ms[i] },
      { id: 'allocations', name: 'allocations', unit: 'count', tip: TERMS.count, value: (i) => all.allocations[i] },
      { id: 'frees', name: 'frees', unit: 'count', tip: 'Calls of free and its kin by this thread, whoever allocated.', value: (i) => all.frees[i] },
      { id: 'bytes', name: 'requested', unit: 'bytes', tip: TERMS.total, value: (i) => all.bytes[i] },
      { id: 'time', name: 'in the allocator', unit: 'ms', tip: TERMS.callTime, value: (i) => time[i] },
    ],
  });
  return h('div', {}, rangeChip(model, state, { whole: true }), h('div', { class: 'bar-controls' }, csvButton(shown, 'threads.csv')), shown.element,
    calls.length > 0 && callTable(all, calls),
    threadMatrix(model, model.raw.handed, 'Blocks'));
}

/** calls: [[thread, entry point, calls, of them timed, ms, error as a fraction]..] */
function callTable(all, calls) {
  const shown = table({
    label: 'calls by entry point', rows: calls, sort: { id: 'ms', down: true },
    columns: [
      { id: 'name', name: 'thread', value: ([i]) => `${all.name[i] || '?'} ${all.id[i]}`, width: '2fr' },
      { id: 'call', name: 'call', value: ([, call]) => call },
      { id: 'calls', name: 'calls', unit: 'count', value: ([, , n]) => n },
      { id: 'timed', name: 'timed', unit: 'count', tip: TERMS.timed, value: ([, , , n]) => n },
      { id: 'ms', name: 'time', unit: 'ms', tip: TERMS.callTime, value: ([, , , , ms]) => ms, order: ([, , , , ms, error]) => (error >= 1 ? ms - 1e15 : ms) },
      { id: 'error', name: '±', unit: 'share', tip: TERMS.callError, value: ([, , , , , error]) => error },
      { id: 'each', name: 'each', unit: 'ms', tip: TERMS.callEach, value: ([, , n, , ms]) => (ms === null ? null : ms / n) },
    ],
  });
  return [h('h3', {}, term('callTime', 'Calls by entry point')), h('div', { class: 'bar-controls' }, csvButton(shown, 'calls.csv')), shown.element];
}

/** pairs: [[thread that allocated, thread that freed, blocks]..]; nothing if all did it themselves. */
export function threadMatrix(model, pairs, what) {
  if (!pairs || pairs.length === 0) return null;
  const names = new Map((model.raw.threads?.id ?? []).map((id, i) => [id, `${model.raw.threads.name[i] || '?'} ${id}`]));
  const name = (id) => (id === 0 ? 'one of several' : names.get(id) ?? `thread ${id}`);
  const all = pairs.reduce((sum, [, , blocks]) => sum + blocks, 0);
  const others = pairs.reduce((sum, [from, to, blocks]) => sum + (from === to ? 0 : blocks), 0);
  const ids = [...new Set(pairs.flatMap(([from, to]) => [from, to]))];
  if (ids.length === 1) return [h('h3', {}, term('matrix', 'Who frees what who allocated')), h('p', { 'data-pairs': '' }, `All of ${figure(all, 'count')} frees were by ${name(ids[0])}, which had allocated the blocks.`)];
  // Those with the most blocks, in the order in which they began, so that own frees lie on the diagonal.
  const few = (all) => [...new Set(all)].slice(0, MOST).sort((a, b) => a - b);
  const rows = few(pairs.map(([from]) => from)).reverse();
  const columns = few(pairs.map(([, to]) => to));
  const at = new Map(pairs.map(([from, to, blocks]) => [`${from} ${to}`, blocks]));
  const left = pairs.filter(([from, to]) => !rows.includes(from) || !columns.includes(to)).reduce((sum, [, , blocks]) => sum + blocks, 0);
  return [h('h3', {}, term('matrix', 'Who frees what who allocated')),
    h('p', { 'data-pairs': '' }, `${figure(others, 'count')} of ${figure(all, 'count')} frees (${percent(others, all)}) were by another thread than allocated.`),
    heatMap({
      name: `${what} by the thread that allocated (rows) and the one that freed (columns)`, term: 'matrix',
      x: columns.map(name), y: rows.map(name), xName: 'freed by', yName: 'allocated by', figures: true,
      values: rows.map((from) => columns.map((to) => at.get(`${from} ${to}`) ?? 0)),
    }),
    left > 0 && h('p', { class: 'quiet' }, `${figure(left, 'count')} frees of other pairs of threads are not drawn.`)];
}
