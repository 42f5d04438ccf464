// terms.js - each term and formula, explained where it stands.
import { h } from './dom.js';

export const TERMS = {
  requested: 'Bytes that the program asked for, not counting what the allocator rounds up.',
  peak: 'Bytes live at the moment when the whole process had the most of them. Sites are counted as they were at that moment, so the column adds up to the peak.',
  live: 'Bytes not freed when the profile ended. At the end of a run some are meant to live that long: look for sites whose live bytes grow with time.',
  total: 'Bytes ever asked for, freed or not: what the allocator had to do, not what memory it took.',
  count: 'Allocations: calls of malloc, calloc, realloc, aligned forms and operator new.',
  temporary: 'Allocations freed before the same thread made its next one. Such a block could often live on the stack or be reused.',
  waste: 'Usable less requested bytes: what rounding up to size classes costs.',
  physical: 'Resident memory of the process (RSS), the profiler\'s own subtracted. Sampled, at most every 10 ms.',
  virtual: 'Mapped address space of the process. It costs nothing until it is touched.',
  mapped: 'Memory that the allocator holds for blocks, in use or kept for the next.',
  recycling: 'Bytes ever allocated divided by the site\'s own peak. High: the same few bytes are asked for and freed again and again; keep one buffer.',
  lifetime: 'Time from allocation to free. Blocks that are still live are censored: their lifetime is at least their age.',
  localPeak: 'The most that this one site ever had live. Local peaks are reached at different times and must not be added.',
  exclusive: 'Of the function itself: it is the innermost one outside the allocator, the runtime and wrappers.',
  inclusive: 'Of the function and all that it calls; a function that is on a stack twice counts once.',
  crossThread: 'Frees by another thread than the one that allocated.',
  crossNode: 'Frees by a thread on another NUMA node than the block\'s.',
  grown: 'Live bytes at the end of the range less those at its begin.',
  allocated: 'Bytes asked for within the range.',
  liveMax: 'The most that the site had live within the range.',
  realloc: 'Allocations made by realloc. A growing array that jumps by small steps is copied again and again: grow by a factor.',
  error: 'Half the width of the 95 % interval of a sampled estimate. With fewer than 20 samples treat the figure as "some".',
  own: 'Memory of the profiler itself.',
  change: 'This run less the other one. Sites are matched by the functions on their stacks, and by the nearest line within them: code above a function may have changed.',
  before: 'The same figure of the run that this one is compared with.',
  wrapper: 'A function that only passes allocations on, such as xmalloc: its caller is responsible.',
};

export function term(id, text) {
  return h('span', { class: 'term', tabindex: 0, 'data-tip': TERMS[id] }, text);
}

/** One tooltip for the page: shown for whatever has data-tip, by pointer or by keyboard. */
export function startTips() {
  const tip = h('div', { id: 'tip', role: 'tooltip', hidden: true });
  document.body.append(tip);
  const show = (event) => {
    const target = event.target.closest?.('[data-tip]');
    tip.hidden = !target || !target.dataset.tip;
    if (tip.hidden) return;
    tip.textContent = target.dataset.tip;
    const box = target.getBoundingClientRect();
    const left = Math.min(box.left, window.innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 6 + tip.offsetHeight < window.innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below ? box.bottom + 6 : box.top - 6 - tip.offsetHeight}px`;
  };
  document.addEventListener('pointerover', show);
  document.addEventListener('focusin', show);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') tip.hidden = true;
  });
}
