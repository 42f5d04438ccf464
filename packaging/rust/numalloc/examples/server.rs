//! A program whose memory is numalloc's: what it holds, a heap of its own, and a profile of a part.
use std::alloc::Layout;

#[global_allocator]
static ALLOCATOR: numalloc::Numalloc = numalloc::Numalloc;

fn main() -> std::io::Result<()> {
    let before = numalloc::get("allocated")?;
    let lines: Vec<String> = (0..10_000).map(|line| format!("line {line}")).collect();
    println!("{} lines, {} bytes more", lines.len(), numalloc::get("allocated")? - before);
    let heap = numalloc::Heap::new("graph", numalloc::Place::Local)?;
    heap.alloc(Layout::new::<[u64; 1000]>()).expect("memory");
    println!("heap: {} bytes live", heap.stats().live);
    let file = std::env::temp_dir().join(format!("numalloc.rust.{}.nprof", std::process::id()));
    let recording = numalloc::record(numalloc::Mode::Sites, &file, "")?;
    drop(lines);
    drop(recording);
    println!("numalloc {}: {} bytes of profile", numalloc::version(), std::fs::metadata(&file)?.len());
    std::fs::remove_file(file)
}
