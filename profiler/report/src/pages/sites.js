// sites.js - all sites in a table.
import { h } from '../dom.js';
import { change, link } from '../state.js';
import { metricChoice, placeLink, rangeChip, siteLink } from '../controls.js';
import { csvButton, table } from '../table.js';
import { sparkline } from '../charts.js';
import { TERMS } from '../terms.js';
import { pattern } from './flame.js';

export function sites(model, state) {
  const metrics = model.metricsOf(state.range);
  const { metric, element } = metricChoice(model, state);
  const all = [...model.sites.node.keys()];
  const chosen = state.function === undefined ? null : Number(state.function);
  const wanted = (text) => {
    const match = pattern(text);
    return all.filter((site) => {
      if (chosen !== null && (model.sites.by[site] < 0 || model.functionOf(model.sites.by[site]) !== chosen)) return false;
      return !match || model.stack(site).some((frame) => match.test(model.frameName(frame)));
    });
  };
  const { growth } = model.raw;
  const series = new Map((growth?.site ?? []).map((site, i) => [site, growth.live[i]]));
  const shown = table({
    label: 'sites', rows: wanted(state.search), height: 560, sort: { id: metric.id, down: true },
    columns: [
      ...metrics.map((m) => {
        const values = model.values(m.id, state.range);
        const total = model.total(m.id, state.range);
        return { id: m.id, name: m.name, unit: m.unit, tip: TERMS[m.term], value: (site) => values[site], width: 'minmax(6.2rem, 1fr)', share: m.tree ? (site) => values[site] / total : undefined };
      }),
      ...(series.size > 0 ? [{ id: 'time', name: 'live over time', value: () => 0, cell: (site) => (series.has(site) ? sparkline(series.get(site)) : ''), width: '8rem' }] : []),
      { id: 'site', name: 'site', value: (site) => model.siteName(site), cell: (site) => siteLink(model, site), width: 'minmax(12rem, 3fr)' },
      { id: 'place', name: 'place', value: (site) => model.place(model.sites.by[site])?.path ?? '', cell: (site) => (model.sites.by[site] < 0 ? '' : placeLink(model, model.sites.by[site])), width: 'minmax(9rem, 2fr)' },
    ],
  });
  let timer = 0;
  return h('div', {},
    h('div', { class: 'bar-controls' }, element,
      h('input', {
        type: 'search', id: 'search', placeholder: 'A function on the stack', value: state.search ?? '', 'aria-label': 'search',
        oninput: (event) => {
          clearTimeout(timer);
          timer = setTimeout(() => shown.show(wanted(event.target.value)), 120);
        },
      }),
      chosen !== null && h('span', { class: 'note' }, `Sites of ${model.functionName(chosen)} `, h('button', { onclick: () => change({ function: null }) }, 'All')),
      csvButton(shown, 'sites.csv'), rangeChip(model, state)),
    shown.element,
    model.raw.cut?.sites > 0 && h('p', { class: 'quiet' }, `${model.raw.cut.sites} small sites, each with less than ${100 * model.raw.cut.share} % of every metric, are merged below the functions that they have in common.`),
    h('p', { class: 'quiet' }, 'A site is one distinct call stack. ', h('a', { href: link('summary') }, 'Functions'), ' sum over sites.'));
}
