//! What <numalloc/numalloc.h> declares, which says what each of these does.
#![allow(non_camel_case_types)]

pub use std::os::raw::{c_char, c_int, c_uint, c_void};

/// Opaque.
#[repr(C)]
pub struct numalloc_heap_t {
    _private: [u8; 0],
}

pub const NUMALLOC_HEAP_LOCAL: c_uint = 0;
pub const NUMALLOC_HEAP_NODE: c_uint = 1;
pub const NUMALLOC_HEAP_INTERLEAVED: c_uint = 2;
pub const NUMALLOC_HEAP_FIRST_TOUCH: c_uint = 3;
pub const NUMALLOC_HEAP_NEAR: c_uint = 4;
pub const NUMALLOC_HEAP_FAR: c_uint = 5;
pub const NUMALLOC_HEAP_CONSUMER: c_uint = 6;
pub const NUMALLOC_HEAP_OWN_LINES: c_uint = 1;
pub const NUMALLOC_HEAP_HUGE_PAGES: c_uint = 2;

#[repr(C)]
pub struct numalloc_heap_options_t {
    pub name: *const c_char,
    pub place: c_uint,
    pub node: c_int,
    pub nodes: *const c_int,
    pub node_count: usize,
    pub flags: c_uint,
    pub size: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct numalloc_heap_stats_t {
    pub name: *const c_char,
    pub node: c_int,
    pub reserved: c_int,
    pub live: u64,
    pub large: u64,
    pub in_spans: u64,
}

pub const NUMALLOC_MODE_DEFAULT: c_uint = 0;
pub const NUMALLOC_MODE_SITES: c_uint = 1;
pub const NUMALLOC_MODE_SAMPLE: c_uint = 2;
pub const NUMALLOC_MODE_TRACE: c_uint = 3;

#[repr(C)]
pub struct numalloc_record_options_t {
    pub size: usize,
    pub mode: c_uint,
    pub file: *const c_char,
    pub settings: *const c_char,
}

extern "C" {
    pub fn malloc(size: usize) -> *mut c_void;
    pub fn calloc(count: usize, size: usize) -> *mut c_void;
    pub fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn free(block: *mut c_void);

    pub fn numalloc_version() -> *const c_char;
    pub fn numalloc_trim(keep: usize) -> usize;
    pub fn numalloc_get(name: *const c_char, value: *mut c_void, size: *mut usize) -> c_int;
    pub fn numalloc_set(name: *const c_char, value: *const c_void, size: usize) -> c_int;
    pub fn numalloc_figure(index: usize, meaning: *mut *const c_char) -> *const c_char;
    pub fn numalloc_stats_json(text: *mut c_char, size: usize) -> usize;

    pub fn numalloc_nodes(nodes: *mut c_int, most: c_int) -> c_int;
    pub fn numalloc_current_node() -> c_int;
    pub fn numalloc_node_of(address: *const c_void) -> c_int;
    pub fn numalloc_page_node(address: *const c_void) -> c_int;
    pub fn numalloc_set_thread_node(node: c_int) -> c_int;
    pub fn numalloc_clear_thread_node() -> c_int;

    pub fn numalloc_heap_create(options: *const numalloc_heap_options_t) -> *mut numalloc_heap_t;
    pub fn numalloc_heap_malloc(heap: *mut numalloc_heap_t, size: usize) -> *mut c_void;
    pub fn numalloc_heap_calloc(heap: *mut numalloc_heap_t, count: usize, size: usize) -> *mut c_void;
    pub fn numalloc_heap_aligned(heap: *mut numalloc_heap_t, alignment: usize, size: usize) -> *mut c_void;
    pub fn numalloc_heap_realloc(heap: *mut numalloc_heap_t, block: *mut c_void, size: usize) -> *mut c_void;
    pub fn numalloc_heap_trim(heap: *mut numalloc_heap_t) -> usize;
    pub fn numalloc_heap_destroy(heap: *mut numalloc_heap_t);
    pub fn numalloc_heap_of(block: *const c_void) -> *mut numalloc_heap_t;
    pub fn numalloc_heap_read_stats(heap: *mut numalloc_heap_t, stats: *mut numalloc_heap_stats_t, size: usize);

    pub fn numalloc_record_start_with(options: *const numalloc_record_options_t) -> c_int;
    pub fn numalloc_record_stop() -> c_int;
    pub fn numalloc_record_dump() -> c_int;
    pub fn numalloc_record_is_running() -> c_int;
    pub fn numalloc_record_marker(name: *const c_char);
}
