// numa.js - accesses: which node goes to whose memory, what is wrong with where things lie, and the
// objects that it is about. Shown only where the profile has accesses.
import { h } from '../dom.js';
import { bytes, count, figure, milliseconds, percent } from '../format.js';
import { link } from '../state.js';
import { rangeChip, siteLink } from '../controls.js';
import { bars, heatMap } from '../charts.js';
import { timeChart } from '../timechart.js';
import { csvButton, table } from '../table.js';
import { TERMS, term } from '../terms.js';

export function numa(model, state) {
  const { access } = model.raw;
  if (access.samples === undefined) return noSamples(access);
  return h('div', {}, rangeChip(model, state, { whole: true }), notes(access),
    h('div', { class: 'cards' },
      card('remote', 'to other nodes', access.remote === null ? '–' : percent(access.remote, 1), `of the accesses whose two nodes are known${access.remote_low < access.remote_high ? `; ${percent(access.remote_low, 1)} to ${percent(access.remote_high, 1)} with what was lost` : ''}`),
      card('samples', access.dram ? 'samples that memory answered' : 'samples', count(access.samples), `by ${access.source}, unit ${access.unit}`),
      access.local_latency !== null && card('localLatency', 'local latency', `${count(access.local_latency)} cycles`, 'median'),
      access.writes !== null && card('writesShare', 'writes', percent(access.writes, 1), 'of those that are told apart')),
    h('h3', {}, term('verdict', 'What is wrong with where memory lies')), verdicts(model, access.verdicts),
    access.verdicts.length === 0 && h('p', { class: 'note' }, 'No object has enough samples to be judged.'),
    h('h3', {}, term('matrix nodes', 'From which node to whose memory')), matrix(access), load(access),
    h('h3', {}, 'Objects by what they cost'), objects(model, access),
    access.levels_known && access.levels.length > 0 && [h('h3', {}, term('level', 'What answered')), bars({ name: 'what answered', unit: 'share', x: access.levels.map(([name]) => name), values: access.levels.map(([, share]) => share) })],
    h('h3', {}, 'Kinds of objects'), plain(['kind', 'of all accesses', 'remote', 'of all remote'], access.kinds.map(([name, ...shares]) => [name, ...shares.map((s) => (s === null ? '–' : percent(s, 1)))])));
}

function noSamples(access) {
  return h('div', {}, h('p', { class: 'note' }, 'No accesses were sampled. What could have sampled them, and why it did not:'),
    plain(['source', 'why not'], access.sources.map((s) => [s.name, s.why || '–'])));
}

function card(id, name, value, more) {
  return h('div', { class: 'card' }, h('small', {}, term(id, name)), h('b', { 'data-access': id }, value), h('small', {}, more));
}

function plain(heads, rows) {
  return h('table', { class: 'plain' }, h('tr', {}, heads.map((name) => h('th', {}, name))), rows.map((row) => h('tr', {}, row.map((cell) => h('td', {}, cell)))));
}

/** What a reader must know before believing a figure. */
function notes(access) {
  const used = access.sources.filter((s) => s.name === access.source);
  const sum = (figure) => used.reduce((all, s) => all + s[figure], 0);
  return [
    access.made_up && 'These samples are made up, for tests; they say nothing about the program.',
    !access.levels_known && `${access.source} does not tell whether memory or a cache answered: all accesses count.`,
    !access.enough && `${count(access.samples)} samples: below ${count(access.enough_samples)} small shares are uncertain. Run longer, or sample more.`,
    sum('lost') > 0 && `${count(sum('lost'))} samples were lost.`,
    sum('throttled') > 0 && `The kernel paused the sampling ${count(sum('throttled'))} times, when there was most to sample: no verdict is certain.`,
    ...access.sources.filter((s) => s.name !== access.source && s.samples > 0).map((s) => `${count(s.samples)} samples by ${s.name} are left out: units do not mix.`),
  ].filter(Boolean).map((text) => h('p', { class: 'note' }, text));
}

function value(condition) {
  if (condition.value === null) return 'not known';
  return condition.unit === 'share' ? percent(condition.value, 1) : condition.value.toFixed(2);
}

export function evidence(rule) {
  return h('ul', { class: 'evidence' },
    rule.evidence.map((c) => h('li', { class: c.met === null ? 'open' : c.met ? 'met' : 'unmet' },
      `${value(c)} ${c.what} (${c.at_least ? 'at least' : 'below'} ${c.unit === 'share' ? percent(c.limit, 1) : c.limit})`)),
    rule.lacks.map((name) => h('li', { class: 'open' }, `the source does not give: ${name}`)));
}

/** How much there is to gain at all, before whose it is. */
function cost({ remote_in_all: all, verdict: kind, cost_share: share }) {
  if (kind === 'false_sharing' && all !== null && all < 0.01) return 'on one node as on several';
  const inAll = all === null ? '' : `of ${percent(all, 1)} remote in all${all < 0.01 ? ': nothing to gain; ' : ', '}`;
  return `${inAll}${percent(share, 1)} of all remote cost`;
}

/** Those with something to do; the others are folded into one line. */
function verdicts(model, all) {
  const idle = (v) => v.verdict !== 'false_sharing' && (['nothing', 'nothing_wrong', 'undecidable'].includes(v.verdict) || (v.remote_in_all !== null && v.remote_in_all < 0.01));
  const rest = all.filter(idle);
  return [all.filter((v) => !idle(v)).map((v) => verdict(model, v)),
    rest.length > 0 && h('details', { class: 'finding' }, h('summary', {}, `${count(rest.length)} of which nothing can be decided or gained`), rest.map((v) => verdict(model, v)))];
}

export function verdict(model, v) {
  const wrong = !['nothing', 'nothing_wrong', 'undecidable'].includes(v.verdict);
  const named = v.site >= 0 ? siteLink(model, v.site) : null;
  return h('details', { class: `finding ${wrong ? 'warning' : v.verdict === 'undecidable' ? '' : 'good'}`, open: wrong, 'data-verdict': v.verdict },
    h('summary', {}, h('b', { style: { display: 'inline' } }, v.title), ': ', v.name, ' ', h('span', { class: 'quiet' }, cost(v))),
    h('div', {}, v.means, v.chance === null ? '' : `; ${percent(Math.floor(v.chance * 100) / 100, 1)} sure. `, named, ' ',
      v.flow >= 0 && h('a', { href: link('flow', { flow: v.flow }) }, 'Its flow')),
    v.reason && h('div', {}, v.reason),
    h('div', { class: 'quiet' }, `${count(v.samples)} samples by ${v.threads} thread${v.threads === 1 ? '' : 's'}, from node${/\D/.test(v.from || '') ? 's' : ''} ${v.from || '–'}, lies on ${v.home || '–'}${v.handoff_ms === null ? '' : `, handed on ${milliseconds(v.handoff_ms)} after it was allocated`}`),
    v.evidence && evidence(v),
    v.code && h('div', { class: 'remedy' }, v.code), v.command && h('div', { class: 'remedy' }, v.command),
    v.expected && h('div', {}, `Expected: ${v.expected}`),
    wrong && v.runners.map((r) => h('details', {}, h('summary', {}, `or: ${r.title}`), evidence(r))));
}

/** Rows: the node of the thread; columns: that of the page. Local ones lie on the diagonal. */
function matrix({ matrix: cells, nodes }) {
  const latencies = cells.flat().some((cell) => cell.latency !== null);
  return h('div', { class: 'scroll', tabindex: 0 }, h('table', { class: 'matrix', 'aria-label': 'accesses from node to node' },
    h('tr', {}, h('th', {}, 'from \\ to'), nodes.map((n) => h('th', {}, `node ${n.node}`))),
    cells.map((row, from) => h('tr', {}, h('th', {}, `node ${nodes[from].node}`), row.map((cell, home) => h('td', {
      style: { backgroundColor: cell.share > 0 ? `color-mix(in srgb, ${from === home ? 'var(--accent)' : 'var(--warning)'} ${Math.round(12 + 60 * cell.share)}%, transparent)` : null },
      'data-tip': `${count(cell.samples)} samples from node ${nodes[from].node} to the memory of node ${nodes[home].node}, distance ${nodes[from].distance[home] || 'not known'}`,
    }, cell.share === null ? '–' : percent(cell.share, 1), latencies && h('small', {}, cell.latency === null ? '–' : `${count(Math.round(cell.latency))} cycles`)))))));
}

function load(access) {
  const { load: rows, nodes, step_ms: step, start_ms: start } = access;
  if (!rows.some((row) => row.some((v) => v > 0))) return null;
  const x = rows[0].map((_, i) => milliseconds(start + i * step));
  const saturated = nodes.filter((n) => n.saturated);
  return [heatMap({ id: 'load', name: 'Load of each node\'s memory over time', term: 'load', xName: 'time from', yName: 'memory of', x, y: nodes.map((n) => `node ${n.node}`), values: rows }),
    saturated.map((n) => h('p', { class: 'note' }, `Node ${n.node} is saturated: ${percent(n.share, 1)} of the accesses, at ${n.latency_ratio.toFixed(2)} times the latency of others.`)),
    timeChart({ interval: step, height: 150, series: [{ name: 'to other nodes, %', unit: 'count', fill: true, values: access.remote_over_time.map((v) => (v === null ? null : Math.round(1000 * v) / 10)) }] })];
}

function objects(model, access) {
  const all = access.objects;
  const share = (id, name, tip) => ({ id, name, unit: 'share', tip: TERMS[tip], value: (i) => all[i][id] ?? NaN, order: (i) => all[i][id] ?? -1, share: id === 'of_remote' ? (i) => all[i][id] ?? 0 : undefined, width: '6.2rem' });
  const shown = table({
    label: 'objects', rows: [...all.keys()], height: 420, sort: { id: 'of_remote', down: true },
    columns: [
      { id: 'name', name: 'object', tip: TERMS.origin, value: (i) => all[i].name, cell: (i) => (all[i].flow >= 0 ? h('a', { href: link('flow', { flow: all[i].flow }) }, all[i].name) : all[i].name), width: 'minmax(15rem, 3fr)' },
      share('of_remote', '% of remote', 'ofRemote'), share('share', 'of all', 'ofAll'), share('remote', 'remote', 'remote'),
      { id: 'samples', name: 'samples', unit: 'count', tip: TERMS.samples, value: (i) => all[i].samples, width: '6rem' },
      all.some((o) => o.estimate) && { id: 'estimate', name: 'accesses (95 %)', unit: 'count', tip: TERMS.estimate, value: (i) => all[i].estimate?.[0] ?? NaN, order: (i) => all[i].estimate?.[0] ?? -1, cell: (i) => estimated(all[i].estimate), width: '12rem' },
      share('writes', 'writes', 'writesShare'),
      { id: 'latency', name: 'latency', unit: 'count', tip: TERMS.latency, value: (i) => all[i].latency ?? NaN, order: (i) => all[i].latency ?? -1, cell: (i) => (all[i].latency === null ? '–' : figure(Math.round(all[i].latency), 'count')), width: '5.5rem' },
      { id: 'threads', name: 'threads', unit: 'count', tip: 'That touched it.', value: (i) => all[i].threads, width: '5.5rem' },
      share('own', 'by maker', 'byMaker'),
      { id: 'from', name: 'from', tip: 'Nodes of the threads, heaviest first; those with a tenth or more.', value: (i) => all[i].from, width: '5rem' },
      { id: 'home', name: 'lies on', tip: 'Nodes of its pages, heaviest first.', value: (i) => all[i].home, width: '5rem' },
      { id: 'objects', name: 'objects', unit: 'count', tip: 'Instances with samples.', value: (i) => all[i].objects, width: '5.5rem' },
      { id: 'bytes', name: 'size', unit: 'bytes', tip: 'Of all instances.', value: (i) => all[i].bytes, width: '6rem' },
      { id: 'verdict', name: 'verdict', tip: TERMS.verdict, value: (i) => all[i].verdict, width: '11rem' },
      { id: 'kind', name: 'kind', tip: 'A block, a variable, a mapped file, a stack, ...', value: (i) => all[i].kind, width: '7rem' },
    ].filter(Boolean),
  });
  return [shown.element, h('div', { class: 'bar-controls' }, csvButton(shown, 'objects.csv')),
    access.left_out > 0 && h('p', { class: 'quiet' }, `${access.left_out} origins with fewer samples are left out.`)];
}

/** An estimate from watchpoints, [accesses, low, high], with its interval. */
export function estimated(estimate) {
  if (!estimate) return '–';
  const [sum, low, high] = estimate.map((v) => (v === null ? null : figure(Math.round(v), 'count')));
  return low === null ? 'undetermined' : `${sum} (${low} to ${high})`;
}

/** For the page of a flow: what is known of where it was made. */
export function sized(flow) {
  return flow.size > 0 ? bytes(flow.size) : 'not known';
}
