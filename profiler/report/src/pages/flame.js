// flame.js - the page of the flame graph.
import { color, h, replace } from '../dom.js';
import { baseName, figure, percent } from '../format.js';
import { change, note } from '../state.js';
import { errorMark, metricChoice, rangeChip, siteLink } from '../controls.js';
import { flameGraph, paintOfChange } from '../flame.js';
import { TERMS } from '../terms.js';

export function pattern(text) {
  if (!text) return null;
  try {
    return new RegExp(text, 'i');
  } catch {
    return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i');
  }
}

export function flame(model, state) {
  const { metric, element } = metricChoice(model, state, { tree: true });
  const inverted = state.inverted === '1';
  const recursion = state.merged === '1';
  const compared = Boolean(model.raw.base) && !metric.id.startsWith('range-');
  const diff = compared && state.diff !== '0';
  const widths = diff && state.widths === 'base' ? 'base' : 'value';
  const addresses = state.addresses === '1';
  const root = model.tree(metric.id, state.range, { inverted, recursion, grouped: !addresses });
  const below = h('div', {});
  const matched = h('span', { class: 'quiet', id: 'matched' });
  const search = pattern(state.search);
  const graph = flameGraph(root, {
    unit: metric.unit, search, diff, widths, at: state.at, moduleOf: (node) => model.frameModule(node.frame),
    onSelect: (node, path) => {
      note({ at: path });
      replace(below, node === root ? null : sitesOf(model, metric, state.range, node));
    },
  });
  window.numallocFlame = graph;
  const tellMatches = (wanted) => {
    matched.textContent = wanted ? `matched ${percent(matching(root, wanted), root.value)}, ${figure(matching(root, wanted), metric.unit)}` : '';
  };
  tellMatches(search);
  const toggle = (name, text, on) => h('button', { 'aria-pressed': String(on), onclick: () => change({ [name]: on ? null : '1' }) }, text);
  let timer = 0;
  return h('div', {},
    h('div', { class: 'bar-controls' }, element,
      toggle('inverted', 'Inverted', inverted), toggle('merged', 'Merge recursion', recursion),
      model.hasNameless() && toggle('addresses', 'Addresses', addresses),
      compared && [h('button', { id: 'diff', 'aria-pressed': String(diff), 'data-tip': TERMS.change, onclick: () => change({ diff: diff ? '0' : null }) }, `Against ${baseName(model.raw.base.name)}`),
        diff && h('button', { id: 'widths', 'aria-pressed': String(widths === 'base'), 'data-tip': 'Widths are those of the earlier run: what is gone can be seen.', onclick: () => change({ widths: widths === 'base' ? null : 'base' }) }, 'Widths of before'),
        diff && h('span', { class: 'legend' }, h('i', { style: { background: paintOfChange(0, 1, color('flame-light')) } }), 'less', h('i', { style: { background: paintOfChange(1, 0, color('flame-light')) } }), 'more')],
      h('input', {
        type: 'search', id: 'search', placeholder: 'Search functions (regular expression)', value: state.search ?? '', 'aria-label': 'search',
        oninput: (event) => {
          clearTimeout(timer);
          const wanted = pattern(event.target.value);
          graph.show(root, { search: wanted });
          tellMatches(wanted);
          const text = event.target.value;
          timer = setTimeout(() => note({ search: text }), 300);
        },
      }), matched,
      h('button', { class: 'quiet', onclick: () => graph.reset() }, 'Zoom out'), rangeChip(model, state)),
    root[widths] === 0 ? h('p', { class: 'note' }, `No site has any “${metric.name}” here.`) : graph.element,
    below);
}

/** What of the whole lies in or below a function that matches, each byte once. */
function matching(root, wanted) {
  let sum = 0;
  const pending = [root];
  while (pending.length > 0) {
    const node = pending.pop();
    if (wanted.test(node.name) && node !== root) sum += node.value;
    else pending.push(...node.children);
  }
  return sum;
}

function sitesOf(model, metric, range, node) {
  const sites = [];
  const pending = [node];
  while (pending.length > 0) {
    const each = pending.pop();
    sites.push(...each.sites);
    pending.push(...each.children);
  }
  const values = model.values(metric.id, range);
  sites.sort((a, b) => values[b] - values[a]);
  return [h('h3', {}, `Sites through ${node.name}`), h('ul', {}, sites.slice(0, 12).map((site) =>
    h('li', {}, siteLink(model, site), errorMark(model, site), ` ${figure(values[site], metric.unit)}`))),
  sites.length > 12 ? h('p', { class: 'quiet' }, `and ${sites.length - 12} more`) : null];
}
