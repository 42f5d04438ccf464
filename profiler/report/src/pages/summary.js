// summary.js - the first look: what ran, what it took, what stands out.
import { h } from '../dom.js';
import { baseName, figure, percent } from '../format.js';
import { link } from '../state.js';
import { facts, shareOf, siteHints, siteLink, unfolding } from '../controls.js';
import { nameOf, tellApart } from '../names.js';
import { errorName } from './errors.js';
import { TERMS, term } from '../terms.js';
import { table } from '../table.js';

function signed(value, unit) {
  return `${value > 0 ? '+' : ''}${figure(value, unit)}`;
}

/** One line, which leads to the site; it unfolds to what is behind it. */
function finding(model, f) {
  const known = f.place && f.site !== undefined && model.sites.id.includes(f.site);
  return unfolding({ class: `finding ${f.level}`, 'data-finding': f.id },
    known ? [h('a', { href: link('site', { id: f.site }) }, f.place), f.line.slice(f.place.length)] : f.line,
    facts([['Seen', f.evidence], ['Why', f.reason], ['What to do', f.remedy], ...(f.page ? [['More', h('a', { href: link(f.page) }, f.page)]] : [])]));
}

export function summary(model) {
  const { run, totals, findings = [] } = model.raw;
  const metrics = model.metrics;
  const { base } = model.raw;
  const by = model.byFunction();
  const rows = by.rows.filter((row) => row.self > 0 || row.before > 0);
  const total = totals[metrics[0].id];
  const apart = new Map(tellApart(rows.map(({ fn }) => ({ name: model.functionName(fn), hints: () => model.functionHints(fn) }))).map((text, i) => [rows[i].fn, text]));
  return h('div', {},
    h('p', { class: 'quiet command', title: run.command }, run.command || run.program),
    h('div', { class: 'first' }, h('div', { class: 'figures' }, h('div', { class: 'cards' }, metrics.filter((m) => m.tree).map((metric) =>
      h('a', { class: 'card', href: link('flame', { metric: metric.id }), style: { textDecoration: 'none', color: 'inherit' } },
        h('small', {}, term(metric.term, metric.name)), h('b', { 'data-metric': metric.id }, figure(totals[metric.id], metric.unit)),
        base && h('small', { class: totals[metric.id] > base.totals[metric.id] ? 'more' : 'less', 'data-change': metric.id }, `${signed(totals[metric.id] - base.totals[metric.id], metric.unit)} (${percent(totals[metric.id] - base.totals[metric.id], base.totals[metric.id])}) against before`)))),
    base && h('p', { class: 'note' }, `Compared with ${baseName(base.name)}: `, h('a', { href: link('flame') }, 'flame graph'), ' and ', h('a', { href: link('sites') }, 'sites'), ' show what changed.')),
    h('div', {},
    model.raw.errors?.length > 0 && h('p', { class: 'finding error', 'data-finding': 'memory-errors' }, h('a', { href: link('errors') }, `${model.raw.errors.length} memory error${model.raw.errors.length === 1 ? '' : 's'}`), `: ${[...new Set(model.raw.errors.map(errorName))].slice(0, 3).join('; ')}`),
    h('h3', {}, 'Findings'),
    findings.length === 0 ? h('p', { class: 'note' }, 'Nothing that is worth a change.') : findings.map((f) => finding(model, f)))),
    h('h3', {}, 'Functions by ', term(metrics[0].term, metrics[0].name)),
    table({
      label: 'functions', rows, height: 320, sort: { id: 'self', down: true },
      groups: {
        of: (r) => model.groupOf(r.fn), column: 'name',
        label: (all) => `${baseName(model.functionModule(all[0].fn))} (${all.length} functions without symbols)`,
      },
      columns: [
        { id: 'self', name: 'itself', unit: metrics[0].unit, tip: TERMS.exclusive, value: (r) => r.self, sum: true, width: '8rem', share: (_, value) => value / total },
        ...(base ? [{ id: 'before', name: 'before', unit: metrics[0].unit, tip: TERMS.before, value: (r) => r.before, sum: true, width: '7rem' },
          { id: 'change', name: 'change', unit: metrics[0].unit, tip: TERMS.change, value: (r) => r.self - r.before, sum: true, width: '7rem' }] : []),
        { id: 'below', name: 'with callees', unit: metrics[0].unit, tip: TERMS.inclusive, value: (r) => r.below, ofGroup: (_, key) => by.groups.get(key), width: '8rem', share: (_, value) => value / total },
        { id: 'name', name: 'function', value: (r) => model.functionName(r.fn), cell: (r) => h('a', { href: link('sites', { function: r.fn }) }, nameOf(model.functionName(r.fn), apart.get(r.fn))), width: '3fr' },
        { id: 'module', name: 'module', tip: TERMS.module, value: (r) => model.functionModule(r.fn), cell: (r) => h('span', { title: model.functionModule(r.fn) }, baseName(model.functionModule(r.fn))), width: '2fr' },
      ],
    }).element,
    h('h3', {}, 'Largest sites'),
    h('ol', {}, [...model.sites.node.keys()].sort((a, b) => model.values(metrics[0].id)[b] - model.values(metrics[0].id)[a]).slice(0, 5).map((site) =>
      h('li', {}, siteLink(model, site), h('small', { class: 'quiet' }, siteHints(model, site).slice(0, 2).filter(Boolean).map((text) => ` ${text}`)), ' ', shareOf(model.values(metrics[0].id)[site], total, metrics[0].unit)))),
    h('h3', {}, 'The run'),
    facts(run.facts));
}
