// site.js - everything that is known of one call stack.
import { h } from '../dom.js';
import { buckets, bytes, count, figure, nanoseconds, percent } from '../format.js';
import { link } from '../state.js';
import { facts, placeLink, rangeChip } from '../controls.js';
import { bars, heatMap } from '../charts.js';
import { threadMatrix } from './threads.js';
import { term } from '../terms.js';
import { siteTimeline } from './timeline.js';
import { errorDetails } from './errors.js';
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
    model.errorsOf(index).map((error) => errorDetails(model, error, { site: false })),
    h('div', { class: 'cards' }, model.metrics.map((m) => {
      const value = model.values(m.id)[index];
      return h('div', { class: 'card' }, h('small', {}, term(m.term, m.name)), h('b', {}, figure(value, m.unit)),
        m.tree ? h('small', {}, `${percent(value, model.total(m.id))} of all`) : null,
        model.raw.base && h('small', { style: { display: 'block' } }, `before ${figure(model.raw.base.values[m.id][index], m.unit)}`));
    })),
    details?.size && facts([[term('requested', 'Sizes asked for'), details.size[0] === details.size[1] ? `all ${bytes(details.size[0])}` : `${bytes(details.size[0])} to ${bytes(details.size[1])}`]]),
    siteTimeline(model, index, state) && [h('h3', {}, 'Over time'), siteTimeline(model, index, state)],
    details && distributions(model, details),
    details && growing(details),
    details && threadMatrix(model, details.pairs, 'Blocks of this site'),
    by >= 0 && excerpt(model, by),
    h('h3', {}, 'Call stack, innermost first'),
    h('ol', { class: 'stack' }, model.stack(index).map((frame) => h('li', { class: model.isRuntime(frame) ? 'runtime' : null },
      frame === by ? h('b', {}, model.frameName(frame)) : model.frameName(frame), ' ', placeLink(model, frame)))));
}

/** Sizes, lifetimes, and one by the other. */
function distributions(model, { sizes, lives, heat, seen_by: by }) {
  const ages = (from, length) => buckets(from, length, (units) => nanoseconds(units * model.raw.age_ns));
  return [
    sizes && [h('h3', {}, term('sizes', 'Allocations by requested size, from')),
      bars({ id: 'sizes', name: 'sizes', unit: 'count', x: buckets(sizes.from, sizes.values.length, bytes), values: sizes.values })],
    lives && [h('h3', {}, term('lifetime', 'Frees by lifetime, from')),
      bars({ id: 'lives', name: 'lifetimes', unit: 'count', x: ages(lives.from, lives.values.length), values: lives.values })],
    heat && heatMap({
      name: 'Frees by size and lifetime', term: 'lifetimeSize', xName: 'size from', yName: 'lifetime from',
      x: buckets(heat.size_from, heat.values[0].length, bytes), y: ages(heat.life_from, heat.values.length), values: heat.values,
    }),
    by === 'sums' && h('p', { class: 'quiet' }, 'Sizes one by one, and each block\'s growth, are known from mode trace.'),
  ];
}

/** How blocks of this site grow: by realloc, or by a larger block, a copy and a free. */
function growing({ reallocs, copying, chains }) {
  if (!reallocs && !copying) return null;
  const each = (sum) => bytes(sum / reallocs.count);
  const rows = [];
  if (reallocs) {
    rows.push(['Reallocs that ended here', count(reallocs.count)],
      ['They made blocks larger by', `${bytes(reallocs.larger)} (${each(reallocs.larger)} each)`],
      ...(reallocs.smaller > 0 ? [['and smaller by', bytes(reallocs.smaller)]] : []),
      [term('moved', 'Bytes moved'), `${bytes(reallocs.moved)} (${each(reallocs.moved)} each)`]);
  }
  if (copying) rows.push([term('growth', 'Grown by copying'), `${count(copying.count)} times, by ${bytes(copying.larger)}, ${bytes(copying.copied)} copied`]);
  if (chains) {
    const factor = (chains.last_bytes / Math.max(1, chains.first_bytes)) ** (chains.count / chains.steps);
    rows.push([term('chain', 'Chains'), `${count(chains.count)} blocks grew in ${(chains.steps / chains.count).toFixed(1)} steps on average, from ${bytes(chains.first_bytes / chains.count)} to ${bytes(chains.last_bytes / chains.count)}`],
      [term('factor', 'Factor of a step'), factor.toFixed(2)],
      ['Steps that did not move', `${count(chains.in_place)} of ${count(chains.steps)}`]);
  }
  const filled = chains ? chains.by_steps.map((value, i) => [value, i]).filter(([value]) => value > 0) : [];
  return [h('h3', {}, term('realloc', 'How blocks grow')), facts(rows),
    filled.length > 0 && [h('h3', {}, 'Chains by number of steps'), bars({
      name: 'chains by steps', unit: 'count', values: filled.map(([value]) => value),
      x: filled.map(([, i]) => (i < 2 ? `${i} step` : `${2 ** (i - 1)} to ${2 ** i - 1}`)),
    })],
    chains?.longest.sizes.length > 1 && [h('h3', {}, `The longest chain: ${count(chains.longest.steps)} steps${chains.longest.steps >= chains.longest.sizes.length ? `, the first ${chains.longest.sizes.length - 1}` : ''}`),
      h('p', { id: 'chain' }, chains.longest.sizes.map(bytes).join(' → '))]];
}
