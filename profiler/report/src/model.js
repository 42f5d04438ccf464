// model.js - the data of the page, and the figures derived from it.
//
// `numalloc-dump html` writes one JSON object, deflated (zlib) and in base64, into the element
// #data. Parts that a profile has not are left out, and the pages that want them say which mode of
// the profiler gives them. Tables are columns of equal length.
//
//   format, version   "numalloc-report", 1
//   run               {program, command, host, pid, mode, started_ms, duration_ms, ended, facts:
//                     [[name, text]..], environment: [text..], modules: [[path, build id]..],
//                     lost: [[count, what]..], missing: [[path, why]..]}
//   metrics           [{id, name, unit, term, tree: bool}..]; tree: sums over sites mean something
//   functions         {id, name, module, runtime, named}: name and module are indices of `strings`;
//                     named 0: the name is an address
//   frames            {function, file, line}: a function and the line in it; file -1: not known
//   tree              {parent, frame}: node 0 is the root; parent < node; pruned
//   sites             {id, node, by, values: {metric id: [..]}}; by: the frame that is responsible;
//                     id 0 and node of an inner node: what was cut below it, all in one
//   cut               {sites, share, halved}: how many were merged, what share of a metric each had at
//                     most; halved: bounds were, so often, for the page to stay below 10 MB
//   by_function       {rows: [[function, bytes at the peak, the same with callees, before: only with
//                     base]..], groups: [[index of strings, with callees of its functions without
//                     symbols]..]}: of all sites, before any were merged
//   totals            {metric id: sum over all sites, cut ones included}
//   base              {name, values: {metric id: [..]}, totals}: the other run of a comparison; sites
//                     that only it has carry an id above 2^31 and 0 in all figures of this one
//   timeline          {interval_ms, series: [{id, name, unit, values}..], markers: [[ms, name]..],
//                     peak_ms}; null: not sampled in this interval
//   growth            {interval_ms, exact, site: [index of sites..], live: [[..]..], alloc: [[..]..]}:
//                     live: the most bytes in each interval; alloc: bytes asked for in it, if known
//   threads           {id, tid, name, start_ms, end_ms, allocations, frees, bytes}; handed: [[from
//                     thread, to thread, frees]..]; from 0: one of several that allocated there
//   thread_calls      [[index of threads, entry point, calls, of them timed, ms, half the width of the
//                     95 % interval as a fraction]..]; null: not known
//   histograms        [{id, name, unit, x: [text..], values, term}..]
//   heat              [{id, name, term, xName, yName, x, y, values: [row..]}..]
//   age_ns            one unit of lifetimes
//   site_details      {index of a site: {seen_by: "trace"|"sums", size: [least, most], lives and sizes:
//                     {from: bucket, values}, heat: {size_from, life_from, values: [of lifetimes]},
//                     pairs: as handed, reallocs: {count, larger, smaller, moved}, copying: {count,
//                     larger, copied}, chains: {count, steps, in_place, first_bytes, last_bytes,
//                     moved_bytes, by_steps: by binary digits, longest: {steps, sizes}}}}; bucket n
//                     of sizes and lifetimes: 2^(n-1) up to 2^n
//   globals           {name, module, bytes, tls}
//   allocator         [{title, columns: [name..], units: [..], terms: [..], rows: [[..]..], note,
//                     sort: column, site: column of indices of sites, -1: cut}..]
//   filled            as in heat: spans by size of block and by how much of their room lives
//   nodes             {interval_ms, live: [{node, values}..], mapped: the same}
//   sources           {index of strings (a path): {first, lines: [text..]}}
//   findings          [{level: "warning"|"note" (about the profile), id, line, evidence, place, site:
//                     of the place, reason, remedy, saves, page}..], the most valuable first
//   errors            [{kind, name, access, times, processes, happened: estimated, 0: not known; size,
//                     offset: of the block; site: index, -1: not one of these; by, freed, allocated:
//                     [[function, place]..], innermost first}..]; absent: not asked for
//   access            {sources: [{name, used, samples, lost, throttled: times, why}..]} and, if there
//                     are samples: source, unit, made_up, dram, levels_known, samples, enough, remote,
//                     remote_low, remote_high: with what was lost; local_latency, writes, start_ms, end_ms, nodes, threads: [name..], matrix:
//                     [from node][of node] of {samples, share, latency}, step_ms, load: [node][step],
//                     remote_over_time, levels, kinds, objects: [{name, kind, site, flow, verdict,
//                     figures}..], verdicts: [{verdict, title, name, evidence, runners, remedies,
//                     flow}..], flows: [{name, events: columns}..]; null: not known; shares 0 to 1
import { baseName } from './format.js';

function decode(base64) {
  const text = atob(base64);
  const data = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) data[i] = text.charCodeAt(i);
  return data;
}

export async function load() {
  const packed = decode(document.getElementById('data').textContent.trim());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  const raw = JSON.parse(await new Response(stream).text());
  if (raw.format !== 'numalloc-report' || raw.version !== 1)
    throw new Error(`this page shows version 1 of its data, not ${raw.format} ${raw.version}`);
  return new Model(raw);
}

/** The metrics of a range of time; each is a figure of one site's growth series. */
const RANGE_METRICS = [
  { id: 'range-grown', name: 'grown', unit: 'bytes', term: 'grown', tree: true },
  { id: 'range-live', name: 'most live', unit: 'bytes', term: 'liveMax', tree: true },
  { id: 'range-alloc', name: 'allocated', unit: 'bytes', term: 'allocated', tree: true },
];

export class Model {
  constructor(raw) {
    this.raw = raw;
    this.run = raw.run;
    this.sites = raw.sites;
    this.siteCount = raw.sites.node.length;
    this.cache = new Map();
    this.metrics = raw.metrics;
    this.children = null;
    this.errorsBySite = new Map();
    for (const error of raw.errors ?? []) {
      if (error.site < 0) continue;
      this.errorsBySite.set(error.site, [...(this.errorsBySite.get(error.site) ?? []), error]);
    }
  }

  /** The memory errors in blocks of a site. */
  errorsOf(site) {
    return this.errorsBySite.get(site) ?? [];
  }

  // ---- metrics ----

  /** Those that can be shown for a range (null: the whole run). */
  metricsOf(range) {
    if (!range || !this.raw.growth) return this.metrics;
    return RANGE_METRICS.filter((metric) => metric.id !== 'range-alloc' || this.raw.growth.alloc);
  }

  metric(id, range) {
    const all = this.metricsOf(range);
    return all.find((metric) => metric.id === id) ?? all[0];
  }

  /** One figure per site. */
  values(id, range) {
    if (!id.startsWith('range-')) return this.sites.values[id];
    const key = `${id}|${range}`;
    let values = this.cache.get(key);
    if (values === undefined) {
      values = this.rangeValues(id, range);
      if (this.cache.size > 16) this.cache.clear();
      this.cache.set(key, values);
    }
    return values;
  }

  rangeValues(id, range) {
    const growth = this.raw.growth;
    const values = new Float64Array(this.siteCount);
    const [from, to] = this.buckets(range);
    growth.site.forEach((site, i) => {
      const live = growth.live[i];
      const alloc = growth.alloc?.[i];
      let figure = 0;
      if (id === 'range-grown') figure = (live[to] ?? 0) - (from > 0 ? live[from - 1] ?? 0 : 0);
      else
        for (let b = from; b <= to; b++) {
          if (id === 'range-alloc') figure += alloc[b] ?? 0;
          else figure = Math.max(figure, live[b] ?? 0);
        }
      values[site] += figure;
    });
    return values;
  }

  /** First and last interval of the growth series that a range of milliseconds touches. */
  buckets(range) {
    const { interval_ms: step, live } = this.raw.growth;
    const last = Math.max(0, (live[0]?.length ?? 1) - 1);
    const clamp = (bucket) => Math.min(last, Math.max(0, bucket));
    return [clamp(Math.floor(range[0] / step)), clamp(Math.ceil(range[1] / step) - 1)];
  }

  total(id, range) {
    if (!id.startsWith('range-')) return this.raw.totals[id];
    let sum = 0;
    for (const value of this.values(id, range)) sum += value;
    return sum;
  }

  // ---- names ----

  string(index) {
    return index < 0 || index === undefined ? '' : this.raw.strings[index];
  }

  functionOf(frame) {
    return this.raw.frames.function[frame];
  }

  functionName(fn) {
    return this.string(this.raw.functions.name[fn]);
  }

  /** What tells functions of one short name apart: a place, the library, parameters. */
  functionHints(fn) {
    if (this.frameOf === undefined) {
      this.frameOf = new Map();
      this.raw.frames.function.forEach((each, frame) => this.frameOf.has(each) || this.frameOf.set(each, frame));
    }
    const place = this.frameOf.has(fn) ? this.place(this.frameOf.get(fn)) : null;
    return [place ? `${baseName(place.path)}:${place.line}` : '', baseName(this.functionModule(fn)), this.functionName(fn)];
  }

  frameName(frame) {
    return frame < 0 ? 'all' : this.functionName(this.functionOf(frame));
  }

  frameModule(frame) {
    return frame < 0 ? '' : this.functionModule(this.functionOf(frame));
  }

  functionModule(fn) {
    return this.string(this.raw.functions.module[fn]);
  }

  isRuntime(frame) {
    return frame >= 0 && Boolean(this.raw.functions.runtime[this.functionOf(frame)]);
  }

  place(frame) {
    if (frame < 0) return null;
    const file = this.raw.frames.file[frame];
    return file < 0 ? null : { file, path: this.string(file), line: this.raw.frames.line[frame] };
  }

  /** Functions without symbols are put together by this, the index of their module's path; null: others. */
  groupOf(fn) {
    const { named, runtime, module } = this.raw.functions;
    return named[fn] || runtime[fn] ? null : module[fn];
  }

  hasNameless() {
    return this.raw.functions.name.some((_, fn) => this.groupOf(fn) !== null);
  }

  /** The name under which a site is listed: one without symbols has that of its nearest caller before it. */
  siteName(site) {
    const by = this.sites.by[site];
    let name = by < 0 ? 'unknown' : this.frameName(by);
    if (by >= 0 && this.groupOf(this.functionOf(by)) !== null) {
      const stack = this.stack(site);
      const caller = stack.slice(stack.indexOf(by)).find((frame) => this.raw.functions.named[this.functionOf(frame)]);
      if (caller !== undefined) name = `${this.frameName(caller)} → ${name}`;
    }
    return this.sites.id[site] === 0 ? `(smaller sites below ${name})` : name;
  }

  /** The frames of a site, innermost first. */
  stack(site) {
    const frames = [];
    const { parent, frame } = this.raw.tree;
    for (let node = this.sites.node[site]; node > 0; node = parent[node]) frames.push(frame[node]);
    return frames;
  }

  // ---- trees ----

  /**
   * A tree of functions with the sums of a metric: {name, frame, value, self, base, errors (in
   * blocks of sites in or below it), children, parent, depth}. Lines of one function are merged; direct recursion too, if asked for. Inverted:
   * the innermost frames are at the root. Values below zero (a site that shrank) count as none in
   * the widths, since a part of something cannot be negative. through(frame): only stacks with such
   * a frame, from the outermost one of it on: inwards, or, inverted, outwards to its callers. grouped:
   * functions without symbols that follow each other in one library are one node.
   */
  tree(id, range, { inverted = false, recursion = false, through = null, grouped = false } = {}) {
    const values = this.values(id, range);
    const base = this.raw.base?.values[id];
    const root = node(null, -1, 'all');
    for (let site = 0; site < this.siteCount; site++) {
      const value = Math.max(0, values[site]);
      const other = Math.max(0, base?.[site] ?? 0);
      if (value === 0 && other === 0) continue;
      const errors = this.errorsOf(site).length;
      let frames = this.stack(site);
      if (through) {
        const at = frames.findLastIndex(through);
        if (at < 0) continue;
        frames = inverted ? frames.slice(at) : frames.slice(0, at + 1);
      }
      if (!inverted) frames = frames.reverse();
      let at = root;
      at.value += value;
      at.base += other;
      at.errors += errors;
      for (const frame of frames) {
        const fn = this.functionOf(frame);
        const group = grouped ? this.groupOf(fn) : null;
        const key = group === null ? fn : `group ${group}`;
        if ((recursion || group !== null) && at.key === key) continue;
        let next = at.index.get(key);
        if (next === undefined) {
          next = node(at, frame, group === null ? this.functionName(fn) : `${baseName(this.string(group))} (without symbols)`, fn);
          next.key = key;
          at.index.set(key, next);
          at.children.push(next);
        }
        next.value += value;
        next.base += other;
        next.errors += errors;
        at = next;
      }
      at.self += value;
      at.sites.push(site);
    }
    const pending = [root];
    while (pending.length > 0) {
      const each = pending.pop();
      each.children.sort((a, b) => b.value + b.base - (a.value + a.base) || (a.name < b.name ? -1 : 1));
      pending.push(...each.children);
    }
    return root;
  }

  /**
   * {rows: [{fn, self, before, below}..], groups: Map}: what each function is responsible for at the
   * peak, what it was in the other run, and inclusive; by groupOf: inclusive of all functions in it.
   * Of all sites, cut ones included.
   */
  byFunction() {
    const { rows, groups } = this.raw.by_function;
    return { rows: rows.map(([fn, self, below, before = 0]) => ({ fn, self, below, before })), groups: new Map(groups) };
  }

  /** Per line of one file: {line: {self, below}}; self: the line that asked for the memory. */
  lines(file, id, range) {
    const values = this.values(id, range);
    const { file: files, line: lines } = this.raw.frames;
    const found = new Map();
    for (let site = 0; site < this.siteCount; site++) {
      if (values[site] === 0) continue;
      const seen = new Set();
      const by = this.sites.by[site];
      for (const frame of this.stack(site)) {
        if (files[frame] !== file) continue;
        const line = lines[frame];
        let figures = found.get(line);
        if (figures === undefined) found.set(line, (figures = { self: 0, below: 0 }));
        if (frame === by && this.sites.id[site] !== 0) figures.self += values[site];
        if (!seen.has(line)) figures.below += values[site];
        seen.add(line);
      }
    }
    return found;
  }
}

function node(parent, frame, name, fn = -1) {
  return {
    parent, frame, name, fn, value: 0, self: 0, base: 0, errors: 0, children: [], sites: [], index: new Map(),
    depth: parent ? parent.depth + 1 : 0,
  };
}
