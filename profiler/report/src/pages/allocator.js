// allocator.js - what the allocator did with what was asked for.
import { h } from '../dom.js';
import { absent, rangeChip, siteHints, siteLink } from '../controls.js';
import { heatMap } from '../charts.js';
import { timeChart } from '../timechart.js';
import { table } from '../table.js';
import { TERMS } from '../terms.js';

export function allocator(model, state) {
  const { allocator: parts, nodes, filled } = model.raw;
  if (!parts || parts.length === 0) return absent('The allocator\'s own state', 'This profile holds none of it.');
  return h('div', {}, rangeChip(model, state, { whole: true }), parts.map((part) => [
    h('h3', {}, part.title), part.note && h('p', { class: 'quiet' }, part.note),
    table({
      label: part.title, rows: part.rows, height: 420,
      sort: part.sort === undefined ? { id: '-1', down: false } : { id: String(part.sort), down: true },
      columns: part.columns.map((name, i) => ({
        id: String(i), name, unit: part.units[i] || undefined, tip: TERMS[part.terms?.[i]],
        value: (row) => (i === part.site ? siteText(model, row[i]) : row[i] ?? (part.units[i] ? NaN : '')), order: (row) => row[i] ?? -1,
        cell: i === part.site ? (row) => (row[i] < 0 ? siteText(model, row[i]) : [siteLink(model, row[i]), h('small', { class: 'quiet' }, ` ${siteHints(model, row[i])[1]}`)]) : undefined, width: part.units[i] ? 'minmax(6rem, 1fr)' : i === 0 ? 'minmax(12rem, 2fr)' : '4rem',
      })),
    }).element, part.site !== undefined && filled && heatMap({ ...filled, figures: true })]), nodes && overTime(nodes, state));
}

function siteText(model, site) {
  return site < 0 ? '(smaller sites)' : model.siteName(site);
}

function overTime(nodes, state) {
  const chart = (title, rows) => rows?.length > 0 && [h('h3', {}, title), timeChart({
    interval: nodes.interval_ms, range: state.range, stacked: rows.length > 1, height: 200,
    series: rows.map(({ node, values }) => ({ name: `node ${node}`, unit: 'bytes', values, fill: true })),
  })];
  return [chart('Live bytes by node over time', nodes.live), chart('Held by the allocator, by node, over time', nodes.mapped)];
}
