ROW("double free", twice_at_once, EVERY, "NNNN c-NN NNNN", "NNNN NN-N NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  first by another", twice_first_by_another, EVERY, "c-NN N-NN c-NN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN", "NNNN NNNN NNNN")
ROW("  after another free", twice_between, EVERY, "cnNN c-NN cnNN", "NNNN NN-N NNNN",
    "NNNN NNNN NNNN", "NNNN NNNN NNNN")
ROW("  after many", twice_after_many, EVERY, "ccNN cNNN ccNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  span given back", twice_after_span, EVERY, "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN", "NNNN NNNN NNNN")
ROW("  after reuse", twice_after_reuse, EVERY, "NNNN c-NN NNNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  of an aligned block", aligned_twice, EVERY, "NNNN --NN NNNN", "NNNN NN-N NNNN",
    "NNNN NNNN NNNN", "NNNN NNNN NNNN")
ROW("free of block + 1", interior_1, EVERY, "nnNN NNNN nnNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  + 8", interior_8, EVERY, "nnNN NNNN nnNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  + 16", interior_16, EVERY, "-nNN NNNN -nNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  + 4096", interior_page, PAGED, ".*NN .NNN .*NN", ".NNN .NNN .NNN", ".NNN .NNN .NNN",
    ".NNN .NNN .NNN")
ROW("  + 65536", interior_64k, LARGE, "..NN ..NN ..NN", "..NN ..NN ..NN", "..NN ..NN ..NN",
    "..NN ..NN ..NN")
ROW("  aligned block + 16", aligned_interior, EVERY, "-nNN NNNN -nNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN", "NNNN NNNN NNNN")
ROW("free of stack", stack, ONE, "N... N... N...", "N... N... N...", "N... N... N...",
    "N... N... N...")
ROW("  alloca", on_alloca, EVERY, "NNNN NNNN NNNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  static", in_static, ONE, "N... N... N...", "N... N... N...", "N... N... N...",
    "N... N... N...")
ROW("  code", in_code, ONE, "N... N... N...", "N... N... N...", "N... N... N...", "N... N... N...")
ROW("  unmapped", unmapped, ONE, "N... N... N...", "N... N... N...", "N... N... N...",
    "N... N... N...")
ROW("  no address", far_off, ONE, "N... N... N...", "N... N... N...", "N... N... N...",
    "N... N... N...")
ROW("  block + 1 GiB", beside, EVERY, "NNNN NNNN NNNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  a mapping", mapping, ONE, "N... N... N...", "N... N... N...", "N... N... N...",
    "N... N... N...")
ROW("  a mapping + 4096", mapping_middle, ONE, "N... N... N...", "N... N... N...", "N... N... N...",
    "N... N... N...")
ROW("realloc of freed", resize_freed, EVERY, "NNNN c-NN NNNN", "NNNN NN-N NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  of freed, same size", resize_freed_same, EVERY, "NNNN --NN NNNN", "NNNN NN-N NNNN",
    "NNNN NNNN NNNN", "NNNN NNNN NNNN")
ROW("  of block + 16", resize_interior, EVERY, "-NNN NNNN -NNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  of stack", resize_stack, EVERY, "NNNN NNNN NNNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  of static", resize_static, EVERY, "NNNN NNNN NNNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  of a mapping", resize_mapping, EVERY, "NNNN NNNN NNNN", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("usable size of freed", usable_size_freed, EVERY, "WWWW --WW WWWW", "NNNN NN-N NNNN",
    "NNNN NNNN NNNN", "NNNN NNNN NNNN")
ROW("  of block + 16", usable_size_interior, EVERY, "WWWW WWWW WWWW", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN", "NNNN NNNN NNNN")
ROW("  of stack", usable_size_stack, ONE, "-... -... -...", "-... -... -...", "-... -... -...",
    "-... -... -...")
ROW("delete, smaller size", delete_smaller, EVERY, "---- ---- ----", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN", "NNNN NNNN NNNN")
ROW("  larger size", delete_larger, EVERY, "---- ---- ----", "NNNN NNNN NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("  aligned, other size", delete_aligned_other, EVERY, "---- ---- ----", "NNNN NNNN NNNN",
    "-NNN -NNN -NNN", "NNNN NNNN NNNN")
ROW("  twice", delete_twice, EVERY, "NNNN c-NN NNNN", "NNNN NN-N NNNN", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("new, free", new_free, EVERY, "---- ---- ----", "---- ---- ----", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("malloc, delete", malloc_delete, EVERY, "---- ---- ----", "---- ---- ----", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("new[], delete", array_delete, EVERY, "---- ---- ----", "---- ---- ----", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("new, delete[]", new_delete_array, EVERY, "---- ---- ----", "---- ---- ----", "NNNN NNNN NNNN",
    "NNNN NNNN NNNN")
ROW("aligned new, delete", aligned_delete_plain, EVERY, "---- ---- ----", "---- ---- ----",
    "---- ---- ----", "NNNN NNNN NNNN")
ROW("overflow by 1", over_1, EVERY, "---- ---- ----", "---- ---- ----", "---- ---- ----",
    "NNNC NNNC NNNC")
ROW("  by 8", over_8, EVERY, "---- ---- ----", "---- ---- ----", "---- ---- ----", "NNNC NNNC NNNC")
ROW("  by its size", over_block, EVERY, "---- ---- ----", "---- ---- ----", "**-- **-- **-*",
    "NNCC NNCC NNCC")
ROW("  into free blocks", over_into_free, EVERY, "c--- c--- c---", "c--- c--- c---",
    "**-- **-- **--", "NNNC NNNC NNNC")
ROW("underflow by 1", under_1, EVERY, "---- ---- ----", "---- ---- ----", "---- ---- ----",
    "**** **** ****")
ROW("  by 8", under_8, EVERY, "---- ---- ----", "---- ---- ----", "---- ---- ----",
    "**** **** ****")
ROW("  by 16", under_16, EVERY, "---- ---- ----", "---- ---- ----", "---- ---- ----",
    "**** **** ****")
ROW("write after free, word 0", write_first_word, EVERY, "---- ---- ----", "---- ---- ----",
    "nn-C nn-C nn-C", "nnCC nnCC nnCC")
ROW("  word 1", write_second_word, EVERY, "cn-- cn-- cn--", "cn-- cn-- cc--", "nn-C nn-C nn-C",
    "nnCC nnCC nnCC")
ROW("  word 3", write_later_word, EVERY, "---- ---- ----", "---- ---- ----", "---C ---C ---C",
    "nnCC nnCC nnCC")
ROW("  all", write_all, EVERY, "cn-- cn-- cn--", "cn-- cn-- cc--", "nn-C nn-C nn-C",
    "nnCC nnCC nnCC")
ROW("  zeros", write_zeros, EVERY, "c--- c--- cc--", "c--- c--- cc--", "nn-C nn-C nn-C",
    "nnCC nnCC nnCC")
ROW("read after free", read_freed, EVERY, "---- ---- ----", "---- ---- ----", "---C ---C ---C",
    "--CC --CC --CC")
ROW("link to static", link_to_static, EVERY, "!!-- !!-- !!--", "CC-- CC-- CC--", "nn-C nn-C nn-C",
    "nnCC nnCC nnCC")
ROW("  to a live block", link_to_live, EVERY, "!!-- !!-- !!--", "!!-- !!-- !!--", "nn-C nn-C nn-C",
    "nnCC nnCC nnCC")
ROW("  to no block", link_unaligned, EVERY, "CN-- CN-- CN--", "CN-- CC-- CC--", "nn-C nn-C nn-C",
    "nnCC nnCC nnCC")
ROW("  to itself", link_to_itself, EVERY, "!!-- !!-- !!--", "!!-- !!-- !!--", "nn-C nn-C nn-C",
    "nnCC nnCC nnCC")
ROW("reuse at once", reuse_at_once, EVERY, "!!!! !!!! !!!-", "!!!! !!!! !!!!", "---- ---- ----",
    "---- ---- ----")
ROW("write to malloc(0)", zero_size_write, ONE, "-... -... -...", "-... -... -...",
    "-... -... -...", "C... C... C...")
