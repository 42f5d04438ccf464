# Frames whose memory is unmapped while they are current: the interpreter takes a further piece of its
# stack of frames when one is full, and gives it back when the first frame in it is left. That of a
# generator's call is left when the generator, which is a block, has been made; it is current until
# then. (A frame that needs much room does often not fit into the rest of a piece.)
space = {}
exec("def generator(n):\n    yield (%s)\n" % ("n, " * 150), space)
generator = space["generator"]
def deeper(n):
    block = bytes(700 + n % 7)
    made = generator(n)
    return deeper(n - 1) if n else next(made)
for n in range(0, 300, 7): deeper(n)
