// sites.js - all sites in a table.
import { h } from '../dom.js';
import { baseName, figure } from '../format.js';
import { change, link, note } from '../state.js';
import { errorMark, metricChoice, placeLink, rangeChip, siteHints, siteLink } from '../controls.js';
import { csvButton, table } from '../table.js';
import { sparkline } from '../charts.js';
import { TERMS } from '../terms.js';
import { color } from '../dom.js';
import { paintOfChange } from '../flame.js';
import { pattern } from './flame.js';

/** Figures that are shown at once; the one that was chosen comes to them. */
const FIRST = ['peak', 'live', 'total', 'count', 'temporary'];

/** Columns of a comparison: the chosen metric before, and by how much it changed. */
function changes(model, metric, range) {
  const base = model.raw.base?.values[metric.id];
  if (!base || range) return null;
  const values = model.values(metric.id, range);
  const light = color('change-light');
  const more = (site) => values[site] - base[site];
  return [
    { id: 'change', name: 'change', unit: metric.unit, tip: TERMS.change, value: more, sum: true, order: (site) => Math.abs(more(site)), paint: (site) => (more(site) === 0 ? 'transparent' : paintOfChange(values[site], base[site], light)), width: '7rem' },
    { id: 'before', name: 'before', unit: metric.unit, tip: TERMS.before, value: (site) => base[site], sum: true, width: '6.5rem' },
  ];
}

export function sites(model, state) {
  const { metric, element } = metricChoice(model, state);
  const offered = model.metricsOf(state.range);
  const everything = state.all === '1';
  const metrics = offered.filter((m) => everything || state.range || m === metric || FIRST.includes(m.id));
  const all = [...model.sites.node.keys()];
  const chosen = state.function === undefined ? null : Number(state.function);
  const wanted = (text) => {
    const match = pattern(text);
    return all.filter((site) => {
      if (chosen !== null && (model.sites.by[site] < 0 || model.functionOf(model.sites.by[site]) !== chosen)) return false;
      return !match || model.stack(site).some((frame) => match.test(model.frameName(frame)));
    });
  };
  const known = chosen === null ? null : model.byFunction().rows.find((row) => row.fn === chosen);
  // A function's name and line may be those of several sites: who called it is said then.
  const times = new Map();
  for (const by of model.sites.by) times.set(by, (times.get(by) ?? 0) + 1);
  const others = (site) => times.get(model.sites.by[site]) > 1;
  const { growth } = model.raw;
  const series = new Map((growth?.site ?? []).map((site, i) => [site, growth.live[i]]));
  let searching = Boolean(state.search);
  const before = changes(model, metric, state.range);
  const [order, direction] = (state.sort ?? '').split(',');
  const shown = table({
    label: 'sites', rows: wanted(state.search), height: 560,
    sort: order ? { id: order, down: direction !== 'up' } : { id: before ? 'change' : metric.id, down: true },
    onSort: ({ id, down }) => note({ sort: `${id},${down ? 'down' : 'up'}` }),
    // Looked for by name or by function, they are wanted one by one.
    groups: chosen !== null ? null : {
      of: (site) => (searching || model.sites.by[site] < 0 ? null : model.groupOf(model.functionOf(model.sites.by[site]))), column: 'site',
      label: (members) => `${baseName(model.frameModule(model.sites.by[members[0]]))} (${members.length} sites without symbols)`,
    },
    columns: [
      { id: 'site', name: 'site', tip: TERMS.site, value: (site) => model.siteName(site), cell: (site) => h('span', {}, siteLink(model, site), errorMark(model, site), others(site) && h('small', { class: 'quiet' }, ` ${siteHints(model, site)[1]}`)), width: 'minmax(15rem, 3fr)' },
      ...(before ?? []),
      ...metrics.map((m) => {
        const values = model.values(m.id, state.range);
        const total = model.total(m.id, state.range);
        return { id: m.id, name: m.name, unit: m.unit, tip: TERMS[m.term], value: (site) => values[site], width: 'minmax(6.2rem, 1fr)', sum: m.tree, share: m.tree ? (_, value) => value / total : undefined };
      }),
      ...(series.size > 0 ? [{ id: 'time', name: 'live over time', tip: 'Live bytes over the run, each line on a scale of its own; of the sites whose course is known. Orders by the largest.', value: (site) => Math.max(0, ...(series.get(site) ?? [])), cell: (site) => (series.has(site) ? sparkline(series.get(site)) : ''), width: '8rem' }] : []),
      { id: 'place', name: 'place', tip: TERMS.place, value: (site) => model.place(model.sites.by[site])?.path ?? '', cell: (site) => (model.sites.by[site] < 0 ? '' : placeLink(model, model.sites.by[site])), width: 'minmax(9rem, 1fr)' },
    ],
  });
  let timer = 0;
  return h('div', {},
    h('div', { class: 'bar-controls' }, element,
      h('input', {
        type: 'search', id: 'search', placeholder: 'A function on the stack', value: state.search ?? '', 'aria-label': 'search',
        oninput: (event) => {
          clearTimeout(timer);
          timer = setTimeout(() => {
            searching = event.target.value !== '';
            shown.show(wanted(event.target.value));
            note({ search: event.target.value });
          }, 120);
        },
      }),
      chosen !== null && h('span', { class: 'note' }, `Sites of ${model.functionName(chosen)}${known ? `, ${figure(known.self, 'bytes')} at the peak in all` : ''} `, h('button', { onclick: () => change({ function: null }) }, 'All')),
      metrics.length < offered.length || everything ? h('button', { id: 'all', 'aria-pressed': String(everything), onclick: () => change({ all: everything ? null : '1' }) }, 'All figures') : null,
      csvButton(shown, 'sites.csv'), rangeChip(model, state)),
    shown.element,
    model.raw.cut?.sites > 0 && h('p', { class: 'quiet' }, `${model.raw.cut.sites} small sites, each with less than ${100 * model.raw.cut.share} % of every metric, are merged below the functions that they have in common.${model.raw.cut.halved > 0 ? ' Fewer than usual are told apart, since their names are long and the page stays below 10 MB.' : ''}`),
    h('p', { class: 'quiet' }, 'A site is one distinct call stack. ', h('a', { href: link('summary') }, 'Functions'), ' sum over sites.'));
}
