/* empty_preload.c - a library that does nothing: what preloading anything at all costs, against
 * which the startup benchmark holds an allocator. It must have an object file's worth of content,
 * or some linkers leave it out. */
__attribute__((visibility("default"))) const char numalloc_empty_preload[] = "empty";
