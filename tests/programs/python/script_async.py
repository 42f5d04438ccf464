import asyncio
kept = []
async def agen(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield bytes(900 + i)
async def inner(n):
    kept.append([b async for b in agen(n)])
    await asyncio.sleep(0)
    return bytearray(1000 + n)
async def outer(n):
    r = await asyncio.gather(*(inner(i) for i in range(n)))
    kept.append(r)
    def g():
        x = yield bytes(1100)
        while x is not None: x = yield bytes(1200 + x)
    def d(): yield from g()
    it = d(); kept.append(next(it))
    for i in range(20): kept.append(it.send(i))
    kept.append(it)
async def main():
    for n in range(1, 12): await asyncio.wait_for(asyncio.create_task(outer(n)), 5)
asyncio.run(main())
