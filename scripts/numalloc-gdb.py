"""numalloc-gdb.py - commands for gdb that look at numalloc's heap, in a process or a core file.

    heap block ADDRESS    the block there: its size, and whether it is live
    heap top [N]          where live bytes are, by size of block
    heap find ADDRESS     what points into the block there: live blocks, variables, stacks
    heap check            free lists and spans: are they as they should be?

Installed where gdb loads it with the library; else: source numalloc-gdb.py. It reads the tables of
the allocator (pagemap/pagemap.h, alloc/core/cache/thread_cache.h) by the library's debug information
(libnumalloc0-dbgsym, or a build with -g); the program itself may be stripped. It calls nothing in the
process and writes nothing.

A block is free if it is on a list: in a bin, a batch, a transfer cache, a span. All others that were
ever handed out are live, but for those that a heap of the program's own keeps for a thread, which
count as live too. With NUMALLOC_HARDEN links are signed: then who is free is not known."""
import bisect
import struct

import gdb

PAGE_SHIFT = 13
FIRST_48 = (1 << 48) - 1
HELD = (1 << 16) - 1  # the count of a parcel that a thread fills or empties
KEPT = 1  # NA_RUN_KEPT
MOST_SAID = 20


def variable(name):
    symbol = gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)
    if symbol is None:
        raise gdb.GdbError(f"numalloc: no variable {name}: is libnumalloc.so loaded, with its debug information?")
    return symbol.value()


def read(address, size):
    return gdb.selected_inferior().read_memory(address, size).tobytes()


def words(address, count):
    return struct.unpack(f"<{count}Q", read(address, 8 * count))


def size_text(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1000 or unit == "GiB":
            return f"{count:.3g} {unit}" if unit != "B" else f"{count} B"
        count /= 1024


class Span:
    FIELDS = ("start", "run", "free", "each", "requested", "pages", "owner", "cls", "node", "free_count", "carved",
              "capacity", "records")

    def __init__(self, address, layout, raw):
        self.address = address
        for name in self.FIELDS:
            offset, form = layout[name]
            setattr(self, name, struct.unpack_from(form, raw, offset)[0])
        self.end = self.start + (self.pages << PAGE_SHIFT)

    def blocks(self):
        """Addresses of all blocks that were ever handed out."""
        if self.cls == 0:
            return [] if self.run == KEPT else [self.start]
        return range(self.start, self.start + self.carved * self.each, self.each)

    def begin_of(self, address):
        if self.cls == 0:
            return self.start
        return self.start + (address - self.start) // self.each * self.each


class Heap:
    """All spans, and all blocks on free lists, as they are now."""

    def __init__(self):
        self.faults = []
        self.signed = int(variable("na_links")) != 0
        self.layout = self.read_layout()
        self.spans = sorted(self.read_spans(), key=lambda span: span.start)
        self.starts = [span.start for span in self.spans]
        self.free = {}
        if not self.signed:
            self.read_free()

    @staticmethod
    def read_layout():
        """Offsets of members, those of unnamed unions too."""
        forms = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}
        layout = {}

        def add(of, base):
            for field in of.strip_typedefs().fields():
                at = base + field.bitpos // 8
                if field.name is None or field.name == "":
                    add(field.type, at)
                else:
                    layout[field.name] = at, forms.get(field.type.sizeof, "<Q")
        add(gdb.lookup_type("na_span_t"), 0)
        return layout

    def read_spans(self):
        """Those that are in use. (The page map is not in core files.)"""
        size = gdb.lookup_type("na_span_t").sizeof
        at_once, after = 4096 // size, self.layout["next"][0]
        unused, found = set(), []
        pools = variable("unused_spans")
        for pool in range(pools.type.range()[1] + 1):
            span = int(pools[pool]["first"])
            while span and span not in unused:
                unused.add(span)
                span = words(span + after, 1)[0]
        page = int(variable("span_pages"))
        while page:
            raw = read(page, at_once * size)
            for i in range(1, at_once):
                if page + i * size not in unused:
                    found.append(Span(page + i * size, self.layout, raw[i * size:(i + 1) * size]))
            page = struct.unpack_from("<Q", raw, after)[0]
        return [span for span in found if span.pages]

    def span_of(self, address):
        at = bisect.bisect_right(self.starts, address) - 1
        return self.spans[at] if at >= 0 and address < self.spans[at].end else None

    # ---- free lists ----

    def walk(self, head, where, most=None):
        """A list of blocks by their second words; says what is wrong with it."""
        count, block = 0, head
        while block:
            span = self.span_of(block)
            if span is None or span.cls == 0 or (block - span.start) % span.each:
                self.faults.append(f"{where}: {block:#x}, behind {count} blocks, is no block's address: the block before was written to after it was freed")
                return
            if block in self.free:
                self.faults.append(f"{where}: the block at {block:#x} is free twice, {self.free[block]} as well")
                return
            self.free[block] = where
            count += 1
            if most is not None and count == most:
                return
            try:
                block = words(block + 8, 1)[0]
            except gdb.MemoryError:
                self.faults.append(f"{where}: {block:#x} cannot be read")
                return

    def batches(self, word, where):
        while word:
            first = word & FIRST_48
            self.walk(first, where, word >> 48)
            try:
                word = int.from_bytes(read(first, 8), "big")
            except gdb.MemoryError:
                return
            if word & FIRST_48 and self.span_of(word & FIRST_48) is None:
                self.faults.append(f"{where}: the batch below {first:#x} is at {word & FIRST_48:#x}, which is no block's address")
                return

    def sent(self, places, count, where):
        """Blocks of an outbox or a parcel, of which nothing is written to the blocks."""
        for at in range(count):
            block = int(places[at]) & FIRST_48
            if block in self.free:
                self.faults.append(f"{where}: the block at {block:#x} is free twice, {self.free[block]} as well")
            elif block:
                self.free[block] = where

    def read_free(self):
        classes = int(gdb.lookup_type("na_tcache_t")["bins"].type.range()[1]) + 1
        caches = variable("na_tcaches")
        for number in range(1, int(caches.type.range()[1]) + 1):
            if int(caches[number]) == 0:
                break
            at = gdb.Value(int(caches[number]) & FIRST_48)
            cache = at.cast(gdb.lookup_type("na_tcache_t").pointer()).dereference()
            for cls in range(1, classes):
                where = f"thread cache {number}, class {cls}"
                self.walk(int(cache["bins"][cls]["head"]), f"{where}, its bin")
                self.batches(int(cache["states"][cls]["overflow"]), f"{where}, overflow")
                self.batches(int(cache["shared"]["remote_free"][cls]), f"{where}, remote frees")
            for entry in range(int(cache["posts"]["batches"].type.range()[1]) + 1):
                batch = cache["posts"]["batches"][entry]
                if int(batch["tag"]):
                    self.walk(int(batch["head"]), f"thread cache {number}, to be posted", int(batch["count"]))
            outbox = cache["posts"]["outbox"]
            self.sent(outbox["blocks"], int(outbox["count"]), f"thread cache {number}, its outbox")
        centrals = variable("centrals")
        for node in range(int(centrals.type.range()[1]) + 1):
            if int(centrals[node]) == 0:
                continue
            parcels = centrals[node]["inbox"]["parcels"]
            for at in range(int(parcels.type.range()[1]) + 1 if variable("na_node_many") else 0):
                self.sent(parcels[at]["blocks"], int(parcels[at]["count"]) % HELD, f"node {node}, its inbox")
            for cls in range(1, classes):
                slots = centrals[node]["of"][cls]["slots"]
                for slot in range(int(slots.type.range()[1]) + 1):
                    self.batches(int(slots[slot]), f"node {node}, class {cls}, transfer cache")
                self.walk(int(centrals[node]["rare"][cls]["sampled_blocks"]), f"node {node}, class {cls}, sampled")
        for span in self.spans:
            if span.cls and span.free_count:
                before = len(self.free)
                self.walk(span.free, f"span at {span.start:#x}")
                if len(self.free) - before != span.free_count:
                    self.faults.append(f"span at {span.start:#x}: its list has {len(self.free) - before} blocks, not {span.free_count}")

    def live(self):
        for span in self.spans:
            for block in span.blocks():
                if block not in self.free:
                    yield span, block


# ---- the commands ----

def address_of(text):
    if not text.strip():
        raise gdb.GdbError("an address is wanted, such as 0x7f11d0098040 or a variable's name")
    return int(gdb.parse_and_eval(text)) & (1 << 64) - 1


def numbers(argument):
    """The one span of the address; said if there is none."""
    address, heap = address_of(argument), Heap()
    span = heap.span_of(address)
    if span is None:
        raise gdb.GdbError(f"{address:#x} is in no block of numalloc's")
    return heap, span, span.begin_of(address), address


class HeapPrefix(gdb.Command):
    """numalloc's heap: heap block, heap top, heap find, heap check."""

    def __init__(self):
        super().__init__("heap", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class Block(gdb.Command):
    """heap block ADDRESS: the block of numalloc's that holds the address."""

    def __init__(self):
        super().__init__("heap block", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, _from_tty):
        heap, span, block, address = numbers(argument)
        size = span.each if span.cls else span.requested
        what = "a large block" if span.cls == 0 else f"a block of class {span.cls}"
        gdb.write(f"{address:#x}: {address - block} bytes into {what} of {size} bytes at {block:#x}, node {span.node}\n")
        if span.cls == 0 and span.run == KEPT:
            state = "free: kept by a thread"
        elif span.cls and block >= span.start + span.carved * span.each:
            state = "never handed out" if block + size <= span.end else "behind the last block"
        elif heap.signed and span.cls:
            state = "live or free: NUMALLOC_HARDEN signs the lists"
        else:
            state = f"free: {heap.free[block]}" if block in heap.free else "live"
        gdb.write(f"  {state}\n")
        if span.records:
            index = (block - span.start) // span.each if span.cls else 0
            first, second = words(span.records + 16 * index, 2)
            if second >> 56 not in (0, 255):
                gdb.write(f"  {size - (first >> 32 & 0xffff)} bytes were asked for; stack {first & 0xffffffff} of the profile, "
                          f"thread {first >> 48}\n")


class Top(gdb.Command):
    """heap top [N]: where live bytes are, by size of block; the N first."""

    def __init__(self):
        super().__init__("heap top", gdb.COMMAND_DATA)

    def invoke(self, argument, _from_tty):
        rows = {}
        heap = Heap()
        for span, _block in heap.live():
            size = span.each if span.cls else span.requested
            count, total = rows.get((span.cls != 0, size if span.cls else 0), (0, 0))
            rows[(span.cls != 0, size if span.cls else 0)] = count + 1, total + size
        order = sorted(rows.items(), key=lambda row: -row[1][1])
        gdb.write(f"{'bytes':>12} {'blocks':>10}  size{' (handed out or kept: lists are signed)' if heap.signed else ''}\n")
        for (small, size), (count, total) in order[:int(argument or 20)]:
            gdb.write(f"{size_text(total):>12} {count:>10}  {size if small else 'more than 32768'}\n")
        gdb.write(f"{size_text(sum(total for _, total in rows.values())):>12} "
                  f"{sum(count for count, _ in rows.values()):>10}  in all\n")


def files():
    """(start, end, section) of the program's and the libraries' variables."""
    for line in gdb.execute("info files", to_string=True).splitlines():
        parts = line.split()
        if len(parts) >= 5 and parts[1] == "-" and parts[4] in (".data", ".bss", ".data.rel.ro", ".tbss", ".tdata"):
            yield int(parts[0], 16), int(parts[2], 16), " ".join(parts[4:])


class Find(gdb.Command):
    """heap find ADDRESS: what points into the block that holds the address."""

    def __init__(self):
        super().__init__("heap find", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def look(self, start, end, low, high):
        start = start + 7 & ~7
        try:
            data = read(start, max(end - start & ~7, 0))
        except gdb.MemoryError:
            return
        for at, (word,) in enumerate(struct.iter_unpack("<Q", data)):
            if low <= word < high:
                yield start + 8 * at, word

    def invoke(self, argument, _from_tty):
        heap, span, block, _address = numbers(argument)
        low, high = block, block + (span.each if span.cls else span.requested)
        said = 0

        def say(where, at, word):
            nonlocal said
            said += 1
            if said <= MOST_SAID:
                gdb.write(f"  {at:#x} -> {word:#x} (+{word - block})  {where}\n")
        gdb.write(f"pointers into the block of {high - low} bytes at {block:#x}:\n")
        own = int(variable("na_pagemap").address)
        own_end = own + gdb.lookup_type("na_pagemap_t").sizeof
        for start, end, name in files():
            if "libnumalloc" in name or start <= own < end or own <= start < own_end:
                continue
            for at, word in self.look(start, end, low, high):
                symbol = gdb.execute(f"info symbol {at:#x}", to_string=True).split(" in section")[0].strip()
                say(symbol if "No symbol" not in symbol else name, at, word)
        current = gdb.selected_thread()
        frame = gdb.selected_frame() if current else None
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            top = int(gdb.parse_and_eval("$sp"))
            for at, word in self.look(top, self.stack_end(top), low, high):
                say(f"stack of thread {thread.num}", at, word)
        if current:
            current.switch()
            frame.select()
        for other in heap.spans:
            if other.cls == 0 and other.run == KEPT:
                continue
            end = other.start + other.carved * other.each if other.cls else other.start + other.requested
            for at, word in self.look(other.start, end, low, high):
                inside = other.begin_of(at)
                if inside != block and inside not in heap.free:
                    say(f"{at - inside} bytes into a live block of {other.each if other.cls else other.requested} bytes at {inside:#x}", at, word)
        if said > MOST_SAID:
            gdb.write(f"  and {said - MOST_SAID} more\n")
        if said == 0:
            gdb.write("  none was found\n")

    @staticmethod
    def stack_end(top):
        """As far as memory goes, at most 8 MiB, page by page."""
        page = 4096
        end = (top | page - 1) + 1
        while end - top < 8 << 20:
            try:
                read(end, 8)
            except gdb.MemoryError:
                break
            end += page
        return end


class Check(gdb.Command):
    """heap check: free lists and spans, as they should be or not."""

    def __init__(self):
        super().__init__("heap check", gdb.COMMAND_DATA)

    def invoke(self, _argument, _from_tty):
        heap = Heap()
        if heap.signed:
            raise gdb.GdbError("numalloc: NUMALLOC_HARDEN signs the lists; they cannot be followed from outside")
        for span in heap.spans:
            if span.cls and not span.free_count <= span.carved <= span.capacity:
                heap.faults.append(f"span at {span.start:#x}: {span.free_count} free of {span.carved} of {span.capacity}")
        for fault in heap.faults:
            gdb.write(f"  {fault}\n")
        small = sum(1 for span in heap.spans if span.cls)
        gdb.write(f"{len(heap.faults) or 'no'} fault{'s' if len(heap.faults) != 1 else ''} in {small} spans of small blocks, "
                  f"{len(heap.spans) - small} large ones and {len(heap.free)} free blocks\n")


for command in (HeapPrefix, Block, Top, Find, Check):
    command()
