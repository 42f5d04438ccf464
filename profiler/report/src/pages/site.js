// site.js - everything that is known of one call stack.
import { h } from '../dom.js';
import { figure, percent } from '../format.js';
import { link } from '../state.js';
import { facts, placeLink, rangeChip } from '../controls.js';
import { bars, heatMap } from '../charts.js';
import { term } from '../terms.js';
import { siteTimeline } from './timeline.js';
import { excerpt } from './source.js';

export function site(model, state) {
  const index = model.sites.id.indexOf(Number(state.id));
  if (index < 0 || Number(state.id) === 0)
    return h('p', { class: 'note' }, 'This page shows one site; choose it from the ', h('a', { href: link('sites') }, 'list of sites'), '.');
  const details = model.raw.site_details?.[index];
  const by = model.sites.by[index];
  return h('div', {},
    rangeChip(model, state, { whole: true }),
    h('h3', {}, model.siteName(index)),
    h('div', { class: 'cards' }, model.metrics.map((m) => {
      const value = model.values(m.id)[index];
      return h('div', { class: 'card' }, h('small', {}, term(m.term, m.name)), h('b', {}, figure(value, m.unit)),
        m.tree ? h('small', {}, `${percent(value, model.total(m.id))} of all`) : null,
        model.raw.base && h('small', { style: { display: 'block' } }, `before ${figure(model.raw.base.values[m.id][index], m.unit)}`));
    })),
    details?.facts && facts(details.facts),
    siteTimeline(model, index, state) && [h('h3', {}, 'Over time'), siteTimeline(model, index, state)],
    (details?.histograms ?? []).map((histogram) => [h('h3', {}, term(histogram.term, histogram.name)), bars(histogram)]),
    (details?.heat ?? []).map((heat) => heatMap(heat)),
    details?.table && [h('h3', {}, details.table.title), h('table', { class: 'plain' },
      h('tr', {}, details.table.columns.map((name) => h('th', {}, name))),
      details.table.rows.map((row) => h('tr', {}, row.map((cell) => h('td', {}, cell)))))],
    by >= 0 && excerpt(model, by),
    h('h3', {}, 'Call stack, innermost first'),
    h('ol', { class: 'stack' }, model.stack(index).map((frame) => h('li', { class: model.isRuntime(frame) ? 'runtime' : null },
      frame === by ? h('b', {}, model.frameName(frame)) : model.frameName(frame), ' ', placeLink(model, frame)))));
}
