//! numalloc as the allocator of a Rust program.
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};

#[link(name = "numalloc")]
extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn numalloc_node_of(address: *const c_void) -> c_int;
    fn numalloc_version() -> *const c_char;
}

/// Straight to malloc where its alignment, 16, is enough. `System` calls what the C library calls
/// malloc, posix_memalign and free, which are numalloc's, too.
struct Numalloc;

unsafe impl GlobalAlloc for Numalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > 16 { System.alloc(layout) } else { malloc(layout.size()).cast() }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() > 16 { System.alloc_zeroed(layout) } else { calloc(1, layout.size()).cast() }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() > 16 { System.realloc(block, layout, size) } else { realloc(block.cast(), size).cast() }
    }
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        free(block.cast());
    }
}

#[global_allocator]
static ALLOCATOR: Numalloc = Numalloc;

fn main() {
    let lines: Vec<String> = (0..1000).map(|line| line.to_string()).collect();
    let wide = Box::new([0u8; 4096]);
    for block in [lines.as_ptr().cast(), lines[999].as_ptr().cast(), wide.as_ptr().cast()] {
        assert!(unsafe { numalloc_node_of(block) } >= 0, "a block is not numalloc's");
    }
    println!("numalloc {}", unsafe { CStr::from_ptr(numalloc_version()) }.to_string_lossy());
}
