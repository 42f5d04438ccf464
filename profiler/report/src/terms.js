// terms.js - each term and formula, explained where it stands.
import { h } from './dom.js';

export const TERMS = {
  requested: 'Bytes that the program asked for, not counting what the allocator rounds up.',
  peak: 'Bytes live at the moment when the whole process had the most of them. Sites are counted as they were at that moment, so the column adds up to the peak.',
  live: 'Bytes not freed at the last moment of the profile: its end, or the dump. Some are meant to live that long: look for sites whose live bytes grow with time.',
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
  errors: 'What NUMALLOC_GUARD=1 found: a few of the program\'s blocks are guarded, so an error was made more often than it was found. The same kind of error with the same stacks is one, in however many processes.',
  error: 'Half the width of the 95 % interval of a sampled estimate. With fewer than 20 samples treat the figure as "some".',
  own: 'Memory of the profiler itself.',
  callTime: 'Time that the thread spent in the allocator, the profiler\'s own part taken off: one call in 64 is drawn at random and timed, calls for large blocks always. Wall time: a thread that was put to sleep in a call waited there.',
  timed: 'How many of the calls were timed. The others are taken to be like those drawn.',
  callError: 'Half the width of the 95 % interval of the time, as a share of it.',
  callEach: 'Time by call. What a few nanoseconds take is at the limit of what can be timed.',
  sizes: 'Allocations by the size that was asked for; each bar goes from its size to twice that.',
  sizeTime: 'How many blocks of which size were asked for when: each column is a stretch of the run, each row a power of two of sizes. Darker: more, on a logarithmic scale. Exact from a trace; mode sites notes allocations each time that a thread publishes its figures, so a column may hold what came a little before it.',
  lifetimeSize: 'Blocks that were freed, by size (columns) and by how long they had lived (rows). Many small blocks in the lowest rows are temporaries; blocks that still live are not in it.',
  matrix: 'A block that another thread frees goes back to the thread that it came from, or to the other one\'s cache: both cost more than a free at home. Mode trace knows each pair. Mode sites knows how many blocks of a site each thread allocated, freed, and freed of others: so whose they were where at most two threads allocated at a site, else “one of several”. A thread that ended leaves its place to the next.',
  moved: 'Bytes that realloc copied: the smaller of old and new size, each time that the block could not stay where it was.',
  growth: 'A larger block was allocated, and the next thing its thread did was to free the one before: what std::vector and hand-written buffers do.',
  chain: 'A block from its first allocation through all its reallocs to its end. The site is that of its last realloc.',
  factor: 'By what each step multiplies the size: (last size / first size) to the power of 1 / steps. 1.5 to 2 is good; near 1 the block is copied again and again.',
  span: 'A run of pages that holds blocks of one size.',
  sparse: 'Spans of which less than a quarter of the room lives: a few blocks keep the rest from being given back.',
  occupancy: 'Live blocks divided by the blocks that fit.',
  unused: 'Resident bytes of spans that lie in no live block: kept for the next ones, or waiting to be given back.',
  kept: 'Resident and unused bytes of sparse spans, shared equally by the blocks that live in them.',
  age: 'How long the blocks in sparse spans had lived then, on average.',
  alone: 'Spans that hold blocks of no other site.',
  filled: 'Spans at the last moment of the profile, by the size of their blocks (rows) and the part of their room that lives (columns). What is far left in dark is memory that few blocks keep.',
  usable: 'The size in which the allocator hands blocks out: a request is rounded up to the next one.',
  wasteShare: 'Rounded up divided by handed out.',
  node: 'A NUMA node: memory and the processors near it.',
  remote: 'Accesses by a thread on one node to memory of another one, of those whose two nodes are known. They take longer, and share the links between nodes.',
  estimate: 'How many accesses the run had, estimated from watchpoints, with the 95 % interval. Undetermined: fewer than five rounds of watchpoints had hits.',
  samples: 'Accesses that were sampled. Each stands for so many others (its weight); shares are of weights.',
  localLatency: 'The median of the cycles that an access to memory of the own node took.',
  writesShare: 'Writes, of the accesses that are known to be reads or writes. Sampling cannot prove that there are none.',
  verdict: 'One of the patterns in which memory and threads do not fit, with the conditions that say so. The chance is that of all conditions to hold in the program and not only in the samples.',
  'matrix nodes': 'Share of accesses by the node of the thread (rows) and of the page (columns), with the mean latency where the source tells it. What is off the diagonal is remote.',
  level: 'Which cache or memory answered, of all samples of this source.',
  load: 'Accesses to the memory of each node over time. One dark row: the others\' memory channels idle.',
  origin: 'Where objects come from: the line that allocated them, a variable, a file. Instances of one origin are summed.',
  ofRemote: 'Share of all remote accesses that go to these objects: what there is to gain.',
  ofAll: 'Share of all accesses that count here.',
  latency: 'Mean cycles that its accesses took.',
  byMaker: 'Share of its accesses that the thread makes which allocated it.',
  flow: 'Each mark is a sampled access: its time, its thread (rows, in the order of their first access), whether it reads or writes, and whether the page was on the thread\'s own node.',
  module: 'The program or library whose file the code is in.',
  place: 'File and line of the function that is responsible, where debug information tells it.',
  site: 'One distinct call stack, named by the function that is responsible: the innermost one outside the allocator, the C and C++ runtime and wrappers.',
  began: 'Since the profile began.',
  lived: 'Until the thread ended, or the profile did.',
  tls: 'Thread-local: each thread has its own.',
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
