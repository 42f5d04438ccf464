//! numalloc as the allocator of a Rust program, its heaps, its figures and its profiles.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: numalloc::Numalloc = numalloc::Numalloc;
//! println!("{} bytes live", numalloc::get("allocated").unwrap());
//! ```
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};

pub use numalloc_sys as sys;

/// As malloc and free: `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numalloc;

const MALLOC_ALIGN: usize = 16;

/// A size of 0 is no size here: GlobalAlloc asks for none.
fn rounded(layout: Layout) -> usize {
    layout.size().wrapping_add(layout.align() - 1) & !(layout.align() - 1)
}

unsafe impl GlobalAlloc for Numalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > MALLOC_ALIGN {
            return sys::aligned_alloc(layout.align(), rounded(layout)).cast();
        }
        sys::malloc(layout.size()).cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() > MALLOC_ALIGN {
            let block: *mut u8 = self.alloc(layout);
            if !block.is_null() {
                ptr::write_bytes(block, 0, layout.size());
            }
            return block;
        }
        sys::calloc(1, layout.size()).cast()
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGN {
            return sys::realloc(block.cast(), size).cast();
        }
        let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
            self.dealloc(block, layout);
        }
        moved
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        sys::free(block.cast());
    }
}

fn text(words: &str) -> io::Result<CString> {
    CString::new(words).map_err(|_| io::Error::from_raw_os_error(22)) // EINVAL
}

fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn string(text: *const sys::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Of the library that is loaded.
pub fn version() -> String {
    string(unsafe { sys::numalloc_version() })
}

/// A figure, "allocated" or "node.0.dirty": libnumalloc(3), or [`figures`].
pub fn get(name: &str) -> io::Result<u64> {
    let (name, mut value, mut size) = (text(name)?, 0u64, 8usize);
    checked(unsafe { sys::numalloc_get(name.as_ptr(), ptr::addr_of_mut!(value).cast(), &mut size) })?;
    Ok(value)
}

/// Sets one of the figures that begin with "option.".
pub fn set(name: &str, value: u64) -> io::Result<()> {
    checked(unsafe { sys::numalloc_set(text(name)?.as_ptr(), ptr::addr_of!(value).cast(), 8) })
}

/// Names of all figures and what they mean; N and SIZE stand for numbers.
pub fn figures() -> impl Iterator<Item = (String, String)> {
    (0..).map_while(|index| {
        let mut meaning = ptr::null();
        let name = unsafe { sys::numalloc_figure(index, &mut meaning) };
        if name.is_null() { None } else { Some((string(name), string(meaning))) }
    })
}

/// All figures as a JSON object.
pub fn stats_json() -> String {
    let mut room = vec![0u8; 1 << 14];
    loop {
        let length = unsafe { sys::numalloc_stats_json(room.as_mut_ptr().cast(), room.len()) };
        if length < room.len() {
            room.truncate(length);
            return String::from_utf8_lossy(&room).into_owned();
        }
        room.resize(length + 1024, 0);
    }
}

/// Gives free memory back to the system but `keep` bytes; the bytes given.
pub fn trim(keep: usize) -> usize {
    unsafe { sys::numalloc_trim(keep) }
}

/// The node that a block lies on.
pub fn node_of<T: ?Sized>(value: &T) -> Option<u32> {
    u32::try_from(unsafe { sys::numalloc_node_of((value as *const T).cast()) }).ok()
}

/// Where the memory of a heap lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Local,
    Node(u32),
    Interleaved,
    FirstTouch,
    Near,
    Far,
    Consumer,
}

/// A heap of the program's own: its blocks share pages with no others, and go with it.
#[derive(Debug)]
pub struct Heap(NonNull<sys::numalloc_heap_t>);

unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

/// Bytes of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapStats {
    pub live: u64,
    pub large: u64,
    pub in_spans: u64,
}

impl Heap {
    pub fn new(name: &str, place: Place) -> io::Result<Heap> {
        let name = text(name)?;
        let (place, node) = match place {
            Place::Local => (sys::NUMALLOC_HEAP_LOCAL, 0),
            Place::Node(node) => (sys::NUMALLOC_HEAP_NODE, node as i32),
            Place::Interleaved => (sys::NUMALLOC_HEAP_INTERLEAVED, 0),
            Place::FirstTouch => (sys::NUMALLOC_HEAP_FIRST_TOUCH, 0),
            Place::Near => (sys::NUMALLOC_HEAP_NEAR, 0),
            Place::Far => (sys::NUMALLOC_HEAP_FAR, 0),
            Place::Consumer => (sys::NUMALLOC_HEAP_CONSUMER, 0),
        };
        let options = sys::numalloc_heap_options_t {
            name: name.as_ptr(),
            place,
            node,
            nodes: ptr::null(),
            node_count: 0,
            flags: 0,
            size: std::mem::size_of::<sys::numalloc_heap_options_t>() as u32,
        };
        NonNull::new(unsafe { sys::numalloc_heap_create(&options) }).map(Heap).ok_or_else(io::Error::last_os_error)
    }

    /// A block, not initialised; it ends with [`Heap::free`], or with the heap. None: no memory.
    pub fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        let heap = self.0.as_ptr();
        let block = unsafe {
            if layout.align() > MALLOC_ALIGN {
                sys::numalloc_heap_aligned(heap, layout.align(), rounded(layout))
            } else {
                sys::numalloc_heap_malloc(heap, layout.size())
            }
        };
        NonNull::new(block.cast())
    }

    /// # Safety
    /// The block is of this heap, live, and used no more.
    pub unsafe fn free(&self, block: NonNull<u8>) {
        sys::free(block.as_ptr().cast());
    }

    pub fn has(&self, block: NonNull<u8>) -> bool {
        unsafe { sys::numalloc_heap_of(block.as_ptr().cast()) == self.0.as_ptr() }
    }

    pub fn trim(&self) -> usize {
        unsafe { sys::numalloc_heap_trim(self.0.as_ptr()) }
    }

    pub fn stats(&self) -> HeapStats {
        let mut found = std::mem::MaybeUninit::<sys::numalloc_heap_stats_t>::zeroed();
        let found = unsafe {
            sys::numalloc_heap_read_stats(self.0.as_ptr(), found.as_mut_ptr(), std::mem::size_of_val(&found));
            found.assume_init()
        };
        HeapStats { live: found.live, large: found.large, in_spans: found.in_spans }
    }

    /// Ends the heap and all its blocks; dropped, it stays for as long as the process, as blocks may
    /// be in use.
    ///
    /// # Safety
    /// No block of it is used any more.
    pub unsafe fn destroy(self) {
        sys::numalloc_heap_destroy(self.0.as_ptr());
    }
}

/// What a profile records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Default,
    Sites,
    Sample,
    Trace,
}

/// A profile that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct Recording(());

/// Begins a profile in `file`. `settings`: of this profile, "access=watch"; "": as the environment
/// says.
pub fn record(mode: Mode, file: &Path, settings: &str) -> io::Result<Recording> {
    use std::os::unix::ffi::OsStrExt;
    let file = CString::new(file.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(22))?;
    let settings = text(settings)?;
    let options = sys::numalloc_record_options_t {
        size: std::mem::size_of::<sys::numalloc_record_options_t>(),
        mode: mode as u32,
        file: file.as_ptr(),
        settings: settings.as_ptr(),
    };
    checked(unsafe { sys::numalloc_record_start_with(&options) })?;
    Ok(Recording(()))
}

impl Recording {
    /// A copy of the profile as it is now, with the next number behind its name.
    pub fn dump(&self) -> io::Result<()> {
        checked(unsafe { sys::numalloc_record_dump() })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        unsafe { sys::numalloc_record_stop() };
    }
}
