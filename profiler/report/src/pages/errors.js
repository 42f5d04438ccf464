// errors.js - memory errors that guarded blocks found, and the sites in whose blocks they are.
import { h } from '../dom.js';
import { bytes, count } from '../format.js';
import { link } from '../state.js';
import { siteLink, unfolding } from '../controls.js';
import { term } from '../terms.js';

/** "use after free: read", in words. */
export function errorName(error) {
  return error.access ? `${error.name}: ${error.access}` : error.name;
}

function often({ times, processes, happened }) {
  const found = times === 1 ? 'found once' : `found ${count(times)} times, in ${count(processes)} process${processes === 1 ? '' : 'es'}`;
  return happened >= 1.5 * times ? `${found}; it has happened some ${count(Math.round(happened))} times` : found;
}

function block({ size, offset }) {
  if (size === undefined) return '';
  const where = offset < 0 ? `, ${bytes(-offset)} before it` : offset >= size ? `, ${bytes(offset - size + 1)} behind its end` : offset > 0 ? `, ${bytes(offset)} into it` : '';
  return `a block of ${bytes(size)}${where}`;
}

function stack(title, frames) {
  if (frames.length === 0) return null;
  return [h('h4', {}, title), h('ol', { class: 'stack' }, frames.map(([name, place]) => h('li', {}, name, ' ', h('span', { class: 'quiet' }, place))))];
}

/** One error, which unfolds to its stacks. */
export function errorDetails(model, error, { open = false, site = true } = {}) {
  return unfolding({ class: 'finding error', 'data-error': error.kind },
    [h('strong', {}, errorName(error)), ` of ${block(error) || 'an unknown block'}, ${often(error)}`,
      site && error.site >= 0 ? [', allocated by ', siteLink(model, error.site)] : null],
    [stack('Accessed or called by', error.by), stack('Freed by', error.freed), stack('Allocated by', error.allocated)], open);
}

export function errors(model) {
  const all = model.raw.errors;
  return h('div', {},
    all.length === 0 ? h('p', { class: 'note' }, 'No errors are in these files.') : null,
    all.map((error) => errorDetails(model, error)),
    h('p', { class: 'quiet' }, term('errors', 'Memory errors'), ' of guarded blocks. Their sites are marked on the ', h('a', { href: link('flame') }, 'flame graph'), ' and in the list of ', h('a', { href: link('sites') }, 'sites'), '.'));
}
