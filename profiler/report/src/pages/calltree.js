// calltree.js - the tree of calls as a table that unfolds.
import { h } from '../dom.js';
import { figure, percent } from '../format.js';
import { change } from '../state.js';
import { metricChoice, placeLink, rangeChip } from '../controls.js';
import { nameOf } from '../names.js';
import { TERMS } from '../terms.js';

const FIRST = 200; // children shown at once

/** The tree of Model.tree as rows that unfold; the heaviest path is unfolded. */
export function treeTable(model, metric, root) {
  const body = h('div', { class: 'vtable', role: 'treegrid', 'aria-label': 'call tree' });
  const columns = { gridTemplateColumns: '8rem 5rem 8rem 1fr' };
  const draw = (node, into, level) => {
    node.children.slice(0, FIRST).forEach((child) => {
      const below = h('div', { role: 'none', hidden: true });
      const twist = h('button', {
        class: 'twist', 'aria-expanded': 'false', 'aria-label': `unfold ${child.name}`, disabled: child.children.length === 0,
        onclick: () => unfold(child, below, twist, level),
      }, child.children.length > 0 ? '▸' : '·');
      into.append(h('div', { class: 'vrow', style: { position: 'static', ...columns }, role: 'row', 'aria-level': level + 1 },
        h('div', { class: 'vcell figure', role: 'gridcell', style: { backgroundImage: `linear-gradient(to left, var(--bar) ${(100 * child.value) / (root.value || 1)}%, transparent 0)` } }, figure(child.value, metric.unit)),
        h('div', { class: 'vcell figure', role: 'gridcell' }, percent(child.value, root.value)),
        h('div', { class: 'vcell figure', role: 'gridcell' }, child.self > 0 ? figure(child.self, metric.unit) : ''),
        h('div', { class: 'vcell', role: 'gridcell', style: { paddingLeft: `${level * 1.1}rem` } }, twist, nameOf(child.name), ' ', placeLink(model, child.frame))), below);
      if (level < 12 && child.value > 0.5 * root.value) unfold(child, below, twist, level);
    });
    if (node.children.length > FIRST) into.append(h('div', { role: 'row' }, h('div', { class: 'empty', role: 'gridcell' }, `and ${node.children.length - FIRST} smaller ones`)));
  };
  const unfold = (node, below, twist, level) => {
    if (below.childElementCount === 0) draw(node, below, level + 1);
    below.hidden = !below.hidden;
    twist.setAttribute('aria-expanded', String(!below.hidden));
    if (node.children.length > 0) twist.textContent = below.hidden ? '▸' : '▾';
  };
  const heads = [['with callees', TERMS.inclusive], ['share', 'Of all of this tree.'], ['itself', 'What is asked for in this function, on this path.'], ['function', null]];
  body.append(h('div', { class: 'vhead', role: 'row', style: columns }, heads.map(([name, tip], i) => h('div', { class: `vtitle${i < 3 ? ' figure' : ''}`, role: 'columnheader', 'data-tip': tip }, name))));
  draw(root, body, 0);
  return body;
}

export function calltree(model, state) {
  const { metric, element } = metricChoice(model, state, { tree: true });
  const inverted = state.inverted === '1';
  const addresses = state.addresses === '1';
  return h('div', {},
    h('div', { class: 'bar-controls' }, element,
      h('button', { 'aria-pressed': String(inverted), onclick: () => change({ inverted: inverted ? null : '1' }) }, 'From the innermost'),
      model.hasNameless() && h('button', { 'aria-pressed': String(addresses), onclick: () => change({ addresses: addresses ? null : '1' }) }, 'Addresses'), rangeChip(model, state)),
    treeTable(model, metric, model.tree(metric.id, state.range, { inverted, recursion: true, grouped: !addresses })));
}
