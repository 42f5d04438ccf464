#!/usr/bin/python3
"""far_headers.py FILE - moves the program headers of a 64 bit ELF file to its end, as BOLT does: a segment of their
own, which takes the place of PT_GNU_STACK's entry, so that the first page has none of them."""
import struct
import sys

PT_LOAD, PT_PHDR, PT_GNU_STACK, ENTRY = 1, 6, 0x6474e551, 56
with open(sys.argv[1], "r+b") as file:
    data = file.read()
    (offset,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
    headers = [list(struct.unpack_from("<IIQQQQQQ", data, offset + ENTRY * i)) for i in range(count)]
    page = 1 << 16
    far = (len(data) + page - 1) // page * page
    last = max(h[3] + h[6] for h in headers if h[0] == PT_LOAD)
    address = (last + page - 1) // page * page
    bytes_ = ENTRY * count
    for h in headers:
        if h[0] == PT_PHDR:
            h[2:5] = far, address, address
    stack = next(i for i, h in enumerate(headers) if h[0] == PT_GNU_STACK)
    del headers[stack]
    behind = max(i for i, h in enumerate(headers) if h[0] == PT_LOAD) + 1  # loaded segments are sorted by address
    headers.insert(behind, [PT_LOAD, 4, far, address, address, bytes_, bytes_, page])
    file.seek(far)
    file.write(b"".join(struct.pack("<IIQQQQQQ", *h) for h in headers))
    file.seek(offset)
    file.write(bytes(bytes_))
    file.seek(32)
    file.write(struct.pack("<Q", far))
