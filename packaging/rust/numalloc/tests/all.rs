use std::alloc::{GlobalAlloc, Layout};
use std::io::ErrorKind;

use numalloc::{Heap, Mode, Numalloc, Place};

#[global_allocator]
static ALLOCATOR: Numalloc = Numalloc;

#[test]
fn blocks_are_numallocs() {
    let blocks: Vec<Box<[u8; 100]>> = (0..100).map(|_| Box::new([1; 100])).collect();
    assert!(blocks.iter().all(|block| numalloc::node_of(&**block).is_some()));
    assert_eq!(numalloc::node_of(&0u8), None, "the stack is nobody's");
}

#[test]
fn alignments() {
    for align in [1usize, 16, 64, 4096, 1 << 21] {
        for size in [1usize, 100, 5000, 100_000] {
            let layout = Layout::from_size_align(size, align).unwrap();
            unsafe {
                let block = ALLOCATOR.alloc_zeroed(layout);
                assert!(!block.is_null() && block as usize % align == 0);
                assert!(std::slice::from_raw_parts(block, size).iter().all(|&byte| byte == 0));
                block.write(7);
                let larger = ALLOCATOR.realloc(block, layout, size * 3);
                assert!(larger as usize % align == 0 && larger.read() == 7);
                ALLOCATOR.dealloc(larger, Layout::from_size_align(size * 3, align).unwrap());
            }
        }
    }
    let huge = Layout::from_size_align(isize::MAX as usize - 4095, 4096).unwrap();
    assert!(unsafe { ALLOCATOR.alloc(huge) }.is_null());
}

#[test]
fn figures() {
    let kept = vec![0u8; 10_000_000];
    assert!(numalloc::get("allocated").unwrap() >= kept.len() as u64);
    assert_eq!(numalloc::get("nonsense").unwrap_err().kind(), ErrorKind::NotFound);
    assert!(numalloc::get("a\0b").is_err());
    assert!(numalloc::figures().any(|(name, meaning)| name == "allocated" && !meaning.is_empty()));
    numalloc::set("option.purge_delay", 500).unwrap();
    assert_eq!(numalloc::get("option.purge_delay").unwrap(), 500);
    let json = numalloc::stats_json();
    assert!(json.starts_with('{') && json.trim_end().ends_with('}') && json.contains("\"allocated\""));
    assert!(!numalloc::version().is_empty());
}

#[test]
fn heaps() {
    let heap = Heap::new("mine", Place::Local).unwrap();
    let block = heap.alloc(Layout::new::<[u64; 100_000]>()).unwrap();
    let aligned = heap.alloc(Layout::from_size_align(10, 256).unwrap()).unwrap();
    assert!(heap.has(block) && aligned.as_ptr() as usize % 256 == 0);
    assert!(heap.stats().live >= 800_000 && heap.stats().large >= 800_000);
    unsafe {
        heap.free(block);
        heap.destroy();
    }
    assert!(Heap::new("nowhere", Place::Node(4_000)).is_err());
}

#[test]
fn profiles() {
    let file = std::env::temp_dir().join(format!("numalloc-test.{}.nprof", std::process::id()));
    assert!(numalloc::record(Mode::Sites, &file, "stats=1").is_err(), "no setting of a profile");
    let recording = numalloc::record(Mode::Sites, &file, "profile_frees=1").unwrap();
    recording.dump().unwrap();
    assert!(numalloc::record(Mode::Trace, &file, "").is_err(), "one runs");
    drop(recording);
    let copy = file.with_extension("nprof.1");
    assert!(std::fs::metadata(&file).unwrap().len() > 0 && std::fs::metadata(&copy).unwrap().len() > 0);
    std::fs::remove_file(file).unwrap();
    std::fs::remove_file(copy).unwrap();
}
